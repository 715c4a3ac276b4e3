"""Alpha spending: how much of a test's level each interim look may use (Lan and DeMets 1983).

After O'Brien and Fleming: next to nothing at first, nearly all at the end, so that a run which is
never stopped loses little. The looks come after equal parts of the run.
"""

from math import sqrt
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()


def levels(looks: int, level: float) -> tuple[float, ...]:
    """The one-sided level of each look, so that all together reject `level` of true hypotheses.

    Follows the density of the sum of independent parts, each of variance 1, over the runs that no
    look has stopped.
    """
    steps, step = 800, 0.01  # eight standard errors to each side
    half = round(steps * sqrt(looks))
    grid = step * np.arange(-half, half + 1)
    part = np.exp(-((step * np.arange(-steps, steps + 1)) ** 2) / 2) * step / sqrt(2 * np.pi)
    going = np.where(grid == 0, 1.0, 0.0)
    found, before = [], 0.0
    for look in range(1, looks + 1):
        spent = _spent(look / looks, level)
        going = np.convolve(going, part, mode="same")
        beyond = going[::-1].cumsum()[::-1]
        bound = float(np.interp(before - spent, -beyond, grid)) - step / 2
        going[grid >= bound] = 0.0
        found.append(1 - _NORMAL.cdf(bound / sqrt(look)))
        before = spent
    return tuple(found)


def _spent(share: float, level: float) -> float:
    """How much of the level may be spent when this share of the run is done."""
    return 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - level / 2) / sqrt(share)))
