"""A gate over two stored runs: its rules and their counts read, checked and judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agenteval import workflows
from agenteval.config.gate_rules import FILE, find_rules, load_rules
from agenteval.config.roots import roots, shipped
from agenteval.core.run import TAXONOMY, differing_asked
from agenteval.core.summary import RunSummary
from agenteval.errors import UsageError
from agenteval.report.gate_view import GateView, gate_view
from agenteval.stats.criteria import Rules
from agenteval.stats.estimand import Estimand
from agenteval.stats.promotion import LEVEL, judge_gate
from agenteval.store.summaries import load_summary, opened
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
) -> GateView:
    """The verdict, and what a reader must know beside it. Raises UsageError.

    `rescored` judges a run's stored calls again first, where another taxonomy did.
    """
    asked, source = rules_at(rules, about)
    before, after = run_summary(baseline, store), run_summary(candidate, store)
    if rescored:
        before, after = _rescored(before, baseline, store), _rescored(after, candidate, store)
    check_comparable(before, after, allow_simulated=allow_simulated)
    level = after.looks[-1].level if after.looks else LEVEL
    return gate_view(judge_gate(before, after, asked, level=level), before, after, rules=source)


def _rescored(run: RunSummary, word: str, store: str) -> RunSummary:
    if run.of_counts or not _outdated(run):
        return run
    workflows.rescore.rescore(run.id, word if Path(word).is_file() else store)
    return run_summary(word, store)


def write_rules() -> Path:
    """The shipped rules with their comments, into this folder. Raises UsageError."""
    path = Path(FILE)
    if path.exists():
        raise UsageError(f"{path} is there already; change it, or remove it first")
    path.write_text((shipped() / FILE).read_text(encoding="utf-8"), encoding="utf-8")
    return path


def rules_at(path: Path | None, about: str | None = None) -> tuple[Rules, str]:
    """The rules, with `about` before theirs, and from where they are. Raises UsageError."""
    found = path or find_rules(roots())
    own = found.resolve() != (shipped() / FILE).resolve()
    rules = load_rules(found)
    rules = rules if about is None else replace(rules, about=Estimand(about))
    return rules, str(found) if own else f"the {FILE} that agenteval ships"


def declared(about: str | None) -> Estimand:
    """What figures are about: as asked here, else as gate.toml declares it. Raises UsageError."""
    return load_rules(find_rules(roots())).about if about is None else Estimand(about)


def run_summary(run: str, store: str) -> RunSummary:
    """A run by what names it, or the newest of another store's file. Raises UsageError."""
    if run.endswith(".csv"):
        raise UsageError(f"{run}: a table; `agenteval import counts {run}` gives it an id to name")
    elsewhere = Path(run).is_file()
    with opened(run if elsewhere else store) as query:
        return load_summary(query, "last" if elsewhere else run)


def check_comparable(baseline: RunSummary, candidate: RunSummary, *, allow_simulated: bool) -> None:
    """Raises UsageError for two runs between which no verdict is possible."""
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
    check_simulated((baseline, candidate), allow_simulated=allow_simulated)
    differing = differing_asked([baseline.conditions, candidate.conditions])
    if differing:
        outdated = " ".join(run.id for run in _outdated(baseline, candidate))
        cure = (
            f"`agenteval rescore {outdated}` judges the stored calls again; --rescore does it here"
            if all(one.startswith(TAXONOMY) for one in differing)
            else "Run one of them again as the other was"
        )
        raise UsageError(
            f"{baseline.id} and {candidate.id} were not asked and judged alike: "
            f"{', '.join(differing)}. {cure}"
        )


def _outdated(*runs: RunSummary) -> list[RunSummary]:
    """Those that were judged by another taxonomy than today's."""
    return [run for run in runs if run.conditions.asked.get(TAXONOMY) != TAXONOMY_VERSION]


def check_simulated(runs: Sequence[RunSummary], *, allow_simulated: bool) -> None:
    """Raises UsageError for a simulated run, unless it is allowed."""
    simulated = [run.id for run in runs if run.simulated]
    if simulated and not allow_simulated:
        raise UsageError(
            f"{' and '.join(simulated)}: simulated, which says nothing about a real model; "
            "give --allow-simulated to see how a gate works"
        )
