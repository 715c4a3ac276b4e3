"""How reliably one scenario is completed when it is tried again: pass^k and pass@k.

The values are the unbiased ones over all choices of k of the n trials seen; the intervals carry
Wilson's bounds of the share through p^k and 1 - (1 - p)^k, which both only rise with p, and reach
out to the value where few trials put it beyond them.
"""

from dataclasses import dataclass
from math import comb

from agenteval.stats.rates import Rate


@dataclass(frozen=True, slots=True)
class Repeated:
    """The chance that k trials succeed, all of them (pass^k) or any of them (pass@k)."""

    k: int
    n: int
    value: float
    low: float
    high: float


def pass_all(completed: Rate, k: int) -> Repeated | None:
    """pass^k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = comb(completed.count, k) / comb(completed.n, k)
    return _repeated(k, completed.n, value, completed.low**k, completed.high**k)


def pass_any(completed: Rate, k: int) -> Repeated | None:
    """pass@k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = 1 - comb(completed.n - completed.count, k) / comb(completed.n, k)
    low, high = (1 - (1 - bound) ** k for bound in completed.interval)
    return _repeated(k, completed.n, value, low, high)


def _repeated(k: int, n: int, value: float, low: float, high: float) -> Repeated:
    return Repeated(k, n, value, min(low, value), max(high, value))
