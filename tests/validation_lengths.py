"""Trials of unequal length: whether few long ones make a figure surer than it is.

Everything is drawn here; only what agenteval says of it is used. `make validate` writes a page of
it; tests/stats/test_validity.py runs it with fewer repetitions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from agenteval.stats.comparison import compare_all
from agenteval.stats.criteria import Rules
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.stats.rates import Rate, clustered
from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, TrialSummary

SEED = 20261125
WORSE, RATE = 0.12, 0.056
MARGIN = Rules(0.03)
EXCHANGES = 999
Calls = Callable[[np.random.Generator], np.ndarray]


def _some_long(rng: np.random.Generator) -> np.ndarray:
    long = rng.random(60) < 0.05
    return np.where(long, rng.integers(80, 121, 60), rng.integers(3, 13, 60))


def _log_normal(rng: np.random.Generator) -> np.ndarray:
    return np.maximum(1, np.exp(rng.normal(1.8, 1.2, 30)).round()).astype(int)


LENGTHS: Mapping[str, Calls] = {
    "30 trials of 3 to 12": lambda rng: rng.integers(3, 13, 30),
    "30 trials, log-normal (median 6, a tenth above 28)": _log_normal,
    "60 trials of 3 to 12, each twentieth of 80 to 120": _some_long,
    "2 trials of 100 beside 30 of 4": lambda _: np.array([100] * 2 + [4] * 30),
    "1 trial of 200 beside 24 of 1 to 5": lambda rng: np.array([200, *rng.integers(1, 6, 24)]),
    "1 trial of 300 beside 29 of 3": lambda _: np.array([300] + [3] * 29),
}


@dataclass(frozen=True, slots=True)
class Uneven:
    """Of runs whose trials have these lengths: how often what is said of them is right."""

    lengths: str
    icc: float
    rate: Rate  # covered by its interval
    difference: Rate  # covered, in the same worlds
    promoted: Rate  # at the margin
    width: float  # of the rate's interval, in points: the median

    @property
    def held(self) -> bool:
        return min(self.rate.high, self.difference.high) >= 0.93 and self.promoted.low <= 0.065


def uneven(repetitions: int, lengths: Mapping[str, Calls] = LENGTHS) -> Iterator[Uneven]:
    for (name, calls), icc in product(lengths.items(), (0.1, 0.3)):
        rng = np.random.default_rng(SEED)
        found = np.array([_once(calls(rng), icc, rng) for _ in range(repetitions)])
        shares = [Rate(int(of.sum()), repetitions) for of in found.T[:3]]
        yield Uneven(name, icc, *shares, 100 * float(np.median(found[:, 3])))


def _once(calls: np.ndarray, icc: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Whether the rate and the difference are covered, a candidate is promoted, and a width."""
    worse, better, candidate = (
        _errors(calls, rate, icc, rng) for rate in (WORSE, RATE, RATE + MARGIN.margin)
    )
    low, high = clustered(worse).interval
    (apart,) = compare_all([worse], [better], seed=0, paired=True, exchanges=EXCHANGES)
    verdict = judge_gate(_run("a", better), _run("b", candidate), MARGIN).verdict
    covered = apart.low <= WORSE - RATE <= apart.high
    return low <= WORSE <= high, covered, verdict is GateVerdict.PASS, high - low


def _errors(
    calls: np.ndarray, rate: float, icc: float, rng: np.random.Generator
) -> list[tuple[int, int]]:
    spread = (1 - icc) / icc
    own = rng.beta(rate * spread, (1 - rate) * spread, len(calls))
    return [*zip(rng.binomial(calls, own).tolist(), calls.tolist(), strict=True)]


def _run(name: str, trials: list[tuple[int, int]]) -> RunSummary:
    made = tuple(
        TrialSummary(f"s{at}", 1, at, Outcome.COMPLETED, calls, {"one": errors})
        for at, (errors, calls) in enumerate(trials)
    )
    return RunSummary(
        id=name,
        model=name,
        simulated=True,
        complete=True,
        concurrency=1,
        trials_planned=len(made),
        trials=made,
    )
