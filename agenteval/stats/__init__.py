"""What can be said from these counts: over scipy and statsmodels, not by hand."""
