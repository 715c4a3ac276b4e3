"""Interim looks of a gate at a run under way, which end it as soon as the verdict is certain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from agenteval.config.gate_rules import rules_at
from agenteval.core.plain import as_name, as_word
from agenteval.core.run import Look, Run
from agenteval.core.summary import RunSummary
from agenteval.errors import UsageError
from agenteval.protocols import TrialKey
from agenteval.report.gate_view import reach_told
from agenteval.report.tables import MARK, counted
from agenteval.stats.criteria import Rules
from agenteval.stats.feasibility import AS_MANY_CALLS, out_of_reach, repeated
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.store.sql import SqlStore
from agenteval.workflows.gating import check_comparable, looked, run_summary

Note = Callable[[str], None]  # told a line while the run goes on


@dataclass(frozen=True, slots=True)
class InterimLooks:
    """Looks after equal blocks of the run, each at its share of the level (O'Brien and Fleming)."""

    rules: Rules
    baseline: RunSummary
    allow_simulated: bool
    source: Path | None = None  # the file of the rules, where one was named

    @property
    def options(self) -> str:
        """The options of `agenteval gate` that judge the run again by the same rules."""
        rules = f" --gate {as_word(str(self.source))}" if self.source else ""
        return rules + (" --allow-simulated" if self.allow_simulated else "")

    def blocks(self, keys: Sequence[TrialKey]) -> list[Sequence[TrialKey]]:
        """The keys in their order, cut where a look is planned."""
        looks = min(self.rules.looks, len(keys))
        cuts = [round(look * len(keys) / looks) for look in range(looks + 1)]
        return [keys[start:end] for start, end in pairwise(cuts)]

    def check(self, run: Run, note: Note) -> None:
        """Raises UsageError for a run, not yet begun, that could not be judged.

        A run that is too small to pass gets a note, and is not stopped: it may still fail.
        """
        candidate = RunSummary.of(run)
        check_comparable(self.baseline, candidate, allow_simulated=self.allow_simulated)
        like = repeated(self.baseline, run.trials_planned, self.rules.about)
        for one in out_of_reach(self.baseline, like, self.rules):
            line = f"{one.name.removeprefix('budgets.')}: {reach_told(one)}"
            never = f"cannot PASS {AS_MANY_CALLS}" if one.by_calls else "can never PASS"
            note(f"{run.model.name}: this run {never}. {line}")

    def settled(self, run_id: str, store: SqlStore, note: Note) -> bool:
        """Look at the run so far, store the look, and return True if the verdict is certain."""
        candidate = run_summary(run_id, store.url)
        planned = min(self.rules.looks, candidate.trials_planned)
        current_look = looked(self.baseline, candidate)
        verdict = judge_gate(self.baseline, candidate, self.rules, level=current_look.level).verdict
        look = current_look.kept_as(candidate, self.rules, verdict, planned=planned)
        store.look(run_id, look)
        done = verdict is not GateVerdict.INCONCLUSIVE
        note(_look_line(look, candidate, done=done))
        return done


def _look_line(look: Look, candidate: RunSummary, *, done: bool) -> str:
    early = "; the run ends here" if done and look.trials < candidate.trials_planned else ""
    return (
        f"{candidate.model}: look {look.number} of {look.planned} after "
        f"{counted(look.trials, 'trial')}: {look.verdict}{early}"
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """The verdict of the worst of some runs, and a line about each of them."""

    verdict: GateVerdict
    lines: tuple[str, ...]


def ended(watch: InterimLooks, runs: Sequence[Run], store: str) -> Ended:
    """Each run's verdict, and what its early end saved."""
    verdicts, lines = [], []
    for run in runs:
        candidate = run_summary(run.id, store)
        look = next(one for one in reversed(candidate.looks) if one.planned)
        judgement = judge_gate(watch.baseline, candidate, watch.rules, level=look.level)
        verdicts.append(judgement.verdict)
        lines.append(_verdict_line(run, look, judgement.verdict, watch.options))
    worst = (GateVerdict.FAIL, GateVerdict.INCONCLUSIVE, GateVerdict.PASS)
    return Ended(min(verdicts, key=worst.index), tuple(lines))


def _verdict_line(run: Run, look: Look, verdict: GateVerdict, options: str) -> str:
    mark = f" {MARK}" if run.model.simulated else ""
    saved = (
        f" Stopped early: {run.saved} of {run.trials_planned} trials "
        f"({run.saved / run.trials_planned:.0%}) were not needed."
        if run.saved
        else ""
    )
    return (
        f"{as_name(run.model.name)} over {look.baseline}: {verdict}{mark} at look {look.number} of "
        f"{look.planned}, after {look.trials} of {run.trials_planned} trials.{saved}\n"
        f"Each criterion: agenteval gate --baseline {as_word(look.baseline)} "
        f"--candidate {as_word(run.id)}"
        f"{options}"
    )


def watch_for(
    gate: Path | None, baseline: str | None, store: str, *, allow_simulated: bool
) -> InterimLooks | None:
    """None without a gate. Raises UsageError, before the run, for what could not be judged."""
    if gate is None and baseline is None:
        return None
    if gate is None or baseline is None:
        raise UsageError("--gate and --baseline belong together: give both or none")
    rules, _ = rules_at(gate)
    return InterimLooks(rules, run_summary(baseline, store), allow_simulated, gate)
