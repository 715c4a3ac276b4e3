"""The place where an allowed command runs, and the walls around it.

Begin with `backends`; `probe` says whether one holds, and `inside` is what runs beyond the border.
"""
