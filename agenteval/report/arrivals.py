"""The table of how calls arrived: malformed calls by kind, and the layer to blame."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from agenteval.core.counts import ErrorCounts
from agenteval.core.malformed import Blame, MalformedCall
from agenteval.core.served import as_served
from agenteval.core.tally import Tallies, Tally
from agenteval.report.tables import Table, heads, per_100, plain, row
from agenteval.report.view import Arrivals, RunView
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.taxonomy.malformed_kinds import FAULTS, KINDS

FAULTY = "faulty"
Place = tuple[int, int | None, int]  # of a call: turn, position, which one of those without any


@dataclass(frozen=True, slots=True)
class Arrived:
    """Counts by trial of malformed calls, out of the calls that were tried.

    `blames` and `faulty` count only faults, `kinds` also notes. `repairs` are those in what was
    sent back.
    """

    kinds: ErrorCounts
    blames: ErrorCounts
    faulty: ErrorCounts
    repairs: int


def arrived(tallies: Tallies, faults: Collection[str]) -> Arrived:
    """Count the malformed calls by trial; `faults` names the kinds that are more than a note."""
    kinds, blames, faulty = [], [], []
    for tally in tallies.counted:
        placed = list(_places(tally))
        wrong = [(place, each) for place, each in placed if each.kind in faults]
        lost = len({place for place, each in wrong if each.position is None})
        tried = tally.written + lost
        kinds.append((tried, Counter(kind for _, kind in {(at, each.kind) for at, each in placed})))
        blamed = Counter(str(b) for _, b in {(at, each.blame) for at, each in wrong})
        blames.append((tried, blamed))
        faulty.append((tried, {FAULTY: len({place for place, _ in wrong})}))
    return Arrived(
        kinds=ErrorCounts.added(kinds),
        blames=ErrorCounts.added(blames),
        faulty=ErrorCounts.added(faulty),
        repairs=sum(tally.repairs for tally in tallies.counted),
    )


def blamed(malformed: Iterable[Sequence[tuple[int, MalformedCall]]]) -> tuple[dict[str, int], int]:
    """Return how many calls each layer broke in these trials, and how many never arrived."""
    tallies = Tallies(tuple(Tally(malformed=tuple(one)) for one in malformed), as_served(()))
    blames = arrived(tallies, FAULTS).blames
    return {name: sum(of) for name, of in blames.by_class.items()}, sum(blames.calls)


def _places(tally: Tally) -> Iterator[tuple[Place, MalformedCall]]:
    """Yield malformed calls with their places; calls without position are numbered by turn."""
    for turn, of in groupby(tally.malformed, key=itemgetter(0)):
        for which, (_, one) in enumerate(of):
            yield (turn, one.position, which if one.position is None else 0), one


def arrivals_of(tallies: Tallies, layout: Layout) -> Arrivals:
    counts = arrived(tallies, FAULTS)
    return Arrivals(
        faulty=clustered(counts.faulty.clusters(FAULTY), layout),
        kinds=_rates(counts.kinds, [kind.id for kind in KINDS], layout),
        blames=_rates(counts.blames, [str(blame) for blame in Blame], layout),
        repairs=counts.repairs,
    )


def _rates(counts: ErrorCounts, names: Sequence[str], layout: Layout) -> Mapping[str, Rate]:
    return {name: clustered(counts.clusters(name), layout) for name in names}


def arrival_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table; none where all calls arrived well formed, or only summaries were read."""
    arrivals = [view.arrivals for view in views if view.arrivals]
    if len(arrivals) < len(views):
        return ()
    kinds = [kind for kind in KINDS if any(one.kinds[kind.id].count for one in arrivals)]
    if not kinds:
        return ()
    blames = [blame for blame in Blame if any(one.blames[blame].count for one in arrivals)]
    rows = [
        row("faulty, of any kind", (per_100(one.faulty) for one in arrivals)),
        *(
            row(
                f"{kind.id}, a note" if kind.note else kind.id,
                (per_100(one.kinds[kind.id]) for one in arrivals),
            )
            for kind in kinds
        ),
        *(
            row(f"to blame: {blame}", (per_100(one.blames[blame]) for one in arrivals))
            for blame in blames
        ),
        row("repairs in what was sent back", (plain(one.repairs) for one in arrivals)),
    ]
    tried = {view.label: one.faulty.n for view, one in zip(views, arrivals, strict=True)}
    columns = heads(views, lambda view: f"n={tried[view.label]} calls tried")
    note = "Malformed calls per 100 that were tried, those included that never arrived as calls."
    return (Table("How calls arrived", note, columns, tuple(rows)),)
