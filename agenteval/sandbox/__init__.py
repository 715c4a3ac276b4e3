"""Where an allowed command runs, and why nothing gets out."""
