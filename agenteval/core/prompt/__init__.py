"""What a model reads: the world of a seed, the prompt, its rules, its length, and the profile.

Begin with `prompt`, made in the world of `variant`; `arm` is all that is read beside it.
"""
