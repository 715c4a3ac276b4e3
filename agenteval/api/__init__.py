"""The functions that `import agenteval` offers to programs: begin with runs.py."""
