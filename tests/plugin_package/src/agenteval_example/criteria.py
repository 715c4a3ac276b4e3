"""A criterion of somebody else's: trials in which the model made no call at all."""

from dataclasses import replace

import numpy as np

from agenteval.stats.criteria import TRIALS, Criterion
from agenteval.trial.summary import TrialSummary


def _silent(trial: TrialSummary) -> tuple[int, int]:
    return int(not trial.calls), 1


def _silenced(trial: TrialSummary, share: float, rng: np.random.Generator) -> TrialSummary:
    if rng.random() >= share:
        return trial
    return replace(trial, calls=0, errors={}, executed=0)


SILENT = Criterion("silent", TRIALS, "trials without a call, per 100", _silent, _silenced)
