"""What `import agenteval` offers to programs: begin with runs.py."""
