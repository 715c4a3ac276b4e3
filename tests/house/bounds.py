"""What `tests/house` allows: today's figure, to be lowered whenever it gets better; and the aim.

Without an aim a figure is only kept from growing.
"""

BOUNDS: dict[str, tuple[float, float | None]] = {
    "modules": (221, 220),
    "single importers": (33, 40),
    "modules in circles": (0, 0),
    "base names used more than once": (13, None),
    "imports inside functions": (44, None),
    "public names used at home alone": (25, 0),
    "lines a module, most": (600, 600),
    "lines a function, median": (8, 10),
    "lines a function, 9 of 10": (19, 26),
    "lines a function, most": (40, 40),
    "tokens a line of code": (8.97, 8.5),
    "lines a comment": (64.4, 50),
    "bare names: functions": (0, 0),
    "bare names: arguments": (4, 0),
    "bare names: variables": (20, 0),
    "metaphors": (0, 0),
    "docstrings without a verb or a noun": (0, 0),
    "broad excepts": (5, 5),
    "packages without a front door": (0, 0),
}

# Modules that a walk passes through, and calls back up into a module that imports the caller's.
# The aims are 18 modules for a verdict, 25 for a gate, and no step back up.
WALKS = {"a verdict": (19, 0), "a gate": (26, 0)}

# What nobody foresaw within a trial makes that one void, with its traceback: no reply of a model
# and no slip of a scenario may end the other trials of a run. A plug-in that cannot be loaded is
# named and left out. Inside a sandbox runs what somebody else wrote, whatever it raises. A hook
# that cannot judge answers as it was installed: without an answer a harness lets the call go on.
CATCH_EVERYTHING = {
    "agenteval.play.run",
    "agenteval.hook.judging",
    "agenteval.plugins",
    "agenteval.sandbox.inside.program_help",
    "agenteval.sandbox.inside.subject",
}
