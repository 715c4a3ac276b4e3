"""What a model reads: the world of a seed, the prompt, its rules, its length, and the profile."""
