"""The table of how calls arrived: malformed calls by kind, and the layer to blame."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agenteval.core.counts import ErrorCounts
from agenteval.core.malformed import Blame, MalformedCall
from agenteval.core.outcome import Outcome
from agenteval.core.run import Run
from agenteval.core.trial import Trial
from agenteval.report.tables import Table, heads, per_100, plain, row
from agenteval.report.view import Arrivals, RunView
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.taxonomy.malformed_kinds import FAULTS, KINDS

FAULTY = "faulty"
Place = tuple[int, int | None, int]  # of a call: turn, position, which one of those without any


@dataclass(frozen=True, slots=True)
class Arrived:
    """`kinds`, `blames` and `faulty` count by trial, out of the calls that were tried.

    Blamed, and faulty, is only what is a fault; `repairs` were made in what was sent back.
    """

    kinds: ErrorCounts
    blames: ErrorCounts
    faulty: ErrorCounts
    repairs: int


def arrived(trials: Iterable[Trial], faults: Collection[str]) -> Arrived:
    """`faults` names the kinds that are more than a note."""
    counted = [trial for trial in trials if trial.outcome is not Outcome.VOID]
    kinds, blames, faulty = [], [], []
    for trial in counted:
        seen = list(_places(trial))
        wrong = [(place, one) for place, one in seen if one.kind in faults]
        lost = len({place for place, one in wrong if one.position is None})
        tried = sum(len(turn.calls) for turn in trial.turns) + lost
        kinds.append((tried, Counter(kind for _, kind in {(at, one.kind) for at, one in seen})))
        blames.append((tried, Counter(str(b) for _, b in {(at, one.blame) for at, one in wrong})))
        faulty.append((tried, {FAULTY: len({place for place, _ in wrong})}))
    return Arrived(
        kinds=ErrorCounts.added(kinds),
        blames=ErrorCounts.added(blames),
        faulty=ErrorCounts.added(faulty),
        repairs=sum(len(turn.repairs) for trial in counted for turn in trial.turns),
    )


def _places(trial: Trial) -> Iterator[tuple[Place, MalformedCall]]:
    for at, turn in enumerate(trial.turns):
        for which, one in enumerate(turn.malformed):
            yield (at, one.position, which if one.position is None else 0), one


def arrivals_of(run: Run, layout: Layout) -> Arrivals:
    counts = arrived(run.trials, FAULTS)
    return Arrivals(
        faulty=clustered(counts.faulty.clusters(FAULTY), layout),
        kinds=_rates(counts.kinds, [kind.id for kind in KINDS], layout),
        blames=_rates(counts.blames, [str(blame) for blame in Blame], layout),
        repairs=counts.repairs,
    )


def _rates(counts: ErrorCounts, names: Sequence[str], layout: Layout) -> Mapping[str, Rate]:
    return {name: clustered(counts.clusters(name), layout) for name in names}


def arrival_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where all calls arrived as they should, or where only summaries were read."""
    seen = [view.arrivals for view in views if view.arrivals]
    if len(seen) < len(views):
        return ()
    kinds = [kind for kind in KINDS if any(one.kinds[kind.id].count for one in seen)]
    if not kinds:
        return ()
    blames = [blame for blame in Blame if any(one.blames[blame].count for one in seen)]
    rows = [
        row("faulty, of any kind", (per_100(one.faulty) for one in seen)),
        *(
            row(
                f"{kind.id}, a note" if kind.note else kind.id,
                (per_100(one.kinds[kind.id]) for one in seen),
            )
            for kind in kinds
        ),
        *(
            row(f"to blame: {blame}", (per_100(one.blames[blame]) for one in seen))
            for blame in blames
        ),
        row("repairs in what was sent back", (plain(one.repairs) for one in seen)),
    ]
    tried = {view.label: one.faulty.n for view, one in zip(views, seen, strict=True)}
    columns = heads(views, lambda view: f"n={tried[view.label]} calls tried")
    note = "Malformed calls per 100 that were tried, those included that never arrived as calls."
    return (Table("How calls arrived", note, columns, tuple(rows)),)
