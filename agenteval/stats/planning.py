"""Power of a gate, and the size of run that it needs, from simulated runs.

First the simulated runs, with known rates and clustering. They are beta-binomial: a scenario is as
hard for the baseline as for the candidate, and within it calls of one trial are correlated. Then
what a gate does with them.
"""

from collections import Counter
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
from agenteval.stats.rates import POWER, Estimand, Rate, design_effect, strata, summed, total
from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, TrialSummary, World
from agenteval.trial.trial import HandshakeStep

ENOUGH_ERRORS = 10  # trials with errors from which their resemblance is estimated
_GRID = 2001
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
        most = max(sum(ends.values()), 1.0)
        return Truth(
            min(self.errors * times, 1.0),
            self.classes,
            {end: share / most for end, share in ends.items()},
            {name: min(share * times, 1.0) for name, share in self.shares.items()},
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
        classes[name] = sum(trial.errors.get(name, 0) for trial in trials) / errors
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
    between = (design_effect(scenarios) - 1 - (size - 1) * within_trial) / size_beyond_trial
    shared = min(max(between, 0.0), within_trial)
    return Clustering(shared, within_trial - shared)


def _mean_size(clusters: Sequence[tuple[int, int]]) -> float:
    """Return the mean cluster size, weighted by calls."""
    return sum(size * size for _, size in clusters) / sum(size for _, size in clusters)


def simulated_pairs(
    design: Design, baseline: Truth, candidate: Truth, *, rng: np.random.Generator, pairs: int
) -> Iterator[tuple[RunSummary, RunSummary]]:
    """Return this many pairs of a baseline and a candidate that met the same task instances."""
    scenarios = {scenario for scenario, _, _ in design.worlds}
    hardness = rng.random((pairs, len(scenarios)))
    sides = [_runs(design, truth, hardness, rng) for truth in (baseline, candidate)]
    return zip(*sides, strict=True)


def _runs(
    design: Design, truth: Truth, hardness: Values, rng: np.random.Generator
) -> Iterator[RunSummary]:
    sizes, errors = _simulated_errors(design, truth.errors, hardness, rng=rng)
    names = list(truth.classes)
    kinds = errors[..., None]
    if names:
        kinds = rng.multinomial(errors, list(truth.classes.values()))
    outcomes = [Outcome.COMPLETED, *truth.outcomes]
    completed = max(1 - sum(truth.outcomes.values()), 0.0)
    chances = [completed, *truth.outcomes.values()]
    drawn = rng.choice(len(outcomes), p=chances, size=sizes.shape)
    for rows in zip(sizes.tolist(), kinds.tolist(), drawn.tolist(), strict=True):
        trials = []
        for world, calls, of_kinds, outcome in zip(design.worlds, *rows, strict=True):
            has_handshake = world[0] in design.handshakes
            trial = TrialSummary(
                *world,
                outcome=outcomes[outcome],
                calls=calls,
                errors=dict(zip(names, of_kinds, strict=False)),
                executed=calls - sum(of_kinds),
                handshake=_CLOSED if has_handshake else (),
            )
            trials.append(trial)
        yield _run(_with_faults(trials, truth, rng))


def _with_faults(
    trials: Sequence[TrialSummary], truth: Truth, rng: np.random.Generator
) -> Sequence[TrialSummary]:
    """Return the trials with the counts that do not follow from their outcomes."""
    for name, share in truth.shares.items():
        trials = [CRITERIA[name].simulate(trial, share, rng) for trial in trials]
    return trials


def _run(trials: Sequence[TrialSummary]) -> RunSummary:
    return RunSummary(
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
    rates = _beta_quantiles(rate, design.clustering.scenario, hardness)[:, columns]
    icc = design.clustering.trial
    if icc:
        spread = (1 - icc) / icc
        rates = np.clip(rates, 1e-9, 1 - 1e-9)
        rates = rng.beta(rates * spread, (1 - rates) * spread)
    return sizes, rng.binomial(sizes, rates)


def _beta_quantiles(mean: float, icc: float, shares: Values) -> Values:
    """Return the quantiles at `shares` of the beta distribution with this mean and correlation."""
    if not icc or not 0 < mean < 1:
        return np.full_like(shares, mean)
    grid = np.linspace(0, 1, _GRID)
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
        pairs = np.stack(columns, axis=-1).tolist()
        return Rate(sum(self._proven(groups, parts) for groups in pairs), self.pairs)

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
        while True:
            power = self._power(trials, truth, rng, earlier=power)
            if power.value >= POWER:
                break
            trials += max(1, trials // 20)
            power = Rate(0, 0)
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
        low = least
        high = MOST_TRIALS + 1
        at = min(2 * least, MOST_TRIALS)
        while low < at < high - (high // 20 if enough else 0):
            power = self._power(at, truth, rng)
            if power.value >= POWER:
                high = at
                enough = at, power
            elif at > LARGE and at * _size_ratio(power.high) > MOST_TRIALS:
                return None
            else:
                low = at
            step = min(max(_size_ratio(power.value), 0.25), 4)
            at = min(max(round(at * step), low + max(1, low // 20)), MOST_TRIALS)
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


def _size_ratio(power: float) -> float:
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
