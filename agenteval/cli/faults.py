"""Trials that a defect of ours or a slip of a scenario broke: told at the end, by an exit code."""

from collections import Counter
from collections.abc import Sequence

import typer

from agenteval.core.run import Run
from agenteval.core.trial import Trial
from agenteval.errors import FAULTS, Cause

FAULT = 4  # the exit code of a run with such trials
_WHOSE = {
    Cause.AGENTEVAL: "a defect of agenteval",
    Cause.SCENARIO: "a slip of their scenario",
}


def tell_faults(runs: Sequence[Run]) -> int:
    """Say on standard error what broke trials; the exit code, 0 when nothing did."""
    struck = [(run, trial) for run in runs for trial in run.trials if trial.cause in FAULTS]
    causes = Counter(trial.cause for _, trial in struck)
    for cause, whose in _WHOSE.items():
        if causes[cause]:
            run, trial = next(one for one in struck if one[1].cause is cause)
            typer.echo(_line(causes[cause], whose, run, trial), err=True)
    return FAULT if struck else 0


def _line(count: int, whose: str, run: Run, trial: Trial) -> str:
    reason, _, trace = trial.reason.partition("\n")
    line = (
        f"{count} {'trial is' if count == 1 else 'trials are'} void by {whose}. The first one: "
        f"{trial.scenario} #{trial.number}, seed {trial.seed}: {reason}"
    )
    where = f"in the report, and in `reason` of `agenteval show {run.id} --json`"
    return f"{line}\nTraceback: {where}" if trace else line
