"""Runs drawn by chance with known rates and clustering: what a gate does is seen by playing it.

Beta-binomial: a scenario is as hard for the baseline as for the candidate, and within it calls of
one trial resemble each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agenteval.core.gated import GatedRun, GatedTrial, World
from agenteval.core.outcome import Outcome
from agenteval.stats.rates import design_effect
from agenteval.stats.rules import Over

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENOUGH_ERRORS = 10  # trials with errors from which their resemblance is estimated
_GRID = 2001


@dataclass(frozen=True, slots=True)
class Clustering:
    """How much two calls resemble each other: of one scenario, and on top of it of one trial."""

    scenario: float
    trial: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What a simulated model is like: errors per call and their classes, and shares of trials."""

    errors: float
    classes: Mapping[str, float]
    handshake_missed: float = 0.0
    stalled: float = 0.0
    void: float = 0.0
    crashed: float = 0.0  # of the executed commands

    def with_errors(self, errors: float) -> "Truth":
        return replace(self, errors=min(errors, 1.0))

    def worse(self, times: float) -> "Truth":
        """The same kinds of fault, each so many times as often."""
        return Truth(
            min(self.errors * times, 1.0),
            self.classes,
            *(
                min(share * times, 1.0)
                for share in (self.handshake_missed, self.stalled, self.void, self.crashed)
            ),
        )


@dataclass(frozen=True, slots=True)
class Design:
    """How a run is laid out: the world of each trial, and sizes that its trials may have."""

    worlds: Sequence[World]
    sizes: Sequence[int]
    handshakes: frozenset[str]  # scenarios that have one
    clustering: Clustering

    def scaled(self, trials: int, over: Over) -> "Design":
        """The same with so many trials: of more scenarios if a verdict is about such, or of these.

        The trials of a scenario stay as many as they are in the first case.
        """
        names = list(dict.fromkeys(scenario for scenario, _ in self.worlds))
        if over is Over.SCENARIOS:
            each = max(1, round(len(self.worlds) / len(names)))
            names = [f"scenario {number}" for number in range(-(-trials // each))]
        return replace(self, worlds=[(names[at % len(names)], at) for at in range(trials)])


def truth_of(run: GatedRun) -> Truth:
    """What was seen in a run, as if it were the truth. The run must have made calls."""
    trials, played = run.counted, len(run.counted)
    asked = [trial.handshake for trial in trials if trial.handshake is not None]
    executed = sum(trial.executed for trial in trials)
    errors = sum(trial.errors[0] for trial in trials)
    names = sorted({name for trial in trials for name in trial.by_class})
    return Truth(
        errors=errors / sum(trial.calls for trial in trials),
        classes={
            name: sum(trial.by_class.get(name, 0) for trial in trials) / errors for name in names
        },
        handshake_missed=asked.count(False) / max(len(asked), 1),
        stalled=sum(trial.outcome is Outcome.STALLED for trial in trials) / played,
        void=1 - played / len(run.trials),
        crashed=sum(trial.crashed for trial in trials) / max(executed, 1),
    )


def design_of(run: GatedRun, *, icc: float) -> Design:
    """A run's layout. `icc` is used where too few trials bear errors to show how they cluster."""
    return Design(
        worlds=[trial.world for trial in run.trials],
        sizes=[trial.calls for trial in run.counted],
        handshakes=frozenset(
            trial.scenario for trial in run.counted if trial.handshake is not None
        ),
        clustering=clustering_of(run, icc=icc),
    )


def clustering_of(run: GatedRun, *, icc: float) -> Clustering:
    """By moments: from the design effects of trials, and of scenarios played more than once."""
    trials = [trial.errors for trial in run.counted if trial.calls]
    if sum(count > 0 for count, _ in trials) < ENOUGH_ERRORS:
        return Clustering(0.0, icc)
    size = _mean_size(trials)
    within = max((design_effect(trials) - 1) / (size - 1), 0.0) if size > 1 else 0.0
    groups: dict[str, tuple[int, int]] = {}
    for trial in run.counted:
        count, calls = groups.get(trial.scenario, (0, 0))
        groups[trial.scenario] = count + trial.errors[0], calls + trial.calls
    scenarios = [group for group in groups.values() if group[1]]
    apart = _mean_size(scenarios) - size  # calls that share the scenario and not the trial
    if len(scenarios) == 1 or apart <= 0:
        return Clustering(0.0, within)
    between = (design_effect(scenarios) - 1 - (size - 1) * within) / apart
    shared = min(max(between, 0.0), within)
    return Clustering(shared, within - shared)


def _mean_size(clusters: Sequence[tuple[int, int]]) -> float:
    """Of the cluster that a call is in."""
    return sum(size * size for _, size in clusters) / sum(size for _, size in clusters)


def simulated_pairs(
    design: Design, baseline: Truth, candidate: Truth, *, rng: "np.random.Generator", pairs: int
) -> Iterator[tuple[GatedRun, GatedRun]]:
    """So many pairs of a baseline and a candidate that met the same worlds."""
    hardness = rng.random((pairs, len({scenario for scenario, _ in design.worlds})))
    sides = [_runs(design, truth, hardness, rng) for truth in (baseline, candidate)]
    return zip(*sides, strict=True)


def _runs(
    design: Design, truth: Truth, hardness: "NDArray[np.float64]", rng: "np.random.Generator"
) -> Iterator[GatedRun]:
    shape = len(hardness), len(design.worlds)
    sizes, errors = simulated_errors(design, truth.errors, hardness, rng=rng)
    names = list(truth.classes)
    kinds = rng.multinomial(errors, list(truth.classes.values())) if names else errors[..., None]
    missed = rng.random(shape) < truth.handshake_missed
    void = rng.random(shape) < truth.void
    stalled = rng.random(shape) < truth.stalled
    executed = sizes - errors
    crashed = rng.binomial(executed, truth.crashed)
    columns = (sizes, kinds, executed, crashed, missed, void, stalled)
    for rows in zip(*(column.tolist() for column in columns), strict=True):
        yield _run(
            GatedTrial(
                world[0],
                world[1],
                Outcome.VOID if is_void else Outcome.STALLED if is_stalled else Outcome.COMPLETED,
                calls,
                dict(zip(names, of_kinds, strict=False)),
                ran,
                crashes,
                not has_missed if world[0] in design.handshakes else None,
            )
            for world, calls, of_kinds, ran, crashes, has_missed, is_void, is_stalled in zip(
                design.worlds, *rows, strict=True
            )
        )


def _run(made: Iterable[GatedTrial]) -> GatedRun:
    trials = tuple(made)
    return GatedRun(
        id="",
        model="",
        simulated=True,
        complete=True,
        concurrency=1,
        trials_planned=len(trials),
        trials=trials,
    )


def simulated_errors(
    design: Design,
    rate: float,
    hardness: "NDArray[np.float64]",
    *,
    rng: "np.random.Generator",
) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """Calls and errors of every trial; one row for each row of `hardness`.

    `hardness` has a column for each scenario: the quantile at which its own error rate lies.
    """
    import numpy as np  # noqa: PLC0415 - only simulations need it

    columns = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in design.worlds))}
    at = [columns[scenario] for scenario, _ in design.worlds]
    sizes = rng.choice(np.asarray(design.sizes), size=(len(hardness), len(at)))
    rates = _beta_quantiles(rate, design.clustering.scenario, hardness)[:, at]
    icc = design.clustering.trial
    if icc:
        spread = (1 - icc) / icc
        rates = np.clip(rates, 1e-9, 1 - 1e-9)
        rates = rng.beta(rates * spread, (1 - rates) * spread)
    return sizes, rng.binomial(sizes, rates)


def _beta_quantiles(
    mean: float, icc: float, shares: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Of the beta distribution with this mean, whose draws correlate so much."""
    import numpy as np  # noqa: PLC0415 - as above
    from scipy.special import betaincinv  # noqa: PLC0415 - as above

    if not icc or not 0 < mean < 1:
        return np.full_like(shares, mean)
    grid = np.linspace(0, 1, _GRID)
    spread = (1 - icc) / icc
    quantiles = betaincinv(mean * spread, (1 - mean) * spread, grid)
    found: NDArray[np.float64] = np.interp(shares, grid, quantiles)
    return found
