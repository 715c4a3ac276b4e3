"""The version, which the build and `agenteval --version` read here and nowhere else."""

__version__ = "0.1.0"
