"""Claude Code's rules for permissions, and what it allows without any: begin with `verdict`."""
