"""What a model may do: the rules of an allow list, and what is wrong with them.

Begin with `policy`, which decides: it asks `bash` of commands, and `arguments` of other tools.
"""
