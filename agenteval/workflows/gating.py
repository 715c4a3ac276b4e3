"""A gate over two stored runs: its rules and their counts read, checked and judged."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agenteval import config, report, workflows
from agenteval.config.dropped_keys import renew
from agenteval.config.project_files import GATE_FILE
from agenteval.config.roots import find_rules, roots
from agenteval.config.toml import read_toml
from agenteval.core.differing import differing_arms, differing_asked, unlike_classes
from agenteval.core.plain import as_word, visible
from agenteval.core.run import ALLOW_LISTS, TAXONOMY, Conditions, Look
from agenteval.core.summary import RunSummary, without
from agenteval.errors import UsageError
from agenteval.report.gate_view import GateView, gate_view
from agenteval.report.provenance import without_told
from agenteval.report.voids import rejudged_told, retried_told, spoilt_told
from agenteval.stats.alpha_spending import LEAST, level_text, levels_at, other_run_remarks
from agenteval.stats.criteria import Rules
from agenteval.stats.estimand import Estimand, estimand
from agenteval.stats.promotion import LEVEL, GateVerdict, judge_gate
from agenteval.store.listed import verdicts_of_others
from agenteval.store.loading import load_summary
from agenteval.store.sql import keep_look
from agenteval.store.summaries import opened
from agenteval.store.tallies import garbled, rejudged, replayed
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION


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
    rules_in_force, source = config.gate_rules.rules_at(rules, about)
    before, after = run_summary(baseline, store), run_summary(candidate, store)
    if rescored:
        before, after = _rescored(before, baseline, store), _rescored(after, candidate, store)
    excluded = check_comparable(
        before, after, allow_simulated=allow_simulated, across_arms=across_arms
    )
    if excluded:
        before, after = _without(before, excluded), _without(after, excluded)
    look = looked(before, after)
    judgement = judge_gate(before, after, rules_in_force, level=look.level)
    unkept = ""
    if not look.is_known(rules_in_force):
        seen = look.kept_as(after, rules_in_force, judgement.verdict)
        unkept = keep_look(_place(candidate, store), after.id, seen)
    if unkept and not after.complete and judgement.verdict is GateVerdict.PASS:
        judgement = replace(judgement, verdict=GateVerdict.INCONCLUSIVE)
    over = before.model if judgement.verdict is GateVerdict.PASS else ""
    remarks = (
        *without_told(excluded),
        *_look_remarks(look, rules_in_force, after, unkept),
        *_hidden(before, _place(baseline, store), "The baseline"),
        *_hidden(after, _place(candidate, store), "The candidate", over=over),
    )
    return gate_view(judgement, before, after, rules=source, remarks=remarks)


def _without(run: RunSummary, classes: Sequence[str]) -> RunSummary:
    return replace(run, trials=without(run.trials, classes))


def _place(word: str, store: str) -> str:
    """Return the store of a run: a word that is a file is another store."""
    return word if Path(word).is_file() else store


def _hidden(run: RunSummary, store: str, who: str, *, over: str = "") -> Sequence[str]:
    """Return the remarks on facts that counts hide.

    These are trials or runs that were played again, and calls that were judged again or garbled.
    """
    if run.of_counts:
        return ()
    with opened(store) as query:
        again, moved = replayed(query, run.id), rejudged(query, run.id)
        blames, lost = report.arrivals.blamed(garbled(query, run.id))
        tried = verdicts_of_others(query, run.id, model=run.model, over=over) if over else {}
    told = *retried_told(who, again), *rejudged_told(who, moved), *other_run_remarks(tried, over)
    return *told, *spoilt_told(who, blames, run.calls + lost)


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
        this = (config.gate_rules.digest(rules), self.judged)
        return any((one.rules, one.judged) == this for one in self.before)

    def kept_as(
        self, candidate: RunSummary, rules: Rules, verdict: GateVerdict, *, planned: int = 0
    ) -> Look:
        return Look(
            number=max((look.number for look in candidate.looks), default=0) + 1,
            planned=planned,
            trials=len(candidate.trials),
            level=self.level,
            verdict=verdict,
            baseline=self.baseline,
            rules=config.gate_rules.digest(rules),
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
    """By what its calls are judged: the taxonomy, and the allow list of each scenario."""
    return [run.conditions.asked.get(TAXONOMY), sorted(run.conditions.judged.items())]


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def _look_remarks(look: Looked, rules: Rules, candidate: RunSummary, unkept: str) -> Iterator[str]:
    """Yield remarks on this look, unless it is the only one; `unkept` says why it is not kept."""
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
    if any(one.rules != config.gate_rules.digest(rules) for one in look.before):
        yield (
            "The same trials were held against other rules before: limits that are chosen with "
            "the figures at hand prove less."
        )
    if any(one.judged not in {"", look.judged} for one in look.before):
        yield (
            "The same trials were judged by other allow lists or another taxonomy before: what "
            "judges, chosen with the figures at hand, proves less."
        )
    if unkept:
        consequence = (
            "As the run may go on, a PASS would be one of any number of looks, and counts as "
            "INCONCLUSIVE."
            if not candidate.complete
            else "As the run is complete, the verdict is the same without it."
        )
        yield f"This look could not be kept, as {unkept}. {consequence}"


def _rescored(run: RunSummary, word: str, store: str) -> RunSummary:
    if run.of_counts or not _outdated(run):
        return run
    workflows.rescore.rescore(run.id, _place(word, store))
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


def run_summary(run: str, store: str) -> RunSummary:
    """Return the ended trials of a run, or of the newest run in another store's file.

    Raises UsageError.
    """
    if run.endswith(".csv"):
        raise UsageError(f"{run}: a table; `agenteval import counts {as_word(run)}` gives it an id")
    elsewhere = Path(run).is_file()
    with opened(run if elsewhere else store) as query:
        return load_summary(query, "last" if elsewhere else run).ended


def check_comparable(
    baseline: RunSummary,
    candidate: RunSummary,
    *,
    allow_simulated: bool,
    across_arms: bool = False,
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
    if not across_arms:
        check_arms((baseline.id, candidate.id), conditions)
    if differing := differing_asked(conditions, across_arms=across_arms):
        raise UsageError(
            f"{baseline.id} and {candidate.id} were not asked and judged alike: "
            f"{', '.join(differing)}. {_cure(differing, baseline, candidate)}"
        )
    return left_out((baseline.id, candidate.id), conditions, across=across_arms)


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
    names: Sequence[str], conditions: Sequence[Conditions], *, across: bool
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
