"""Power of a gate, and the size of run that it needs, from simulated runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from agenteval.stats.comparison import POWER
from agenteval.stats.criteria import Rules
from agenteval.stats.estimand import Estimand, strata
from agenteval.stats.feasibility import MOST_TRIALS
from agenteval.stats.guarded_tests import comparison
from agenteval.stats.promotion import LEVEL, GateVerdict, judge_gate
from agenteval.stats.rates import Rate
from agenteval.stats.simulation import Design, Truth, simulated_errors, simulated_pairs

PAIRS = 400  # simulated for each figure: a chance of a half is then known to five points
FEWEST = 100
LARGE = 500  # trials from which a power says how many more are needed, even where it is small
TRIALS_PLAYED = 200_000  # for one figure: the larger the runs, the fewer of them
TRIALS_SEARCHED = 50_000  # for one step of a search, which ends within a twentieth


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The rates at which the gate, and each of its criteria, passes and fails a known candidate."""

    passed: Rate
    failed: Rate
    criteria: Mapping[str, tuple[Rate, Rate]]


@dataclass(frozen=True, slots=True)
class Size:
    """The size of run that is needed, with its simulated power."""

    trials: int
    calls: int
    power: Rate


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A gate that is applied to simulated runs of this design."""

    design: Design
    baseline: Truth
    rules: Rules
    pairs: int = PAIRS

    @property
    def at_the_margin(self) -> Truth:
        """The candidate whose error rate lies exactly at the margin."""
        errors = self.baseline.errors
        limit = errors * self.rules.margin if self.rules.ratio else errors + self.rules.margin
        return self.baseline.with_errors(limit)

    def characteristics(self, candidate: Truth, rng: np.random.Generator) -> Characteristics:
        """Return how often the gate passes and fails a candidate whose true rates are known."""
        verdicts: Counter[GateVerdict] = Counter()
        by_name: dict[str, Counter[GateVerdict]] = {}
        for before, after in simulated_pairs(
            self.design, self.baseline, candidate, rng=rng, pairs=self.pairs
        ):
            judgement = judge_gate(before, after, self.rules)
            verdicts[judgement.verdict] += 1
            for result in judgement.criteria:
                by_name.setdefault(result.measure.name, Counter())[result.verdict] += 1
        criteria = {name: _shares(counter) for name, counter in by_name.items()}
        return Characteristics(*_shares(verdicts), criteria)

    def passes(self, candidate: Truth, rng: np.random.Generator) -> Rate:
        """Return how often the margin alone passes a candidate."""
        scenarios = list(dict.fromkeys(scenario for scenario, _, _ in self.design.worlds))
        hardness = rng.random((self.pairs, len(scenarios)))
        drawn = [
            simulated_errors(self.design, truth.errors, hardness, rng=rng)
            for truth in (self.baseline, candidate)
        ]
        columns = [column for sizes, errors in drawn for column in (errors, sizes)]
        at = [scenarios.index(scenario) for scenario, _, _ in self.design.worlds]
        parts: Sequence[int] = strata([scenario for scenario, _, _ in self.design.worlds])
        if self.rules.about is Estimand.LIKE:
            parts = ()
            member = np.eye(len(scenarios), dtype=np.int64)[at]
            columns = [column @ member for column in columns]
        passed = sum(self._proven(one, parts) for one in np.stack(columns, axis=-1).tolist())
        return Rate(passed, self.pairs)

    def _proven(self, groups: list[tuple[int, int, int, int]], parts: Sequence[int]) -> bool:
        test = comparison(
            [((ours, of), (theirs, n)) for ours, of, theirs, n in groups],
            parts,
            limit=self.rules.margin,
            ratio=self.rules.ratio,
            icc=self.rules.icc,
        )
        return test.below(self.rules.margin) < LEVEL

    @property
    def half_as_good(self) -> Truth:
        """The candidate that is worse than the baseline by half of the margin."""
        return self.baseline.with_errors((self.baseline.errors + self.at_the_margin.errors) / 2)

    def needed(
        self, rng: np.random.Generator, candidate: Truth | None = None, *, least: int = 8
    ) -> Size | None:
        """Return the trials with which the margin passes a candidate with 80 % power.

        The default candidate is like the baseline. The trials are more than `least`. None if 4,000
        trials are not enough.
        """
        truth = candidate or self.baseline
        size_and_power = self._enough(truth, rng, least)
        if not size_and_power:
            return None
        trials, power = size_and_power
        size = sum(self.design.sizes) / len(self.design.sizes)
        while (power := self._power(trials, truth, rng, earlier=power)).value < POWER:
            trials, power = trials + max(1, trials // 20), Rate(0, 0)
        return Size(trials, ceil(trials * size), power)

    def _enough(
        self, truth: Truth, rng: np.random.Generator, least: int
    ) -> tuple[int, Rate] | None:
        """Search for the fewest trials with 80 % power; return them with their power.

        Each step goes to the number of trials at which the last power implies 80 %. It is at least
        a twentieth above a number that had too little power. The search ends within a twentieth of
        one that had enough. None if 4,000 trials are not enough.
        """
        enough = None
        low, high, at = least, MOST_TRIALS + 1, min(2 * least, MOST_TRIALS)
        while low < at < high - (high // 20 if enough else 0):
            power = self._power(at, truth, rng)
            if power.value >= POWER:
                high, enough = at, (at, power)
            elif at > LARGE and at * _times(power.high) > MOST_TRIALS:
                return None
            else:
                low = at
            there = round(at * min(max(_times(power.value), 0.25), 4))
            at = min(max(there, low + max(1, low // 20)), MOST_TRIALS)
        return enough

    def _power(
        self,
        trials: int,
        candidate: Truth,
        rng: np.random.Generator,
        *,
        earlier: Rate | None = None,
    ) -> Rate:
        """Return the power with this many trials, simulated.

        Without an `earlier` power, pairs are added only until the power differs from 80 %. With
        one, they are added to it up to the number that a reported figure rests on.
        """
        design = self.design.scaled(trials, self.rules.about)
        batch = replace(self, design=design, pairs=FEWEST)
        played = TRIALS_SEARCHED if earlier is None else TRIALS_PLAYED
        most = max(min(self.pairs, played // trials), FEWEST)
        power = batch.passes(candidate, rng) if earlier is None else earlier
        while power.n < most and (earlier is not None or not _differs(power, POWER)):
            more = replace(batch, pairs=min(FEWEST, most - power.n)).passes(candidate, rng)
            power = Rate(power.count + more.count, power.n + more.n)
        return power


def _times(power: float) -> float:
    """Return the factor in trials to 80 % power, if the test statistic grows as their root."""
    normal = NormalDist()
    surer = -normal.inv_cdf(LEVEL)
    observed_distance = surer + normal.inv_cdf(min(max(power, LEVEL + 0.001), 0.999))
    return ((surer + normal.inv_cdf(POWER)) / observed_distance) ** 2


def _differs(share: Rate, other: float) -> bool:
    """Return True if the share differs from `other` by more than three standard errors.

    At that distance all steps of a search together are seldom wrong.
    """
    return abs(share.count - other * share.n) > 3 * sqrt(share.n * other * (1 - other))


def _shares(verdicts: Counter[GateVerdict]) -> tuple[Rate, Rate]:
    n = verdicts.total()
    return Rate(verdicts[GateVerdict.PASS], n), Rate(verdicts[GateVerdict.FAIL], n)
