"""Reading shell: the gate and the leaves decide what may run, the facts explain what may not."""
