"""`agenteval.compare`: models side by side and pair by pair, and what is settled."""

from dataclasses import dataclass

from agenteval.api.results import RunResult, named
from agenteval.api.table import Table
from agenteval.report.view import Errors, Pair, View
from agenteval.workflows.views import compared


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Errors per 100 calls of one model, with a 95 % interval."""

    model: str
    simulated: bool
    errors: int
    calls: int
    per_100: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """`first` minus `second`, in errors per 100 calls, with a 95 % interval.

    `adjusted_p` is after Holm's correction for all pairs. `paired`: both met the same worlds.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    adjusted_p: float
    paired: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sentences` is what follows from the figures; `warnings` is what stands against them."""

    models: Table[ModelRow]
    pairs: Table[PairRow]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def compare(
    first: RunResult | str,
    second: RunResult | str,
    *more: RunResult | str,
    store: str | None = None,
) -> Comparison:
    """Two or more runs: results, ids, `last`, imported counts, or CSV files. Raises UsageError.

    `store` is where ids are looked up; by default the store of the results, or the usual one.
    """
    names, where = named((first, second, *more), store)
    return _comparison(compared(names, where, "full"))


def _comparison(view: View) -> Comparison:
    return Comparison(
        models=Table(map(_model, view.models)),
        pairs=Table(map(_pair, view.pairs)),
        sentences=view.sentences,
        warnings=view.warnings,
    )


def _model(errors: Errors) -> ModelRow:
    rate = errors.total
    shares = (100 * part for part in (rate.value, rate.low, rate.high))
    return ModelRow(errors.label, errors.simulated, rate.count, rate.n, *shares)


def _pair(pair: Pair) -> PairRow:
    gap = pair.difference
    value, low, high = (100 * part for part in (gap.value, gap.low, gap.high))
    tests = gap.p, pair.adjusted, gap.paired
    return PairRow(pair.first, pair.second, value, low, high, *tests)
