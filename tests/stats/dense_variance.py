"""What `stats.cluster_variance` tells, by whole matrices: an oracle that is slow and plain."""

import numpy as np


def dense(sides, strata, icc):
    """The share of the variance that is found in the mean, and Satterthwaite's degrees."""
    strata = np.asarray(strata)
    same = strata[:, None] == strata
    k = same.sum(axis=1)
    centre = np.where(k[:, None] > 1, np.eye(len(k)) - same / k, np.eye(len(k)))
    weights = np.diag(np.where(k > 1, k / np.maximum(k - 1, 1), 1.0))
    covariance, there = np.zeros((len(k), len(k))), 0.0
    for given, times in sides:
        sizes = np.asarray(given, dtype=float)
        own = np.diag(sizes * (1 + icc * (sizes - 1)) * (sizes > 0))
        beside = np.eye(len(k)) - np.outer(sizes, np.ones(len(k))) / sizes.sum()
        covariance += times**2 * centre @ beside @ own @ beside.T @ centre.T
        there += times**2 * own.sum()
    form = weights @ covariance
    found = np.trace(form)
    return found / there, found**2 / np.trace(form @ form) if found > there / 1e9 else 0.0
