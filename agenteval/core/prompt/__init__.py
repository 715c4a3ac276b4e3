"""The texts a model reads: variables of a seed, the prompt, its rules, its length, the profile.

Begin with `prompt`, filled with the variables of `variant`; `arm` is all else that a model reads.
"""
