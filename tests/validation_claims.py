"""What figures are about, what is claimed of models, and lazy ones: truths that are drawn here.

Nothing of agenteval's simulation is used, only what it says of runs. `make validate` makes a page
of it; tests/stats/test_validity.py runs it with fewer repetitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.stats import t as student

from agenteval.config.files import shipped
from agenteval.config.gate import load_rules
from agenteval.report.build import FEWEST, build_comparison
from agenteval.report.sentences import Side
from agenteval.stats import permutation
from agenteval.stats.comparison import compare_all
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.stats.rates import Estimand, Layout, Rate, clustered, met_strata
from agenteval.stats.signature import compare_kinds
from agenteval.trial.call import Outcome
from agenteval.trial.run import ModelCard
from agenteval.trial.summary import RunSummary, TrialSummary
from agenteval.trial.trial import ErrorCounts

SEED = 20261121
RATE = 0.056
EXCHANGES = 999
Clusters = list[tuple[int, int]]

FEW = ((2, 3), (2, 10), (3, 5), (4, 3), (4, 10), (8, 3), (12, 3))
LAYOUTS = ((3, 20), (5, 12), (9, 10), (10, 10), (11, 10), (36, 5))  # scenarios, trials of each


def _beta(rng: np.random.Generator, mean, icc: float, size=None):
    spread, mean = (1 - icc) / icc, np.clip(mean, 1e-6, 1 - 1e-6)
    return rng.beta(mean * spread, (1 - mean) * spread, size)


def _trials(rng: np.random.Generator, rates, each: int, *, within: float = 0.05) -> Clusters:
    """So many trials of each scenario, of 3 to 12 calls, their own rates around its rate."""
    own = _beta(rng, np.repeat(rates, each), within)
    calls = rng.integers(3, 13, len(own))
    return [*zip(rng.binomial(calls, own).tolist(), calls.tolist(), strict=True)]


def _names(scenarios: int, each: int) -> list[str]:
    return [f"s{at:03}" for at in range(scenarios) for _ in range(each)]


@dataclass(frozen=True, slots=True)
class About:
    """How often intervals cover what they are about; and how wide, beside Student's t."""

    scenarios: int
    trials: int
    about: Estimand
    covered: Rate
    by_t: Rate
    width: float  # in points
    times: float  # that of Student's t


def estimands(repetitions: int, layouts: Sequence[tuple[int, int]] = LAYOUTS) -> Iterator[About]:
    """The rate of 5.6 in scenarios that differ (ICC .1), in trials that do (.05)."""
    rng = np.random.default_rng(SEED)
    for scenarios, each in layouts:
        names = _names(scenarios, each)
        found = {about: [] for about in Estimand}
        for _ in range(repetitions):
            rates = _beta(rng, RATE, 0.1, scenarios)
            clusters = _trials(rng, rates, each)
            for about, truth in ((Estimand.THESE, rates.mean()), (Estimand.LIKE, RATE)):
                one = clustered(clusters, Layout(about, names))
                value, reach = _by_t(clusters, scenarios, about)
                found[about].append(
                    (
                        one.low <= truth <= one.high,
                        abs(value - truth) <= reach,
                        one.high - one.low,
                        2 * reach,
                    )
                )
        for about, rows in found.items():
            covered, by_t, width, usual = np.array(rows, dtype=float).T
            shares = [Rate(int(of.sum()), repetitions) for of in (covered, by_t)]
            width, usual = width.mean(), usual.mean()
            yield About(scenarios, each, about, *shares, 100 * width, width / usual)


def _by_t(clusters: Clusters, scenarios: int, about: Estimand) -> tuple[float, float]:
    """A rate and how far its interval reaches: stratified, or clustered by scenario."""
    errors, calls = np.array(clusters).T
    rate = errors.sum() / calls.sum()
    added = ((errors - rate * calls) / calls.sum()).reshape(scenarios, -1)
    k = added.shape[1]
    if about is Estimand.LIKE:
        variance, df = scenarios * added.sum(axis=1).var(ddof=1), scenarios - 1
    else:
        variance, df = k * added.var(axis=1, ddof=1).sum(), scenarios * (k - 1)
    return rate, float(student.ppf(0.975, df) * sqrt(variance))


def interactions(repetitions: int) -> Iterator[tuple[str, str, Rate, Rate]]:
    """Models that are equal over scenarios, each of which is harder for one of the two."""
    rng = np.random.default_rng(SEED)
    for scenarios, each in ((12, 10), (36, 5), (36, 20)):
        for paired in (True, False):
            names, rejected = _names(scenarios, each), dict.fromkeys(Estimand, 0)
            for seed in range(repetitions):
                sides = [_trials(rng, _beta(rng, RATE, 0.04, scenarios), each) for _ in range(2)]
                for about in Estimand:
                    (found,) = compare_all(
                        *([side] for side in sides),
                        seed=seed,
                        paired=paired,
                        layouts=(Layout(about, names), Layout(about, names)),
                        exchanges=EXCHANGES,
                    )
                    rejected[about] += found.p < 0.05
            worlds = "same worlds" if paired else "strangers"
            rates = [Rate(rejected[about], repetitions) for about in Estimand]
            yield f"{scenarios} x {each}", worlds, *rates


SCREEN = 0.1  # twice the level, shared by all claims: what could be settled is below
CLASSES = ("pipe", "chain", "heredoc", "binary", "redirect")
MIX = (0.35, 0.25, 0.2, 0.12, 0.08)


def false_claims(repetitions: int) -> Iterator[tuple[int, int, Rate, int]]:
    """Comparisons of models that are the same: any sentence that says Settled."""
    for models in (2, 3, 4, 5):
        rng = np.random.default_rng([SEED, models])
        trials, false, claims = (20, 0, 0) if models == 2 else (60, 0, 0)
        for _ in range(repetitions):
            sides = [_side(rng, str(at), trials) for at in range(models)]
            least, among = _least_p(sides)
            claims = max(claims, among)
            if least < SCREEN / among:
                lines = build_comparison(sides).sentences
                false += any(line.startswith("Settled") for line in lines)
        yield models, trials, Rate(false, repetitions), claims


def _least_p(sides: Sequence[Side]) -> tuple[float, int]:
    """The smallest p of all claims, by a tenth of the exchanges, and how many claims there are.

    Whether a report is worth making: most have no p that could be settled after correction.
    """
    found = []
    for one, other in combinations(sides, 2):
        columns = [
            permutation.by_trial([of.total(), *map(of.clusters, CLASSES)])
            for of in (one.errors, other.errors)
        ]
        parts = met_strata(one.scenarios, other.scenarios)
        tested = permutation.unpaired_test(*columns, strata=parts, seed=0, exchanges=EXCHANGES)
        errors = sum(column[..., 0].sum(axis=0) for column in columns)
        found += [of.p for of, n in zip(tested, errors, strict=True) if n >= FEWEST]
        kinds = compare_kinds(one.errors, other.errors, seed=0, exchanges=EXCHANGES)
        found += [kinds.p] if kinds else []
    return min(found), len(found)


def _side(rng: np.random.Generator, name: str, trials: int) -> Side:
    """A model of 12 errors per 100 calls, those of a trial alike in number and mostly in class."""
    made = []
    for errors, calls in _trials(rng, np.full(1, 0.12), trials, within=0.1):
        mix = rng.dirichlet(np.array(MIX) * 2)
        kinds = rng.multinomial(errors, mix).tolist()
        made.append((calls, dict(zip(CLASSES, kinds, strict=True))))
    counts = ErrorCounts.added(made)
    return Side.of_counts(ModelCard(name, name), counts, [f"s{at % 3}" for at in range(trials)])


LAZY = (
    Outcome.CLAIMED_DONE,
    Outcome.GAVE_UP,
    Outcome.STALLED,
    Outcome.LOOPED,
    Outcome.OUT_OF_TURNS,
    Outcome.TIMED_OUT,
)


def lazy_models(repetitions: int) -> Iterator[tuple[str, Rate, Rate]]:
    """Candidates without an error and without a goal, by the shipped gate: passed and failed."""
    rng, rules = np.random.default_rng(SEED), load_rules(shipped() / "gate.toml")
    for end in LAZY:
        verdicts = []
        for _ in range(repetitions):
            trials = int(rng.integers(20, 80))
            before = [
                Outcome.COMPLETED if done else Outcome.STALLED for done in rng.random(trials) < 0.9
            ]
            pair = _ended(rng, "base", before, 0.05), _ended(rng, "next", [end] * trials, 0.0)
            verdicts.append(judge_gate(*pair, rules).verdict)
        shares = [
            Rate(sum(one is of for one in verdicts), repetitions)
            for of in (GateVerdict.PASS, GateVerdict.FAIL)
        ]
        yield end.value, *shares


def _ended(rng: np.random.Generator, name: str, ends: Sequence[Outcome], rate: float) -> RunSummary:
    calls = rng.integers(3, 13, len(ends)).tolist()
    trials = [
        TrialSummary(f"s{at % 5}", at, at, end, n, {"pipe": int(rng.binomial(n, rate))})
        for at, (end, n) in enumerate(zip(ends, calls, strict=True))
    ]
    return RunSummary(
        id=name,
        model=name,
        simulated=True,
        complete=True,
        concurrency=1,
        trials_planned=len(trials),
        trials=tuple(trials),
    )
