"""Where an allowed command runs, and why nothing gets out.

Begin with `backends`; `probe` says whether one holds, and `inside` is what runs beyond the border.
"""
