"""The texts a model reads: variables of a seed, the prompt, its rules, its length, the profile.

Begin with `prompt`, filled with the variables of a seed; `arm` is all else that a model reads.
"""
