"""Alpha spending: how much of a test's level each interim look may use (Lan and DeMets 1983).

After O'Brien and Fleming: next to nothing at first, nearly all at the end, so that a run which is
never stopped loses little.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, erfc, exp, log10, sqrt, tau
from statistics import NormalDist

from agenteval.core.run import Look
from agenteval.stats.quantiles import falling

_NORMAL = NormalDist()
LEAST = 1e-9  # the level of a look to which nothing is left
_FURTHEST = 8.0  # standard errors below nothing, from which on there is nothing
_STEPS = 10  # in a standard error of what a look adds
_MOST_STEPS = 800

_ROUNDED = 1e-3  # a level below this takes more digits than are usual


def other_baseline_remarks(looks: Sequence[Look], baseline: str) -> Iterator[str]:
    """Warn of earlier verdicts over other baselines.

    Each has a level of its own, and one might pass by luck.
    """
    last = {look.baseline: look.verdict for look in looks if look.baseline != baseline}
    if last:
        told = ", ".join(f"{over}: {verdict}" for over, verdict in last.items())
        yield (
            f"The candidate's run was held against another baseline before ({told}): a baseline "
            "that is chosen with the figures at hand proves less."
        )


def other_run_remarks(verdicts: Mapping[str, int], over: str) -> Iterator[str]:
    """Warn that other runs of the candidate did not pass: each has a level of its own."""
    if failed := {verdict: runs for verdict, runs in verdicts.items() if verdict != "PASS"}:
        told = ", ".join(f"{runs} {verdict}" for verdict, runs in sorted(failed.items()))
        yield (
            f"Other runs of the candidate did not pass over {over} ({told}): a run that is played "
            "anew until it passes proves less, as each may pass by luck."
        )


def level_text(level: float) -> str:
    return f"{level:.4f}" if level >= _ROUNDED else f"{level:.1g}"


def confidence_text(level: float) -> str:
    """Return the confidence of a bound at this level, in percent: never 100."""
    if level >= _ROUNDED:
        return f"{100 * (1 - level):.4g}"
    return f"{100 * (1 - level):.{ceil(-log10(100 * level))}f}"


Going = Sequence[tuple[float, float]]  # where the sum may be, and how likely, if no look rejected


def levels(looks: int, level: float) -> tuple[float, ...]:
    """Return the one-sided level of each of this many looks, after equal parts of the run."""
    return levels_at([look / looks for look in range(1, looks + 1)], level)


def levels_at(shares: Sequence[float], level: float) -> tuple[float, ...]:
    """Return the one-sided level of each look, made when these shares of the run are done.

    All looks together reject a true null hypothesis with probability `level`. The computation
    follows the density of a sum of independent parts over the runs that no look has stopped. A look
    that adds no share gets `LEAST`.
    """
    found_levels: list[float] = []
    going: Going = [(0.0, 1.0)]
    before = spent = 0.0
    for share in shares:
        more, added = _spent(share, level) - spent, share - before
        if more < LEAST:
            found_levels.append(LEAST)
            continue
        reach = _FURTHEST * sqrt(share)
        bound = falling(partial(_beyond, going, sqrt(added)), more, -reach, reach)
        found_levels.append(max(round(1 - _NORMAL.cdf(bound / sqrt(share)), 12), LEAST))
        going = _on(going, -reach, bound, sqrt(added))
        before, spent = share, spent + more
    return tuple(found_levels)


def _beyond(going: Going, deviation: float, bound: float) -> float:
    """Return the chance that the next look observes more than `bound`."""
    scale = deviation * sqrt(2)
    return sum(chance * erfc((bound - at) / scale) for at, chance in going) / 2


def _on(going: Going, low: float, high: float, deviation: float) -> Going:
    """Return the density of the sum after the next look, over runs where it is at most `high`.

    It is integrated by trapezoids.
    """
    steps = min(round(_STEPS * (high - low) / deviation), _MOST_STEPS)
    step = (high - low) / steps
    peak = step / (deviation * sqrt(tau))
    places = [low + step * at for at in range(steps + 1)]
    after = [
        (
            place,
            peak
            * sum(
                chance * exp(-(((place - one) / deviation) ** 2) / 2)
                for one, chance in going
                if abs(place - one) < _FURTHEST * deviation
            ),
        )
        for place in places
    ]
    place, chance = after.pop()
    return [*after, (place, chance / 2)]  # at the low end there is nothing to halve


def _spent(share: float, level: float) -> float:
    """Return the part of the level that may be spent at this share of the run; 0 at none."""
    if not share:
        return 0.0
    return 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - level / 2) / sqrt(share)))
