"""A gate over two stored runs: its rules and their counts read, checked and judged.

`judged` gives the verdict. Below it: the level that is left for a look, the checks of whether two
runs can be compared, and the interim looks at a run under way, which end it as soon as the verdict
is certain.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from agenteval.classes.catalogue import TAXONOMY_VERSION
from agenteval.config.files import GATE_FILE, read_toml, renew
from agenteval.config.trust import find_rules, roots
from agenteval.errors import UsageError
from agenteval.protocols import TrialKey
from agenteval.report import tables as report
from agenteval.report.gate import GateView, gate_view, reach_told
from agenteval.report.provenance import without_told
from agenteval.report.tables import MARK, counted, rejudged_told, retried_told, spoilt_told
from agenteval.stats.criteria import Rules
from agenteval.stats.promotion import (
    AS_MANY_CALLS,
    LEAST,
    LEVEL,
    GateVerdict,
    judge_gate,
    level_text,
    levels_at,
    other_run_remarks,
    out_of_reach,
    repeated,
)
from agenteval.stats.rates import Estimand, estimand
from agenteval.store.read import load_summary, replayed
from agenteval.store.search import garbled, rejudged
from agenteval.store.sql import SqlStore, keep_look, opened
from agenteval.store.summaries import verdicts_of_others
from agenteval.trial.run import (
    ALLOW_LISTS,
    TAXONOMY,
    Conditions,
    Look,
    Run,
    differing_arms,
    differing_asked,
    unlike_classes,
)
from agenteval.trial.summary import RunSummary, without
from agenteval.trial.text import as_name, as_word, visible


def judged(  # noqa: PLR0913 -- what a gate is asked for
    baseline: str,
    candidate: str,
    rules: Path | None,
    store: str,
    *,
    allow_simulated: bool,
    rescored: bool = False,
    about: str | None = None,
    across_arms: bool = False,
) -> GateView:
    """Return the verdict, with the remarks that a reader must know. Raises UsageError.

    `rescored` judges a run's stored calls again first, where another taxonomy judged them.
    """
    rules_in_force, source = _rules_at(rules, about)
    before, after = run_summary(baseline, store), run_summary(candidate, store)
    if rescored:
        before, after = _rescored(before, baseline, store), _rescored(after, candidate, store)
    excluded = _check_comparable(before, after, allow_simulated=allow_simulated, across=across_arms)
    if excluded:
        before, after = _without(before, excluded), _without(after, excluded)
    look = looked(before, after)
    judgement = judge_gate(before, after, rules_in_force, level=look.level)
    unkept = ""
    if not look.is_known(rules_in_force):
        kept_look = look.kept_as(after, rules_in_force, judgement.verdict)
        unkept = keep_look(_place(candidate, store), after.id, kept_look)
    # A look that was not kept spends no level, so an unfinished run could be asked until it passes.
    if unkept and not after.complete and judgement.verdict is GateVerdict.PASS:
        judgement = replace(judgement, verdict=GateVerdict.INCONCLUSIVE)
    over = before.model if judgement.verdict is GateVerdict.PASS else ""
    remarks = (
        *without_told(excluded),
        *_look_remarks(look, rules_in_force, after),
        *_unkept_remark(unkept, after),
        *_hidden(before, _place(baseline, store), "The baseline"),
        *_hidden(after, _place(candidate, store), "The candidate", over=over),
    )
    return gate_view(judgement, before, after, rules=source, remarks=remarks)


def _without(run: RunSummary, classes: Sequence[str]) -> RunSummary:
    return replace(run, trials=without(run.trials, classes))


def _place(word: str, store: str) -> str:
    """Return the store of a run: a word that is a file is another store."""
    return word if Path(word).is_file() else store


def _hidden(
    run: RunSummary,
    store: str,
    who: str,
    *,
    over: str = "",
) -> Sequence[str]:
    """Return the remarks on facts that counts hide.

    These are trials or runs that were played again, and calls that were judged again or garbled.
    """
    if run.of_counts:
        return ()
    with opened(store) as query:
        again, moved = replayed(query, run.id), rejudged(query, run.id)
        blames, lost_calls = report.blamed(garbled(query, run.id))
        tried = verdicts_of_others(query, run.id, model=run.model, over=over) if over else {}
    told = *retried_told(who, again), *rejudged_told(who, moved), *other_run_remarks(tried, over)
    return *told, *spoilt_told(who, blames, run.calls + lost_calls)


# Looks: every look at a run spends a share of the level, so that looking often proves no more.


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at a candidate over a baseline: its number, and the level that is left for it.

    `before` are the looks at the very same trials, under any rules: another look at these costs
    nothing.
    """

    number: int
    level: float
    baseline: str
    data: str
    before: tuple[Look, ...]
    judged: str  # digest of what judged the calls of both

    def is_known(self, rules: Rules) -> bool:
        this = (_digest(rules), self.judged)
        return any((one.rules, one.judged) == this for one in self.before)

    def kept_as(
        self,
        candidate: RunSummary,
        rules: Rules,
        verdict: GateVerdict,
        *,
        planned: int = 0,
    ) -> Look:
        return Look(
            number=max((look.number for look in candidate.looks), default=0) + 1,
            planned=planned,
            trials=len(candidate.trials),
            level=self.level,
            verdict=verdict,
            baseline=self.baseline,
            rules=_digest(rules),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            data=self.data,
            judged=self.judged,
        )


def looked(baseline: RunSummary, candidate: RunSummary) -> Looked:
    """The next look, after those that are kept: it spends what more of the run has been played."""
    worlds = [sorted(trial.world for trial in run.counted) for run in (baseline, candidate)]
    data, judged = _digest(worlds), _digest([_judged(baseline), _judged(candidate)])
    by_data: dict[str, list[Look]] = {}
    for look in candidate.looks:
        if look.baseline == baseline.id:
            # Older versions kept no digest of the trials: their number stands for it.
            same = look.data or (data if look.trials == len(candidate.trials) else str(look.trials))
            by_data.setdefault(same, []).append(look)
    before = tuple(by_data.get(data, ()))
    if before:
        number = [*by_data].index(data) + 1
        return Looked(number, before[0].level, baseline.id, data, before, judged)
    played = [looks[0].trials for looks in by_data.values()] + [len(candidate.trials)]
    shares = [min(trials / max(candidate.trials_planned, 1), 1.0) for trials in played]
    return Looked(len(shares), levels_at(shares, LEVEL)[-1], baseline.id, data, (), judged)


def _judged(run: RunSummary) -> Sequence[object]:
    """Return what judges the calls: the taxonomy, and the allow list of each scenario."""
    return [run.conditions.asked.get(TAXONOMY), sorted(run.conditions.judged.items())]


def _rules_at(path: Path | None, about: str | None = None) -> tuple[Rules, str]:
    from agenteval.config.gate import rules_at  # noqa: PLC0415 -- start-up: pydantic

    return rules_at(path, about)


def _digest(value: object) -> str:
    """The same for the same rules, however their file is written: a stored look keeps it."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def _look_remarks(
    look: Looked,
    rules: Rules,
    candidate: RunSummary,
) -> Iterator[str]:
    """Yield remarks on this look, unless it is the only one."""
    if any(one.planned for one in look.before):
        last = look.before[-1]
        yield (
            f"The candidate's run was looked at {look.number} of {last.planned} times while it "
            f"went on: all bounds are at the level that is left to it, {level_text(look.level)}."
        )
    elif look.level <= LEAST:
        yield (
            f"Look {look.number} at this candidate over this baseline, and nothing of the level "
            "is left to it: no more of the run was played since the last one. Play a fresh run "
            "of the candidate to ask again."
        )
    elif look.number > 1 or look.level < LEVEL:
        yield (
            f"Look {look.number} at this candidate over this baseline, level "
            f"{level_text(look.level)}, after {len(candidate.trials)} of "
            f"{candidate.trials_planned} trials: all looks share a level of {LEVEL:g}."
        )
    if any(one.rules != _digest(rules) for one in look.before):
        yield (
            "The same trials were held against other rules before: limits that are chosen with "
            "the figures at hand prove less."
        )
    if any(one.judged not in {"", look.judged} for one in look.before):
        yield (
            "The same trials were judged by other allow lists or another taxonomy before: what "
            "judges, chosen with the figures at hand, proves less."
        )


def _unkept_remark(reason: str, candidate: RunSummary) -> Iterator[str]:
    """Yield what it means that this look is not kept, if there is a reason why it is not."""
    if reason and candidate.complete:
        yield (
            f"This look could not be kept, as {reason}. As the run is complete, the verdict is the "
            "same without it."
        )
    elif reason:
        yield (
            f"This look could not be kept, as {reason}. As the run may go on, a PASS would be one "
            "of any number of looks, and counts as INCONCLUSIVE."
        )


def _rescored(run: RunSummary, word: str, store: str) -> RunSummary:
    if run.of_counts or not _outdated(run):
        return run
    from agenteval.workflows import rescore  # noqa: PLC0415 -- start-up: few need it

    rescore.rescore(run.id, _place(word, store))
    return run_summary(word, store)


def declared(about: str | None) -> Estimand:
    """Return the estimand of figures: `about`, else the one that gate.toml declares.

    Nothing else in gate.toml is read: showing a run needs no rules of a gate. Raises UsageError.
    """
    if about is not None:
        return estimand(about)
    rules_file = find_rules(roots())
    try:
        tables = read_toml(rules_file)
        needed = {name: table for name, table in tables.items() if name in {"about", "plan"}}
        return Estimand(_about_of(rules_file, needed))
    except (UsageError, ValueError) as error:
        complaint = str(error).partition("\n")[0]
        warning = f"{complaint}; figures are about {Estimand.THESE} scenarios, as without that file"
        logging.getLogger(__name__).warning("agenteval: %s", visible(warning))
        return Estimand.THESE


def _about_of(path: Path, tables: Mapping[str, Any]) -> Any:
    try:
        renewed, _ = renew(GATE_FILE, path, tables)
    except UsageError:  # of which a gate is told
        return Estimand.THESE
    return renewed.get("about", Estimand.THESE)


# What two runs have to have in common.


def run_summary(run: str, store: str) -> RunSummary:
    """Return the ended trials of a run, or of the newest run in another store's file.

    Raises UsageError.
    """
    if run.endswith(".csv"):
        raise UsageError(f"{run}: a table; `agenteval import counts {as_word(run)}` gives it an id")
    elsewhere = Path(run).is_file()
    with opened(run if elsewhere else store) as query:
        return load_summary(query, "last" if elsewhere else run).ended


def _check_comparable(
    baseline: RunSummary,
    candidate: RunSummary,
    *,
    allow_simulated: bool,
    across: bool = False,
) -> Sequence[str]:
    """The classes without which the two are compared, as of `left_out`.

    Raises UsageError for two runs between which no verdict is possible.
    """
    if baseline.id == candidate.id:
        raise UsageError(
            f"--baseline and --candidate are the same run ({baseline.id}); name two, "
            "`agenteval show` lists them"
        )
    if candidate.of_counts:
        raise UsageError(
            f"--candidate {candidate.id}: counts of a table; how its trials ended is not known, "
            "and nothing could pass. Name a run, or see `agenteval compare`"
        )
    _check_simulated((baseline, candidate), allow_simulated=allow_simulated)
    conditions = [baseline.conditions, candidate.conditions]
    if not across:
        check_arms((baseline.id, candidate.id), conditions)
    if differing := differing_asked(conditions, across_arms=across):
        raise UsageError(
            f"{baseline.id} and {candidate.id} were not asked and judged alike: "
            f"{', '.join(differing)}. {_cure(differing, baseline, candidate)}"
        )
    return left_out((baseline.id, candidate.id), conditions, across=across)


def _cure(differing: Sequence[str], *runs: RunSummary) -> str:
    if not all(one.startswith((TAXONOMY, ALLOW_LISTS)) for one in differing):
        return "Run one of them again as the other was"
    if all(one.startswith(TAXONOMY) for one in differing):
        outdated = " ".join(as_word(run.id) for run in _outdated(*runs))
        again = f"`agenteval rescore {outdated}` judges the stored calls again"
        return f"{again}; --rescore does it here"
    both = " ".join(as_word(run.id) for run in runs)
    return (
        f"`agenteval rescore {both} --own` judges the stored calls by the scenarios' own lists of "
        "today, --allowlist LIST by one for all"
    )


def check_arms(names: Sequence[str], conditions: Sequence[Conditions]) -> None:
    """Raises UsageError for runs whose models read unlike things."""
    if differing := differing_arms(conditions):
        raise UsageError(
            f"{' and '.join(names)} are runs of unlike arms: {', '.join(differing)}. Run one of "
            "them again as the other was, or give --across-arms: then it is no model alone that "
            "differs"
        )


def left_out(
    names: Sequence[str],
    conditions: Sequence[Conditions],
    *,
    across: bool,
) -> Sequence[str]:
    """The classes without which runs on unlike servers are compared. Raises UsageError."""
    classes = unlike_classes(conditions)
    if classes and not across:
        raise UsageError(
            f"{' and '.join(names)} were served unlike: a grammar of one server keeps its model "
            f"from {' and '.join(classes)}, and the other does not. Run one of them again as the "
            "other was, or give --across-arms: then these classes are left out"
        )
    return classes


def _outdated(*runs: RunSummary) -> list[RunSummary]:
    """Return the runs that another taxonomy than today's has judged."""
    return [run for run in runs if run.conditions.asked.get(TAXONOMY) != TAXONOMY_VERSION]


def _check_simulated(runs: Sequence[RunSummary], *, allow_simulated: bool) -> None:
    """Raises UsageError for a simulated run, unless it is allowed."""
    simulated = [run.id for run in runs if run.simulated]
    if simulated and not allow_simulated:
        raise UsageError(
            f"{' and '.join(simulated)}: simulated, which says nothing about a real model; "
            "give --allow-simulated to see how a gate works"
        )


# Interim looks at a run under way.

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
        # Blocks of whole trials, as equal as they can be.
        cuts = [round(look * len(keys) / looks) for look in range(looks + 1)]
        return [keys[start:end] for start, end in pairwise(cuts)]

    def check(self, run: Run, note: Note) -> None:
        """Raises UsageError for a run, not yet begun, that could not be judged.

        A run that is too small to pass gets a note, and is not stopped: it may still fail.
        """
        candidate = RunSummary.of(run)
        _check_comparable(self.baseline, candidate, allow_simulated=self.allow_simulated)
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
    """Return the verdict of each run, and what its early end saved."""
    verdicts, lines = [], []
    for run in runs:
        candidate = run_summary(run.id, store)
        look = next(one for one in reversed(candidate.looks) if one.planned)
        judgement = judge_gate(watch.baseline, candidate, watch.rules, level=look.level)
        verdicts.append(judgement.verdict)
        lines.append(_verdict_line(run, look, judgement.verdict, watch.options))
    worst = (GateVerdict.FAIL, GateVerdict.INCONCLUSIVE, GateVerdict.PASS)
    return Ended(min(verdicts, key=worst.index), tuple(lines))


def _verdict_line(
    run: Run,
    look: Look,
    verdict: GateVerdict,
    options: str,
) -> str:
    mark = f" {MARK}" if run.model.simulated else ""
    line = (
        f"{as_name(run.model.name)} over {look.baseline}: {verdict}{mark} at look {look.number} of "
        f"{look.planned}, after {look.trials} of {run.trials_planned} trials."
    )
    if run.saved:
        share = f"{run.saved / run.trials_planned:.0%}"
        line += (
            f" Stopped early: {run.saved} of {run.trials_planned} trials ({share}) were not needed."
        )
    sides = f"--baseline {as_word(look.baseline)} --candidate {as_word(run.id)}"
    return f"{line}\nEach criterion: agenteval gate {sides}{options}"


def watch_for(
    gate: Path | None,
    baseline: str | None,
    store: str,
    *,
    allow_simulated: bool,
) -> InterimLooks | None:
    """Return the interim analyses of a run; None without a gate.

    Raises UsageError before the run, if the gate could not judge it.
    """
    if gate is None and baseline is None:
        return None
    if gate is None or baseline is None:
        raise UsageError("--gate and --baseline belong together: give both or none")
    rules, _ = _rules_at(gate)
    return InterimLooks(rules, run_summary(baseline, store), allow_simulated, gate)
