"""What a gate would do, and how large a run it needs: by playing it on simulated runs."""

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
    """How often the gate passes and fails a candidate of a known kind, and each of its criteria."""

    passed: Rate
    failed: Rate
    criteria: Mapping[str, tuple[Rate, Rate]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is needed: `power` is what it would give, simulated."""

    trials: int
    calls: int
    power: Rate


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Plays a gate on simulated runs of this design."""

    design: Design
    baseline: Truth
    rules: Rules
    pairs: int = PAIRS

    @property
    def at_the_margin(self) -> Truth:
        """A candidate that is just too bad."""
        errors = self.baseline.errors
        limit = errors * self.rules.margin if self.rules.ratio else errors + self.rules.margin
        return self.baseline.with_errors(limit)

    def characteristics(self, candidate: Truth, rng: np.random.Generator) -> Characteristics:
        """What becomes of a candidate of which the truth is known."""
        verdicts: Counter[GateVerdict] = Counter()
        by_name: dict[str, Counter[GateVerdict]] = {}
        for before, after in simulated_pairs(
            self.design, self.baseline, candidate, rng=rng, pairs=self.pairs
        ):
            judgement = judge_gate(before, after, self.rules)
            verdicts[judgement.verdict] += 1
            for one in judgement.criteria:
                by_name.setdefault(one.measure.name, Counter())[one.verdict] += 1
        criteria = {name: _shares(counter) for name, counter in by_name.items()}
        return Characteristics(*_shares(verdicts), criteria)

    def passes(self, candidate: Truth, rng: np.random.Generator) -> Rate:
        """How often the margin, looked at alone, passes a candidate."""
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
        """A candidate that is worse than the baseline by half of what the margin allows."""
        return self.baseline.with_errors((self.baseline.errors + self.at_the_margin.errors) / 2)

    def needed(
        self, rng: np.random.Generator, candidate: Truth | None = None, *, least: int = 8
    ) -> Size | None:
        """The trials with which the margin passes a candidate, at 80 % power.

        One like the baseline, if no other is given, and more than `least`. None when 4,000 trials
        are not enough.
        """
        truth = candidate or self.baseline
        found = self._enough(truth, rng, least)
        if not found:
            return None
        trials, power = found
        size = sum(self.design.sizes) / len(self.design.sizes)
        while (power := self._power(trials, truth, rng, known=power)).value < POWER:
            trials, power = trials + max(1, trials // 20), Rate(0, 0)
        return Size(trials, ceil(trials * size), power)

    def _enough(
        self, truth: Truth, rng: np.random.Generator, least: int
    ) -> tuple[int, Rate] | None:
        """The fewest trials that have the power, as far as the steps of a search tell it.

        Each is where the last one says that the power is 80 %. None is less than a twentieth more
        than one that had too little, or than that less than one that had enough.
        """
        enough = None
        low, high, at = least, MOST_TRIALS + 1, min(2 * least, MOST_TRIALS)
        while low < at < high - (high // 20 if enough else 0):
            found = self._power(at, truth, rng)
            if found.value >= POWER:
                high, enough = at, (at, found)
            elif at > LARGE and at * _times(found.high) > MOST_TRIALS:
                return None
            else:
                low = at
            there = round(at * min(max(_times(found.value), 0.25), 4))
            at = min(max(there, low + max(1, low // 20)), MOST_TRIALS)
        return enough

    def _power(
        self,
        trials: int,
        candidate: Truth,
        rng: np.random.Generator,
        *,
        known: Rate | None = None,
    ) -> Rate:
        """With so many trials; of as few pairs as tell it from 80 % where nothing is `known` of it.

        Else what is known, and as many more as the figure that is told stands on.
        """
        design = self.design.scaled(trials, self.rules.about)
        batch = replace(self, design=design, pairs=FEWEST)
        played = TRIALS_SEARCHED if known is None else TRIALS_PLAYED
        most = max(min(self.pairs, played // trials), FEWEST)
        power = batch.passes(candidate, rng) if known is None else known
        while power.n < most and (known is not None or not _apart(power, POWER)):
            more = replace(batch, pairs=min(FEWEST, most - power.n)).passes(candidate, rng)
            power = Rate(power.count + more.count, power.n + more.n)
        return power


def _times(power: float) -> float:
    """How many times as many trials would have the power, if a test grows surer as their root."""
    normal = NormalDist()
    surer = -normal.inv_cdf(LEVEL)
    seen = surer + normal.inv_cdf(min(max(power, LEVEL + 0.001), 0.999))
    return ((surer + normal.inv_cdf(POWER)) / seen) ** 2


def _apart(share: Rate, other: float) -> bool:
    """By three standard errors, of which all steps of a search together are seldom wrong."""
    return abs(share.count - other * share.n) > 3 * sqrt(share.n * other * (1 - other))


def _shares(verdicts: Counter[GateVerdict]) -> tuple[Rate, Rate]:
    n = verdicts.total()
    return Rate(verdicts[GateVerdict.PASS], n), Rate(verdicts[GateVerdict.FAIL], n)
