"""What other harnesses write: permission configs, one file for each format."""
