"""Something of a group that nobody here reads yet."""

LEAST_WORDS = "a criterion"
