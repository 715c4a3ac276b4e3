"""The rules of an allow list: what a model may do, and what is wrong with a denied call.

Begin with `policy`, which decides: it asks `rules` about commands.
"""
