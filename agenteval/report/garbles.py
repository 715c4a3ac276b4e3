"""The table of how calls arrived: garbles by kind, and the layer to blame."""

from collections.abc import Mapping, Sequence

from agenteval.core.counts import ErrorCounts
from agenteval.core.garble import Blame
from agenteval.core.garbled import FAULTY, garbled
from agenteval.core.run import Run
from agenteval.report.tables import Table, heads, per_100, plain, row
from agenteval.report.view import Arrivals, RunView
from agenteval.stats.rates import Rate, clustered
from agenteval.taxonomy.garbles import FAULTS, KINDS


def arrivals_of(run: Run) -> Arrivals:
    counts = garbled(run.trials, FAULTS)
    return Arrivals(
        faulty=clustered(counts.faulty.clusters(FAULTY)),
        kinds=_rates(counts.kinds, [kind.id for kind in KINDS]),
        blames=_rates(counts.blames, [str(blame) for blame in Blame]),
        repairs=counts.repairs,
    )


def _rates(counts: ErrorCounts, names: Sequence[str]) -> Mapping[str, Rate]:
    return {name: clustered(counts.clusters(name)) for name in names}


def garble_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
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
    note = "Garbles per 100 calls that were tried, those included that never arrived as calls."
    return (Table("How calls arrived", note, columns, tuple(rows)),)
