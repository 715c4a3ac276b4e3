"""Simulations of what the statistics promise, on models whose truth is known.

`make validate` makes a page of them; tests/stats/test_validity.py runs them with fewer repetitions.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from agenteval.classes.catalogue import ARTICLE_ROWS, article_row, fold
from agenteval.models.persona import NAMES, load_persona
from agenteval.report.build import build_view, class_texts
from agenteval.stats.comparison import Difference, compare_all
from agenteval.stats.criteria import Rules
from agenteval.stats.planning import (
    Clustering,
    Design,
    Rehearsal,
    Truth,
    _simulated_errors,
    simulated_pairs,
)
from agenteval.stats.promotion import LEVEL, GateVerdict, judge_gate, levels
from agenteval.stats.rates import Estimand, Rate, clustered
from agenteval.stats.signature import compare_kinds
from agenteval.store.sql import SqlStore
from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, TrialSummary
from agenteval.trial.trial import ErrorCounts, Trial
from agenteval.workflows.gate import looked

PROJECT = Path(__file__).parent.parent
SEED = 20261121
RATE = 9 / 161  # the dense model's of the published comparison
TRUTH = Truth(RATE, {"one": 0.5, "two": 0.3, "three": 0.2})
MARGIN = Rules(0.03, about=Estimand.LIKE)
TRIALS = (20, 80)
ICCS = (0.0, 0.1, 0.3)
EXCHANGES = 999  # of which 5 % are whole: as valid as more of them, only less sharp
SCENARIOS = ("ralf/handshake", "media/rendered-plot", "data/pantry-audit")


@dataclass(frozen=True, slots=True)
class Found:
    """One row: what was tried, the share seen, and the aim for it."""

    what: tuple[str, ...]
    share: Rate
    low: float
    high: float

    @property
    def held(self) -> bool:
        """Whether the aim is within what so many repetitions can tell."""
        return self.share.high >= self.low and self.share.low <= self.high


def design(trials: int, scenario: float, within: float) -> Design:
    sizes = [*range(3, 13), 6, 7, 7, 8, 8, 9]  # 7.7 calls on average
    return Design(
        [(f"s{at}", at, at) for at in range(trials)],
        sizes,
        frozenset(),
        Clustering(scenario, within),
    )


def drawn(
    laid_out: Design, rate: float, repetitions: int, seed: int
) -> Iterator[list[tuple[int, int]]]:
    """The trials of so many runs, as clusters."""
    rng = np.random.default_rng(seed)
    hardness = rng.random((repetitions, len(laid_out.worlds)))
    sizes, errors = _simulated_errors(laid_out, rate, hardness, rng=rng)
    for counts, of in zip(errors.tolist(), sizes.tolist(), strict=True):
        yield list(zip(counts, of, strict=True))


def coverage(repetitions: int) -> Iterator[Found]:
    """95 % intervals: nominal at ICC 0 and 0.1, at least 90 % at 0.3."""
    for rate, trials, icc in product((RATE, 0.12), TRIALS, ICCS):
        runs = drawn(design(trials, 0, icc), rate, repetitions, SEED)
        intervals = [clustered(run).interval for run in runs]
        covered = sum(low <= rate <= high for low, high in intervals)
        what = f"{100 * rate:.1f}", str(trials), str(icc)
        yield Found(what, Rate(covered, repetitions), *_aim(icc))


def _aim(icc: float) -> tuple[float, float]:
    return (0.93, 0.97) if icc < 0.3 else (0.90, 1.0)


def differences(repetitions: int) -> Iterator[Found]:
    """95 % intervals of what 12 and 5.6 errors per 100 calls differ by, and of their ratio."""
    worse = replace(TRUTH, errors=0.12)
    for (met, paired), trials, icc in product(MET.items(), TRIALS, ICCS):
        pairs = equal_models(trials, icc, paired=paired, repetitions=repetitions, second=worse)
        gap, times, found = RATE - 0.12, RATE / 0.12, [0, 0]
        for at, pair in enumerate(pairs):
            one = difference(*pair, at, paired=paired)
            found[0] += one.low <= gap <= one.high
            found[1] += one.ratio.low <= times <= one.ratio.high
        for what, covered in zip(("difference", "ratio"), found, strict=True):
            yield Found((what, met, str(trials), str(icc)), Rate(covered, repetitions), *_aim(icc))


def rejections(repetitions: int) -> Iterator[Found]:
    """Two-sided tests of models that are equal, at 5 %."""
    for trials, icc, (name, (paired, test)) in product(TRIALS, ICCS, _TESTS.items()):
        pairs = equal_models(trials, icc, paired=paired, repetitions=repetitions)
        p_values = [p for at, pair in enumerate(pairs) if (p := test(*pair, at)) is not None]
        rejected = Rate(sum(p < 0.05 for p in p_values), len(p_values))
        yield Found((name, str(trials), str(icc)), rejected, 0.04, 0.06)


def scarce(repetitions: int) -> Iterator[tuple[Found, float]]:
    """The same at 1 error per 100 calls; and how many runs have five trials to tell them apart by.

    They are trials with errors, or the worlds in which the two models differ.
    """
    few = replace(TRUTH, errors=0.01)
    for trials, icc, (met, paired) in product(TRIALS, ICCS, MET.items()):
        pairs = [*equal_models(trials, icc, paired=paired, repetitions=repetitions, first=few)]
        rejected = sum(
            difference(*pair, at, paired=paired).p < 0.05 for at, pair in enumerate(pairs)
        )
        enough = sum(_telling(*pair, paired=paired) >= 5 for pair in pairs) / repetitions
        found = Found((met, str(trials), str(icc)), Rate(rejected, repetitions), 0.0, 0.06)
        yield found, enough


def _telling(one: RunSummary, other: RunSummary, *, paired: bool) -> int:
    ours, theirs = ([trial.all_errors for trial in run.trials] for run in (one, other))
    if paired:
        return sum(a * m != b * n for (a, n), (b, m) in zip(ours, theirs, strict=True))
    return sum(count > 0 for count, _ in (*ours, *theirs))


def equal_models(
    trials: int,
    icc: float,
    *,
    paired: bool,
    repetitions: int,
    first: Truth = TRUTH,
    second: Truth | None = None,
) -> Iterator[tuple[RunSummary, RunSummary]]:
    """Pairs of runs, equal unless a second truth is given.

    In the same worlds half of the ICC is the scenario's, which both share; else all is the trial's.
    """
    laid_out = design(trials, icc / 2, icc / 2) if paired else design(trials, 0, icc)
    rng = np.random.default_rng(SEED)
    return simulated_pairs(laid_out, first, second or first, rng=rng, pairs=repetitions)


def difference(one: RunSummary, other: RunSummary, seed: int, *, paired: bool) -> Difference:
    """Raises AssertionError if its p and its intervals contradict each other."""
    sides = ([[trial.all_errors for trial in run.trials]] for run in (one, other))
    (found,) = compare_all(*sides, seed=seed, paired=paired, exchanges=EXCHANGES)
    told = {found.low <= 0 <= found.high, found.ratio.low <= 1 <= found.ratio.high, found.p >= 0.05}
    assert len(told) == 1, found
    return found


def _kinds(one: RunSummary, other: RunSummary, seed: int) -> float | None:
    """The models draw the class of each error by itself."""
    return _p_of_kinds([[trial.errors for trial in run.trials] for run in (one, other)], seed)


def _kinds_by_trial(one: RunSummary, other: RunSummary, seed: int) -> float | None:
    """All errors of a trial are of one class."""
    rng = np.random.default_rng([SEED, seed])  # none that the exchanges use, too
    names, shares = zip(*TRUTH.classes.items(), strict=True)
    sides = [
        [{str(rng.choice(names, p=shares)): trial.all_errors[0]} for trial in run.trials]
        for run in (one, other)
    ]
    return _p_of_kinds(sides, seed)


def _p_of_kinds(sides: Sequence[Sequence[Mapping[str, int]]], seed: int) -> float | None:
    counts = [ErrorCounts.added([(12, by_class) for by_class in side]) for side in sides]
    kinds = compare_kinds(*counts, seed=seed, exchanges=EXCHANGES)
    return kinds.p if kinds else None


MET: Mapping[str, bool] = {"strangers": False, "same worlds": True}
_TESTS: Mapping[str, tuple[bool, Callable[..., float | None]]] = {
    "how many, strangers": (False, lambda *pair: difference(*pair, paired=False).p),
    "how many, same worlds": (True, lambda *pair: difference(*pair, paired=True).p),
    "which kinds": (False, _kinds),
    "which kinds, one in a trial": (False, _kinds_by_trial),
}


def promotions(repetitions: int) -> Iterator[Found]:
    """How often the margin of 3 points, or a ratio of 1.5, promotes a candidate just too bad."""
    for rules in (MARGIN, replace(MARGIN, margin=1.5, ratio=True)):
        for trials in TRIALS:
            for scenario, within in ((0.0, 0.0), (0.1, 0.05), (0.0, 0.3)):
                rehearsal = Rehearsal(design(trials, scenario, within), TRUTH, rules, repetitions)
                found = rehearsal.passes(rehearsal.at_the_margin, np.random.default_rng(SEED))
                name = "ratio 1.5" if rules.ratio else "3 points"
                yield Found((name, str(trials), str(scenario), str(within)), found, 0.0, 0.065)


def false_fails(repetitions: int) -> Iterator[Found]:
    """How often a candidate that is the same fails."""
    for trials in TRIALS:
        for scenario, within in ((0.0, 0.0), (0.1, 0.05), (0.0, 0.3)):
            rehearsal = Rehearsal(design(trials, scenario, within), TRUTH, MARGIN, repetitions)
            found = rehearsal.characteristics(TRUTH, np.random.default_rng(SEED))
            yield Found((str(trials), str(scenario), str(within)), found.failed, 0.0, 0.005)


def early_looks(repetitions: int) -> Iterator[tuple[str, Rate, Rate, float]]:
    """160 trials looked at five times: promoted, failed, and the trials that were played."""
    laid_out = design(160, 0.1, 0.05)
    spent = levels(5, LEVEL)
    rehearsal = Rehearsal(laid_out, TRUTH, MARGIN)
    for name, truth in (
        ("the same", TRUTH),
        ("at the margin", rehearsal.at_the_margin),
        ("twice as bad", TRUTH.worse(2)),
    ):
        rng = np.random.default_rng(SEED)
        ends = [
            _end(pair, spent)
            for pair in simulated_pairs(laid_out, TRUTH, truth, rng=rng, pairs=repetitions)
        ]
        shares = [
            Rate(sum(verdict is wanted for verdict, _ in ends), repetitions)
            for wanted in (GateVerdict.PASS, GateVerdict.FAIL)
        ]
        yield name, *shares, sum(trials for _, trials in ends) / repetitions


def _end(pair, spent) -> tuple[GateVerdict, int]:
    """The verdict that ends a run, and after how many trials."""
    whole = len(pair[0].trials)
    for look, level in enumerate(spent, 1):
        played = whole * look // len(spent)
        so_far = [replace(run, trials=run.trials[:played]) for run in pair]
        verdict = judge_gate(*so_far, MARGIN, level=level).verdict
        if verdict is not GateVerdict.INCONCLUSIVE:
            break
    return verdict, played


NEWCOMERS: Mapping[str, float] = {"the same": 0.0, "at the margin": MARGIN.margin}


def asked_again(
    repetitions: int, newcomers: Mapping[str, float] = NEWCOMERS
) -> Iterator[tuple[str, str, Rate, Rate]]:
    """A gate asked at a quarter, a half and the end of a run: promoted, by its memory and without.

    The trials are drawn here, beta-binomial, by none of agenteval's simulation.
    """
    rng = np.random.default_rng(SEED)
    for trials, icc in product((60, 160), (0.0, 0.1)):
        for name, worse in newcomers.items():
            passed = np.zeros(2, dtype=int)
            for _ in range(repetitions):
                runs = [_beta_binomial(trials, RATE + more, icc, rng) for more in (0.0, worse)]
                passed += [_ever_passed(*runs, remembers=remembers) for remembers in (True, False)]
            yield name, f"{trials} trials, ICC {icc}", *(Rate(int(n), repetitions) for n in passed)


def _beta_binomial(trials: int, rate: float, icc: float, rng: np.random.Generator) -> RunSummary:
    spread = (1 - icc) / icc if icc else 0.0
    made = []
    for at, calls in enumerate(rng.integers(3, 13, trials).tolist()):
        own = rng.beta(rate * spread, (1 - rate) * spread) if icc else rate
        errors = {"one": int(rng.binomial(calls, own))}
        made.append(TrialSummary("s", at, at, Outcome.COMPLETED, calls, errors))
    return RunSummary(
        id=str(rate),
        model="m",
        simulated=True,
        complete=False,
        concurrency=1,
        trials_planned=trials,
        trials=tuple(made),
    )


def _ever_passed(before: RunSummary, after: RunSummary, *, remembers: bool) -> bool:
    rules, looks = replace(MARGIN, about=Estimand.THESE), ()
    for share in (4, 2, 1):
        played = after.trials[: len(after.trials) // share]
        so_far = replace(after, id="next", trials=played, looks=looks)
        look = looked(before, so_far)
        level = look.level if remembers else LEVEL
        verdict = judge_gate(before, so_far, rules, level=level).verdict
        if verdict is GateVerdict.PASS:
            return True
        looks = (*looks, look.kept_as(so_far, rules, verdict))
    return False


def planned_power(repetitions: int) -> Iterator[Found]:
    """How often the size that `agenteval plan` asks for does promote a model that is the same."""
    for over, (scenario, within) in product((Estimand.LIKE, Estimand.THESE), PLANNED):
        rules = replace(MARGIN, about=over)
        planned = Rehearsal(design(60, scenario, within), TRUTH, rules, 1_000)
        size = planned.needed(np.random.default_rng(SEED))
        laid_out = planned.design.scaled(size.trials, over)
        rehearsed = replace(planned, design=laid_out, pairs=repetitions)
        found = rehearsed.passes(TRUTH, np.random.default_rng(SEED + 1))
        what = str(over), str(scenario), str(within), str(size.trials)
        yield Found(what, found, 0.78, 0.84)


PLANNED = ((0.0, 0.0), (0.0, 0.1), (0.1, 0.05), (0.0, 0.3))


def calls_needed(repetitions: int) -> Iterator[Found]:
    """How often as many calls as a comparison asks for settle 5.6 against 12 errors per 100."""
    worse = replace(TRUTH, errors=0.12)
    for (met, paired), icc in product(MET.items(), ICCS):
        (large,) = equal_models(20_000, icc, paired=paired, repetitions=1, second=worse)
        calls = difference(*large, SEED, paired=paired).calls_needed
        trials = round(calls / np.mean(design(1, 0, 0).sizes))
        pairs = equal_models(trials, icc, paired=paired, repetitions=repetitions, second=worse)
        settled = sum(
            difference(*pair, at, paired=paired).p < 0.05 for at, pair in enumerate(pairs)
        )
        yield Found((met, str(icc), str(calls)), Rate(settled, repetitions), 0.76, 0.84)


def personas(trials: int) -> Iterator[tuple[str, str, float, Rate]]:
    """Each known figure of each simulated model beside what a real run of it reports."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/runs.db"
        models = [argument for name in NAMES for argument in ("-m", name)]
        command = ["run", *models, *SCENARIOS, "--trials", str(trials), "--store", store]
        subprocess.run(
            [sys.executable, "-m", "agenteval", *command, "--report", f"{folder}/r.html", "--json"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=PROJECT,
        )
        opened = SqlStore(store)
        runs = [opened.load(run.id) for run in opened.runs()]
        opened.close()
    played = {run.id: run.trials for run in runs}
    view = build_view(runs, classes=class_texts(), fold=fold("article"))
    for seen in view.runs:
        name = seen.run.model.name
        persona = load_persona(name)
        known = dict.fromkeys(ARTICLE_ROWS, 0.0)
        for row, slip in persona.slips.items():
            known[article_row(row)] += slip.count / persona.calls
        yield from ((name, row, rate, seen.errors.rows[row]) for row, rate in known.items())
        recovery = persona.recovery
        again = recovery.again / (1 - recovery.stop)
        yield name, "denied again after a denial", again, seen.recovery.after_denied
        yield name, "stops after a denial", recovery.stop, _stopped(played[seen.run.id])


def _stopped(trials: Sequence[Trial]) -> Rate:
    """Denials that were answered by words alone, of those behind which another turn came.

    Only a turn's last call counts, as it is the one that a simulated model answers.
    """
    stops = []
    for trial in trials:
        last = {call.turn: call for call in trial.calls}
        after = [
            following
            for number, following in enumerate(trial.turns[1:])
            if number in last and not last[number].verdict.allowed
        ]
        stops.append((sum(not turn.calls for turn in after), len(after)))
    return clustered(stops)
