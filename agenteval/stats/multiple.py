"""p values of many comparisons at once. statsmodels has both, and is the oracle of the tests."""

from collections.abc import Sequence
from statistics import NormalDist


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that any false claim among them stays at the level of one: to decide by."""
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(_ascending(p_values)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = floor
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that of the claims made few are false on average: to explore by."""
    adjusted, ceiling = [0.0] * len(p_values), 1.0
    for rank, at in reversed([*enumerate(_ascending(p_values), 1)]):
        ceiling = min(ceiling, len(p_values) / rank * p_values[at])
        adjusted[at] = ceiling
    return adjusted


def dearer(among: int, *, level: float, power: float) -> float:
    """How many times as many calls a comparison takes that is one of several (Bonferroni)."""
    normal = NormalDist()
    one, each = (normal.inv_cdf(1 - level / 2 / count) for count in (1, among))
    return ((each + normal.inv_cdf(power)) / (one + normal.inv_cdf(power))) ** 2


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)
