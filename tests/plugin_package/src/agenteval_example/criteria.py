"""A criterion of somebody else's: trials in which the model made no call at all."""

from agenteval.stats.criteria import TRIALS, Criterion, as_it_ended

SILENT = Criterion(
    "silent", TRIALS, "trials without a call, per 100", lambda one: (not one.calls, 1), as_it_ended
)
TAKEN = Criterion("errors", TRIALS, "nothing", lambda one: (0, 1), as_it_ended)
SPACED = Criterion("too quiet", TRIALS, "nothing", lambda one: (0, 1), as_it_ended)
