"""How sure a difference is, and what would make it surer: the words that all sentences share."""

from math import ceil, isinf

from agenteval.stats.comparison import POWER, Difference
from agenteval.stats.multiple import dearer
from agenteval.stats.score import SETTLED

# The words that a sentence begins with.
SURE, NEAR, OPEN = "Settled", "Marginal, not settled", "Not settled"
EQUAL, TOO_FEW = "No difference seen", "Cannot be settled with so few models"
LEADS = (SURE, NEAR, OPEN, EQUAL, TOO_FEW)
MARGINAL = 0.1  # a p below this, yet not settled, is worth a second look


def lead(p: float, adjusted: float) -> str:
    """The word that a sentence begins with: decided after correction, near by itself."""
    if adjusted < SETTLED:
        return SURE
    return NEAR if p < MARGINAL else OPEN


def p_told(p: float, adjusted: float, among: int) -> str:
    if among < 2:
        return f"p {p_text(p)}"
    after = f"after correction for {among} comparisons"
    if p_text(p) == p_text(adjusted):
        return f"p {p_text(p)}, also {after}"
    joined = "but" if p < SETTLED <= adjusted else "and"
    return f"p {p_text(p)}, {joined} {p_text(adjusted).removeprefix('= ')} {after}"


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def more_needed(gap: Difference, adjusted: float, *, among: int, of: str) -> str:
    """A sentence that says what would settle the difference; empty where it is settled."""
    if adjusted < SETTLED or isinf(gap.calls_needed):
        return ""
    enough = ceil(gap.calls_needed * dearer(among, level=SETTLED, power=POWER))
    missing = enough - min(gap.first.n, gap.second.n)
    if missing <= 0:
        return (
            f" So many {of} settle a difference of this size in four cases of five, but did not "
            "here: play more."
        )
    return (
        f" About {missing:,} more {of} per model would settle a difference of this size "
        f"({100 * POWER:.0f} % power)."
    )
