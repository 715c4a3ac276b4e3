"""Power of a gate, and the size of run that it needs, from simulated runs.

First the simulated runs, with known rates and clustering. They are beta-binomial: a scenario is as
hard for the baseline as for the candidate, and within it calls of one trial are correlated. Then
what a gate does with them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from agenteval.stats.criteria import CRITERIA, Rules
from agenteval.stats.limits import comparison
from agenteval.stats.permutation import Counts, Values
from agenteval.stats.promotion import LEVEL, MOST_TRIALS, GateVerdict, judge_gate
from agenteval.stats.quantiles import beta_quantiles
from agenteval.stats.rates import (
    POWER,
    Clusters,
    Estimand,
    Rate,
    design_effect,
    strata,
    summed,
    total,
)
from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, TrialSummary, World
from agenteval.trial.trial import HandshakeStep

ENOUGH_ERRORS = 10  # trials with errors from which their resemblance is estimated
_GRID = 2001  # quantiles, between which others are interpolated
_CLOSED = (HandshakeStep("closed", reached=True),)


@dataclass(frozen=True, slots=True)
class Clustering:
    """The intraclass correlation of calls of one scenario, and the additional one of one trial."""

    scenario: float
    trial: float


@dataclass(frozen=True, slots=True)
class Truth:
    """The true rates of a simulated model: errors per call, their classes, and outcomes.

    `outcomes` are the chances of all outcomes but completion. `shares` are those of the criteria
    that do not follow from the outcome, by name.
    """

    errors: float
    classes: Mapping[str, float]
    outcomes: Mapping[Outcome, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def with_errors(self, errors: float) -> "Truth":
        return replace(self, errors=min(errors, 1.0))

    def worse(self, times: float) -> "Truth":
        """Return a model with the same kinds of fault, each `times` as frequent."""
        ends = {end: share * times for end, share in self.outcomes.items()}
        whole = max(sum(ends.values()), 1.0)
        return Truth(
            errors=min(self.errors * times, 1.0),
            classes=self.classes,
            outcomes={end: share / whole for end, share in ends.items()},
            shares={name: min(share * times, 1.0) for name, share in self.shares.items()},
        )


@dataclass(frozen=True, slots=True)
class Design:
    """The layout of a run: the task instance of each trial, and the possible sizes of trials.

    `worlds` has scenario, number and seed of each instance.
    """

    worlds: Sequence[World]
    sizes: Sequence[int]
    handshakes: frozenset[str]  # scenarios that have one
    clustering: Clustering

    @property
    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(scenario for scenario, _, _ in self.worlds))

    @property
    def columns(self) -> list[int]:
        """The position of each trial's scenario among the scenarios."""
        positions = {name: position for position, name in enumerate(self.scenarios)}
        return [positions[scenario] for scenario, _, _ in self.worlds]

    def scaled(self, trials: int, about: Estimand) -> "Design":
        """Return a design of this many trials.

        If the verdict is about scenarios like these, it has more scenarios, with as many trials of
        each as now. Else it has more trials of these scenarios.
        """
        names = self.scenarios
        if about is Estimand.LIKE:
            of_each = max(1, round(len(self.worlds) / len(names)))
            names = [f"scenario {number}" for number in range(-(-trials // of_each))]
        worlds = [(names[number % len(names)], number, number) for number in range(trials)]
        return replace(self, worlds=worlds)


def truth_of(run: RunSummary) -> Truth:
    """Return the observed rates of a run as the truth. The run must have made calls."""
    trials = run.counted
    errors = sum(trial.all_errors[0] for trial in trials)
    names = sorted({name for trial in trials for name in trial.errors})
    ends = Counter(trial.outcome for trial in run.trials if not trial.completed)
    classes = {}
    for name in names:
        of_class = sum(trial.errors.get(name, 0) for trial in trials)
        classes[name] = of_class / errors
    shares = {}
    for name, criterion in CRITERIA.items():
        if not criterion.is_drawn:
            count, n = total([criterion.counts(trial) for trial in trials])
            if count and n:
                shares[name] = count / n
    return Truth(
        errors=errors / run.calls,
        classes=classes,
        outcomes={end: count / len(run.trials) for end, count in ends.items()},
        shares=shares,
    )


def design_of(run: RunSummary, *, icc: float) -> Design:
    """Return a run's design. `icc` is used where too few trials bear errors to estimate it."""
    return Design(
        worlds=[trial.world for trial in run.trials],
        sizes=[trial.calls for trial in run.counted],
        handshakes=frozenset(trial.scenario for trial in run.counted if trial.handshake),
        clustering=_clustering_of(run, icc=icc),
    )


def _clustering_of(run: RunSummary, *, icc: float) -> Clustering:
    """Estimate the clustering by moments, from the design effects of trials and of scenarios.

    `icc` is that of trials where too few of them bear errors.
    """
    played = [trial for trial in run.counted if trial.calls]
    trials = [trial.all_errors for trial in played]
    if sum(count > 0 for count, _ in trials) < ENOUGH_ERRORS:
        return Clustering(0.0, icc)
    size = _mean_size(trials)
    within_trial = 0.0
    if size > 1:
        within_trial = max((design_effect(trials) - 1) / (size - 1), 0.0)
    scenarios = summed(trials, [trial.scenario for trial in played])
    # The calls that share the scenario and not the trial.
    size_beyond_trial = _mean_size(scenarios) - size
    if len(scenarios) == 1 or size_beyond_trial <= 0:
        return Clustering(0.0, within_trial)
    explained_by_trials = (size - 1) * within_trial
    within_scenario = (design_effect(scenarios) - 1 - explained_by_trials) / size_beyond_trial
    shared = min(max(within_scenario, 0.0), within_trial)
    return Clustering(shared, within_trial - shared)


def _mean_size(clusters: Clusters) -> float:
    """Return the mean cluster size, weighted by calls."""
    squares = sum(size * size for _, size in clusters)
    return squares / sum(size for _, size in clusters)


def simulated_pairs(
    design: Design,
    baseline: Truth,
    candidate: Truth,
    *,
    rng: np.random.Generator,
    pairs: int,
) -> Iterator[tuple[RunSummary, RunSummary]]:
    """Return this many pairs of a baseline and a candidate that met the same task instances."""
    scenarios = {scenario for scenario, _, _ in design.worlds}
    hardness = rng.random((pairs, len(scenarios)))
    sides = [_runs(design, truth, hardness, rng) for truth in (baseline, candidate)]
    return zip(*sides, strict=True)


def _runs(
    design: Design,
    truth: Truth,
    hardness: Values,
    rng: np.random.Generator,
) -> Iterator[RunSummary]:
    sizes, errors = _simulated_errors(design, truth.errors, hardness, rng=rng)
    names = list(truth.classes)
    errors_by_class = errors[..., None]
    if names:
        errors_by_class = rng.multinomial(errors, list(truth.classes.values()))
    outcomes = [Outcome.COMPLETED, *truth.outcomes]
    completed = max(1 - sum(truth.outcomes.values()), 0.0)
    chances = [completed, *truth.outcomes.values()]
    endings = rng.choice(len(outcomes), p=chances, size=sizes.shape)
    for rows in zip(sizes.tolist(), errors_by_class.tolist(), endings.tolist(), strict=True):
        trials = []
        for world, calls, by_class, ending in zip(design.worlds, *rows, strict=True):
            has_handshake = world[0] in design.handshakes
            trial = TrialSummary(
                *world,
                outcome=outcomes[ending],
                calls=calls,
                errors=dict(zip(names, by_class, strict=False)),
                executed=calls - sum(by_class),
                handshake=_CLOSED if has_handshake else (),
            )
            trials.append(trial)
        # The counts that do not follow from the outcomes.
        for name, share in truth.shares.items():
            trials = [CRITERIA[name].simulate(trial, share, rng) for trial in trials]
        yield RunSummary(
            id="",
            model="",
            simulated=True,
            complete=True,
            concurrency=1,
            trials_planned=len(trials),
            trials=tuple(trials),
        )


def _simulated_errors(
    design: Design,
    rate: float,
    hardness: Values,
    *,
    rng: np.random.Generator,
) -> tuple[Counts, Counts]:
    """Return calls and errors of every trial; one row for each row of `hardness`.

    `hardness` has a column for each scenario: the quantile at which its own error rate lies.
    """
    columns = design.columns
    sizes = rng.choice(np.asarray(design.sizes), size=(len(hardness), len(columns)))
    scenario_rates = _beta_quantiles(rate, design.clustering.scenario, hardness)
    rates = scenario_rates[:, columns]
    icc = design.clustering.trial
    if icc:
        spread = (1 - icc) / icc
        # No parameter of a beta distribution is 0.
        rates = np.clip(rates, 1e-9, 1 - 1e-9)
        rates = rng.beta(rates * spread, (1 - rates) * spread)
    return sizes, rng.binomial(sizes, rates)


def _beta_quantiles(mean: float, icc: float, shares: Values) -> Values:
    """Return the quantiles at `shares` of the beta distribution with this mean and correlation."""
    if not icc or not 0 < mean < 1:
        return np.full_like(shares, mean)
    grid = np.linspace(0, 1, _GRID)
    # The sum of the parameters, a + b: the correlation is 1 / (a + b + 1).
    spread = (1 - icc) / icc
    quantiles = beta_quantiles(mean * spread, (1 - mean) * spread, grid.tolist())
    return np.asarray(np.interp(shares, grid, quantiles))


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
        margin = self.rules.margin
        return self.baseline.with_errors(errors * margin if self.rules.ratio else errors + margin)

    def characteristics(self, candidate: Truth, rng: np.random.Generator) -> Characteristics:
        """Return how often the gate passes and fails a candidate whose true rates are known."""
        verdicts: Counter[GateVerdict] = Counter()
        by_name: dict[str, Counter[GateVerdict]] = defaultdict(Counter)
        runs = simulated_pairs(self.design, self.baseline, candidate, rng=rng, pairs=self.pairs)
        for before, after in runs:
            judgement = judge_gate(before, after, self.rules)
            verdicts[judgement.verdict] += 1
            for result in judgement.criteria:
                by_name[result.measure.name][result.verdict] += 1
        criteria = {name: _shares(counter) for name, counter in by_name.items()}
        return Characteristics(*_shares(verdicts), criteria)

    def passes(self, candidate: Truth, rng: np.random.Generator) -> Rate:
        """Return how often the margin alone passes a candidate."""
        scenarios = len(self.design.scenarios)
        hardness = rng.random((self.pairs, scenarios))
        columns: list[Counts] = []
        for truth in (self.baseline, candidate):
            sizes, errors = _simulated_errors(self.design, truth.errors, hardness, rng=rng)
            columns += [errors, sizes]
        parts: Sequence[int] = strata([scenario for scenario, _, _ in self.design.worlds])
        if self.rules.about is Estimand.LIKE:
            parts = ()
            member = np.eye(scenarios, dtype=np.int64)[self.design.columns]
            columns = [column @ member for column in columns]
        proven = 0
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            errors, sizes, candidate_errors, candidate_sizes = rows
            baseline_clusters = zip(errors, sizes, strict=True)
            candidate_clusters = zip(candidate_errors, candidate_sizes, strict=True)
            test = comparison(
                [*zip(baseline_clusters, candidate_clusters, strict=True)],
                parts,
                limit=self.rules.margin,
                ratio=self.rules.ratio,
                icc=self.rules.icc,
            )
            proven += test.below(self.rules.margin) < LEVEL
        return Rate(proven, self.pairs)

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
        power = self._power(trials, truth, rng, earlier=power)
        while power.value < POWER:
            trials += max(1, trials // 20)
            power = self._power(trials, truth, rng, earlier=Rate(0, 0))
        calls_per_trial = sum(self.design.sizes) / len(self.design.sizes)
        return Size(trials, ceil(trials * calls_per_trial), power)

    def _enough(
        self, truth: Truth, rng: np.random.Generator, least: int
    ) -> tuple[int, Rate] | None:
        """Search for the fewest trials with 80 % power; return them with their power.

        Each step goes to the number of trials at which the last power implies 80 %. It is at least
        a twentieth above a number that had too little power. The search ends within a twentieth of
        one that had enough. None if 4,000 trials are not enough.
        """
        enough = None
        low = least
        high = MOST_TRIALS + 1
        trials = min(2 * least, MOST_TRIALS)
        while low < trials < high - (high // 20 if enough else 0):
            power = self._power(trials, truth, rng)
            if power.value >= POWER:
                high = trials
                enough = trials, power
            elif trials > LARGE and trials * _size_ratio(power.high) > MOST_TRIALS:
                return None
            else:
                low = trials
            ratio = min(max(_size_ratio(power.value), 0.25), 4)
            next_above_low = low + max(1, low // 20)
            trials = min(max(round(trials * ratio), next_above_low), MOST_TRIALS)
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
        is_search = earlier is None
        played = TRIALS_SEARCHED if is_search else TRIALS_PLAYED
        most = max(min(self.pairs, played // trials), FEWEST)
        power = earlier or Rate(0, 0)
        while power.n < most:
            pairs = min(FEWEST, most - power.n)
            batch = replace(self, design=design, pairs=pairs)
            more = batch.passes(candidate, rng)
            power = Rate(power.count + more.count, power.n + more.n)
            if is_search and _differs(power, POWER):
                break
        return power


def _size_ratio(power: float) -> float:
    """Return the factor in trials to 80 % power, if the test statistic grows as their root."""
    normal = NormalDist()
    critical = -normal.inv_cdf(LEVEL)
    distance = critical + normal.inv_cdf(min(max(power, LEVEL + 0.001), 0.999))
    wanted_distance = critical + normal.inv_cdf(POWER)
    return (wanted_distance / distance) ** 2


def _differs(share: Rate, other: float) -> bool:
    """Return True if the share differs from `other` by more than three standard errors.

    At that distance all steps of a search together are seldom wrong.
    """
    standard_error = sqrt(share.n * other * (1 - other))
    return abs(share.count - other * share.n) > 3 * standard_error


def _shares(verdicts: Counter[GateVerdict]) -> tuple[Rate, Rate]:
    n = verdicts.total()
    return Rate(verdicts[GateVerdict.PASS], n), Rate(verdicts[GateVerdict.FAIL], n)
