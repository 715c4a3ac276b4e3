"""Void trials once a run is over: whose fault they are, and whether anything was measured."""

from collections import Counter
from collections.abc import Sequence

from agenteval.core.legible import visible
from agenteval.core.outcome import Outcome
from agenteval.core.run import Run
from agenteval.core.trial import Trial
from agenteval.errors import FAULTS, Cause, UsageError

_WHOSE = {
    Cause.AGENTEVAL: "a defect of agenteval",
    Cause.SCENARIO: "a slip of their scenario",
}


def faults(runs: Sequence[Run]) -> list[str]:
    """What broke trials that was a defect of ours or a slip of a scenario, in words."""
    lines = []
    struck = [(run, trial) for run in runs for trial in run.trials if trial.cause in FAULTS]
    causes = Counter(trial.cause for _, trial in struck)
    for cause, whose in _WHOSE.items():
        if causes[cause]:
            run, trial = next(one for one in struck if one[1].cause is cause)
            lines.append(_line(causes[cause], whose, run, trial))
    return lines


def check_usable(runs: Sequence[Run]) -> None:
    """Raises UsageError when the server broke every trial of a run: then nothing was measured."""
    for run in runs:
        reasons = [trial.reason for trial in run.trials if trial.outcome is Outcome.VOID]
        if reasons and len(reasons) == len(run.trials):
            raise UsageError(
                f"{run.model.name}: all {len(reasons)} trials are void, nothing was measured. The "
                f"first one: {reasons[0]}. Look at the server's log, then run again"
            )


def _line(count: int, whose: str, run: Run, trial: Trial) -> str:
    reason, _, trace = trial.reason.partition("\n")
    line = (
        f"{count} {'trial is' if count == 1 else 'trials are'} void by {whose}. The first one: "
        f"{trial.scenario} #{trial.number}, seed {trial.seed}: {visible(reason)}"
    )
    where = f"in the report, and in `reason` of `agenteval show {run.id} --json`"
    return f"{line}\nTraceback: {where}" if trace else line
