"""Exact tests of counts that stand alone. scipy and statsmodels are the oracles of the tests."""

from math import exp, lgamma

SAME = 1 + 1e-7  # chances that differ by less are the same chance, computed twice


def fisher(count: int, n: int, other_count: int, other_n: int) -> float:
    """The two-sided p of Fisher's exact test: as seldom as what was seen, or more seldom."""
    errors = count + other_count
    possible = range(max(0, errors - other_n), min(n, errors) + 1)
    logs = {at: _choose(n, at) + _choose(other_n, errors - at) for at in possible}
    most = max(logs.values())
    chances = {at: exp(value - most) for at, value in logs.items()}
    seldom = sum(chance for chance in chances.values() if chance <= chances[count] * SAME)
    return min(1.0, seldom / sum(chances.values()))


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p of McNemar's exact test, of the pairs in which only one side succeeded."""
    discordant = only_first + only_second
    few = range(min(only_first, only_second) + 1)
    half = sum(exp(_choose(discordant, at) - discordant * _LOG_2) for at in few)
    return min(1.0, 2 * half)


_LOG_2 = 0.6931471805599453


def _choose(n: int, k: int) -> float:
    """The logarithm of the number of ways to choose k of n."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
