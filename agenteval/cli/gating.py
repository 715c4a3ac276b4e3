"""Reading what a gate needs: the rules, and the counts of two runs that may be compared."""

from collections.abc import Sequence
from pathlib import Path

from agenteval.config.gate import FILE, find_rules, load_rules
from agenteval.config.paths import roots, shipped
from agenteval.core.gated import GatedRun
from agenteval.errors import UsageError
from agenteval.stats.rules import Rules
from agenteval.store.gated import load_gated, opened

MUST_AGREE = ("protocol", "taxonomy")  # else the same call may be counted in another way


def rules_at(path: Path | None) -> tuple[Rules, str]:
    """The rules, and from where they are in words. Raises UsageError."""
    found = path or find_rules(roots())
    own = found.resolve() != (shipped() / FILE).resolve()
    return load_rules(found), str(found) if own else f"the {FILE} that agenteval ships"


def gated_run(run: str, store: str) -> GatedRun:
    """A run by its id, `last`, or the file of another store, whose newest run is meant."""
    elsewhere = Path(run).is_file()
    with opened(run if elsewhere else store) as query:
        return load_gated(query, "last" if elsewhere else run)


def check_comparable(baseline: GatedRun, candidate: GatedRun, *, allow_simulated: bool) -> None:
    """Raises UsageError for two runs between which no verdict is possible."""
    if baseline.id == candidate.id:
        raise UsageError(
            f"--baseline and --candidate are the same run ({baseline.id}); name two, "
            "`agenteval show` lists them"
        )
    check_simulated((baseline, candidate), allow_simulated=allow_simulated)
    differing = [name for name in MUST_AGREE if baseline.settings[name] != candidate.settings[name]]
    differing += [
        f"allow list {name}"
        for name, digest in sorted(baseline.policies.items())
        if candidate.policies.get(name, digest) != digest
    ]
    if differing:
        raise UsageError(
            f"{baseline.id} and {candidate.id} were judged by different rules "
            f"({', '.join(differing)}): no verdict can be made of them; run the older one again"
        )


def check_simulated(runs: Sequence[GatedRun], *, allow_simulated: bool) -> None:
    """Raises UsageError for a simulated run, unless it is allowed."""
    simulated = [run.id for run in runs if run.simulated]
    if simulated and not allow_simulated:
        raise UsageError(
            f"{' and '.join(simulated)}: simulated, which says nothing about a real model; "
            "give --allow-simulated to see how a gate works"
        )
