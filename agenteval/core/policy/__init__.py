"""What a model may do: the rules of an allow list, and what is wrong with them."""
