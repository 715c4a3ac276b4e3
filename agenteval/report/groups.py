"""Models of one architecture against those of the other: mixture of experts against dense."""

from collections.abc import Sequence

from agenteval.core.counts import Cluster
from agenteval.report.side import Side
from agenteval.report.view import Groups
from agenteval.stats.comparison import Difference, compare, compare_counts
from agenteval.stats.rates import rate_of

ARCHITECTURES = ("moe", "dense")


def groups_of(sides: Sequence[Side], *, seed: int) -> Groups | None:
    """None unless there are models of both that made calls; of one each, the pair says it all.

    Runs of one served model are one model: another run of it is no other draw of its architecture.
    """
    called = [side for side in sides if any(side.errors.calls)]
    groups = [[side for side in called if side.card.architecture == a] for a in ARCHITECTURES]
    if not all(groups):
        return None
    models = [_by_model(group) for group in groups]
    if sum(map(len, models)) == len(ARCHITECTURES):
        return None
    return Groups(
        *ARCHITECTURES,
        models=(len(models[0]), len(models[1])),
        these=_these(*groups, seed=seed),
        others=compare(*models, seed=seed),
    )


def _by_model(group: Sequence[Side]) -> list[Cluster]:
    """Errors and calls of each model, all its runs together."""
    models: dict[str, Cluster] = {}
    for side in group:
        count, size = models.get(side.card.served_id, (0, 0))
        errors, calls = sum(side.errors.errors), sum(side.errors.calls)
        models[side.card.served_id] = count + errors, size + calls
    return list(models.values())


def _these(first: Sequence[Side], second: Sequence[Side], *, seed: int) -> Difference:
    clusters = [[one for side in group for one in side.errors.total()] for group in (first, second)]
    by_trial = [all(side.errors.by_trial for side in group) for group in (first, second)]
    if all(by_trial):
        return compare(*clusters, seed=seed)
    one, other = (rate_of(of, by_trial=by) for of, by in zip(clusters, by_trial, strict=True))
    return compare_counts(one, other)
