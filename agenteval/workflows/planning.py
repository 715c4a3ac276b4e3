"""The size of a run that is still to be made, and the hours it would take."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agenteval.core.summary import RunSummary
from agenteval.errors import UsageError
from agenteval.stats.criteria import Rules
from agenteval.stats.planning import MOST_TRIALS, Rehearsal, Size
from agenteval.workflows.explaining import SEED, in_words, rehearsal_of
from agenteval.workflows.gating import run_summary

PAIRS = 1_000
SCHEMA = "agenteval.plan/1"


@dataclass(frozen=True, slots=True)
class Planned:
    """What is needed; `size` is None when no run of a sensible size would do."""

    run: RunSummary
    rehearsal: Rehearsal
    size: Size | None

    @property
    def calls_per_minute(self) -> float | None:
        """By the clock, with as many trials at the same time as the run had; None: not known."""
        calls = sum(trial.calls for trial in self.run.counted)
        return 60 * calls / self.run.seconds if self.run.seconds else None

    @property
    def hours(self) -> float | None:
        pace = self.calls_per_minute
        return self.size.calls / pace / 60 if self.size and pace else None

    def document(self) -> dict[str, Any]:
        """Its keys stay, and are told in docs/json.md."""
        size, rules = self.size, self.rehearsal.rules
        return {
            "schema": SCHEMA,
            "baseline": self.run.id,
            "simulated": self.run.simulated,
            "margin": rules.margin,
            "ratio": rules.ratio,
            "over": rules.over,
            "rate": self.rehearsal.baseline.errors,
            "clustering": asdict(self.rehearsal.design.clustering),
            "trials": size.trials if size else None,
            "calls": size.calls if size else None,
            "power": {"value": size.power.value, "n": size.power.n} if size else None,
            "calls_per_minute": self.calls_per_minute,
            "hours": self.hours,
        }


def planned(baseline: str, store: str, *, margin: float | None, ratio: float | None) -> Planned:
    """Raises UsageError."""
    if margin is not None and not 0 < margin < 100:
        raise UsageError(f"--margin {margin:g}: points per 100 calls, between 0 and 100")
    if ratio is not None and ratio <= 1:
        raise UsageError(f"--ratio {ratio:g}: above 1; 1.5 allows half as many errors more")
    run = run_summary(baseline, store)
    rules = Rules(ratio or (margin or 0) / 100, ratio=ratio is not None)
    rehearsal = replace(rehearsal_of(run, rules), pairs=PAIRS)
    if ratio is not None and not rehearsal.baseline.errors:
        raise UsageError(f"{run.id}: made no errors, and no ratio to none exists; give --margin")
    return Planned(run, rehearsal, rehearsal.needed(np.random.default_rng(SEED)))


def sentences(found: Planned) -> str:
    rules, size = found.rehearsal.rules, found.size
    asked = f"{rules.margin:g} times" if rules.ratio else f"{100 * rules.margin:g} points"
    mark = " SIMULATED" if found.run.simulated else ""
    lines = [f"Like {found.run.id}{mark}: {in_words(found.rehearsal)}."]
    if size is None:
        lines.append(
            f"More than {MOST_TRIALS:,} trials would be needed to prove a margin of {asked}: "
            "ask for a wider one."
        )
        return "\n".join(lines)
    lines.append(
        f"To prove that an equally good model is no worse by {asked}: {size.trials:,} trials, "
        f"about {size.calls:,} calls, of each model in the same worlds. Simulated power "
        f"{size.power}, of runs clustered by {str(rules.over).removesuffix('s')}."
    )
    if found.hours is not None and found.calls_per_minute is not None:
        lines.append(
            f"At the measured {found.calls_per_minute:,.0f} calls per minute "
            f"(concurrency {found.run.concurrency}) that takes {_time(found.hours)} per model."
        )
    else:
        lines.append(
            "How long that takes is not known: the time of this run was not kept (a table, a run "
            "that was cut off, or one of an older version)."
        )
    return "\n".join(lines)


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
