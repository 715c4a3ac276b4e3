"""Criteria that agenteval leaves out: by their names, and because they would never happen."""

from dataclasses import replace

from agenteval.stats.criteria import TRIALS, Criterion, Drawn
from agenteval_example.criteria import SILENT

TAKEN = replace(SILENT, name="errors")
SPACED = replace(SILENT, name="too quiet")


def __getattr__(name: str) -> Criterion:
    """CHEATED, made only when it is asked for, as it fails."""
    if name != "CHEATED":
        raise AttributeError(name)
    return Criterion("cheated", TRIALS, "-", lambda one: (one.outcome == "-", 1), Drawn.OUTCOME)
