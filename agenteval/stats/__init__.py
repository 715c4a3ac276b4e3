"""What can be said from these counts; by hand, with scipy and statsmodels as the tests' oracles."""
