"""The one view of some runs that every renderer shows: all its numbers are computed once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from agenteval.stats.comparison import Difference, MeanDifference, ModelsDifference
from agenteval.stats.incidence import Incidence
from agenteval.stats.rates import NOTHING, Estimand, Layout, Rate, Repeated, clustered, share_of
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import Recovery
from agenteval.trial.run import Run
from agenteval.trial.summary import TrialSummary, World
from agenteval.trial.tally import AsServed, Executions, Score, Tallies
from agenteval.trial.trial import Influence, Trial

if TYPE_CHECKING:
    from agenteval.stats.signature import Kinds


@dataclass(frozen=True, slots=True)
class ClassText:
    """One row of the comparison table: a failure class with its text in the legend."""

    id: str
    title: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of one model: in total, and a rate for each row of the comparison table.

    `with_voids` is the total with the calls of void trials, then with each void as an additional
    error, as the model might have broken the trial. It is empty if few trials are void, or trials
    are not known.
    """

    label: str
    simulated: bool
    trials: int | None  # None where the counts do not show them
    total: Rate
    rows: Mapping[str, Rate]  # by the id of the row, in the order of the rows
    influence: Influence | None = None  # None where trials are not known, or one is all there is
    largest: str = ""  # what the trial of most influence is called
    with_voids: tuple[Rate, ...] = ()
    arm: str = ""  # what the model read; empty where that is not known
    cannot_occur: tuple[str, ...] = ()  # classes that the server keeps the model from


Unit = Literal["per 100", "share", "mean"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of two models. `difference` is None if one of the two has no data for it.

    `adjusted` is None if no sentence reports it, so that it needs no correction.
    """

    label: str
    unit: Unit
    difference: Difference | MeanDifference | None
    adjusted: float | None = None


@dataclass(frozen=True, slots=True)
class ClassPair:
    """One failure class in two models; `adjusted` is 1 if errors are too few for significance."""

    label: str
    difference: Difference
    adjusted: float = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """The comparison of two models: number of errors, their kinds, and recovery from denials.

    The adjusted p are after Holm's correction for all claims of the view, `family_size` of them.
    `kinds` is None if one of the two made no error. `by_trial` is False if one has no trials,
    `of_counts` is True if one has no run. `left_out` are the calls of each that are not compared,
    as they were made in task instances that the other did not play.
    """

    first: str
    second: str
    difference: Difference
    kinds: "Kinds | None"
    adjusted: float = 1.0
    kinds_adjusted: float = 1.0
    errors: tuple[int, int] = (0, 0)  # whose kinds were compared
    figures: tuple[Figure, ...] = ()
    classes: tuple[ClassPair, ...] = ()
    by_trial: bool = True
    of_counts: bool = False
    simulated: bool = False
    left_out: tuple[int, int] = (0, 0)
    family_size: int = 1
    scope: str = ""  # what its sentences are about; none where scenarios are not known

    @property
    def both(self) -> str:
        return f"{self.first} and {self.second}"

    @property
    def silent(self) -> tuple[str, ...]:
        """The models that made no call in the compared trials: their errors are not known."""
        rates = (self.first, self.difference.first), (self.second, self.difference.second)
        return tuple(name for name, rate in rates if not rate.n)

    def share(self, label: str) -> Difference | None:
        """Return the difference in this share; None if one of the two has no data for it."""
        (difference,) = (of.difference for of in self.figures if of.label == label)
        return difference if isinstance(difference, Difference) else None

    def adjusted_share(self, label: str) -> float | None:
        return next(of.adjusted for of in self.figures if of.label == label)


@dataclass(frozen=True, slots=True)
class Groups:
    """Models of two architectures: the rate of each, and the means of models, weighted equally.

    `others` treats each model as one draw of its architecture, so it is about other models too;
    None if there are too few models for that. Its p is one of `family_size` claims.
    """

    first: str
    second: str
    models: tuple[tuple[tuple[str, Rate], ...], tuple[tuple[str, Rate], ...]]
    others: ModelsDifference | None
    adjusted: float = 1.0
    family_size: int = 1


Turns = int | Literal["ever"]  # since a denial


@dataclass(frozen=True, slots=True)
class RecoveryFigures:
    """The recovery from the denials of one run; `no_chance` are those that nothing could follow.

    Of all others, `at_once` counts those recovered from in the next turn, `recovered_within` those
    in that many turns, and `at_all` those in any later turn; `turns` and `calls` are the medians
    over the latter. The rest is `unrecovered`, by outcome of the trial. `incidence` has all ends by
    turns since the denial, and follows denials of void trials until these broke; its last turn is
    "ever". `dependence` is the difference in denial rate between calls after a turn with a denial
    and others, with interval; None if either has no calls. `by_content` has, by content of the
    denial text, the rates recovered from `at_once` and `at_all`.
    """

    kinds: Mapping[Recovery, Rate]
    no_chance: Rate
    at_once: Rate
    recovered_within: Mapping[int, Rate]
    at_all: Rate
    unrecovered: Mapping[Outcome, Rate]
    turns: float | None
    calls: float | None
    longest_run: int
    turns_burned: Rate
    after_denied: Rate
    after_allowed: Rate
    dependence: Mapping[str, float] | None
    incidence: Mapping[str, Mapping[Turns, Incidence]]
    by_content: Mapping[str, Mapping[str, Rate]]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a handshake: the trials that passed it and all before it."""

    name: str
    passed: Rate


@dataclass(frozen=True, slots=True)
class Handshake:
    """One scenario's handshake.

    `in_order` are the trials in which no step came too early, of those that show it.
    """

    scenario: str
    steps: tuple[Step, ...]
    in_order: Rate


@dataclass(frozen=True, slots=True)
class ScenarioView:
    """One scenario's part of a run: errors of its calls, and its trials that were completed.

    `all_of` and `any_of` are None if it was not played often enough.
    """

    errors: Rate
    completed: Rate
    all_of: Repeated | None = None
    any_of: Repeated | None = None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Malformed calls of one run, as rates per call that was tried, by kind and layer to blame."""

    faulty: Rate
    kinds: Mapping[str, Rate]
    blames: Mapping[str, Rate]
    repairs: int


Transcripts = Callable[[Sequence[World]], Iterable[Trial]]  # in the order that is asked for


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as shown; `score` has the counts behind its rates.

    `tallies`, and `executions`, `arrivals` and `served`, which derive from them, are None if only
    summaries were read. `transcripts` returns the trials that a page needs.
    """

    run: Run
    score: Score
    tallies: Tallies | None
    transcripts: Transcripts | None
    executions: Executions | None
    arrivals: Arrivals | None
    errors: Errors
    any_denial: Rate  # trials with at least one denial
    outcomes: Mapping[Outcome, Rate]
    recovery: RecoveryFigures
    scenarios: Mapping[str, ScenarioView]
    handshakes: tuple[Handshake, ...]
    layout: Layout

    @property
    def label(self) -> str:
        return self.errors.label

    @property
    def trials(self) -> tuple[TrialSummary, ...]:
        """All trials, those that count before the void ones."""
        return (*self.score.counted, *self.score.voids)

    @property
    def played(self) -> int:
        """The number of trials, void or not."""
        return len(self.trials)

    @property
    def completed(self) -> Rate:
        return self.outcomes[Outcome.COMPLETED]

    @property
    def served(self) -> AsServed | None:
        return self.tallies.served if self.tallies else None

    @property
    def useful(self) -> int:
        """The calls that were allowed and ran."""
        return self.tallies.useful if self.tallies else 0

    def per_second(self, count: int) -> float | None:
        """Return the speed of what the run made so much of; None if its time is not known."""
        seconds = self.run.effort.seconds if self.run.effort else None
        return count / seconds if seconds else None

    @property
    def tool_errors(self) -> Rate | None:
        if self.executions is None:
            return None
        return clustered(self.executions.tool_errors, self.layout)

    @property
    def crashes(self) -> Rate:
        """The crashes of the server, of the requests."""
        return Rate(len(self.run.crashes), self.run.requests)

    @property
    def retries(self) -> int:
        """The requests that were sent again."""
        return sum(trial.retries for trial in self.trials)

    @property
    def stretched(self) -> float:
        """The most that a trial's time limits were multiplied by, for a slow server."""
        return max((trial.stretched for trial in self.trials), default=1.0)

    @property
    def undone(self) -> Rate:
        """The trials whose goal held once and not at the end."""
        return share_of([trial.undone for trial in self.score.counted], self.layout)

    @property
    def turns_to_goal(self) -> float | None:
        """The median of turns until the goal first held; None if it never did."""
        goal_turns = [trial.goal_turn for trial in self.score.counted]
        turns = [turn + 1 for turn in goal_turns if turn is not None]
        return median(turns) if turns else None

    @property
    def turns_after_goal(self) -> float | None:
        turns = [
            trial.turns - (trial.goal_turn + 1)
            for trial in self.score.counted
            if trial.goal_turn is not None
        ]
        return median(turns) if turns else None

    @property
    def agents(self) -> Mapping[str, Rate]:
        """The error rate of each sub-agent, over the trials in which it made calls."""
        trials = self.score.counted
        rates = {}
        for name in sorted({name for trial in trials for name in trial.agents}):
            clusters = [trial.agents.get(name, NOTHING) for trial in trials]
            rates[name] = clustered(clusters, self.layout)
        return rates


Views = Sequence[RunView]


@dataclass(frozen=True, slots=True)
class View:
    """The content of a report: warnings, the comparison table, sentences, then details.

    `runs` are the models that have a run. `folded` is set if the rows are of a coarser taxonomy.
    """

    title: str
    folded: bool
    rows: tuple[ClassText, ...]
    models: tuple[Errors, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]
    sentences: tuple[str, ...] = ()
    short: tuple[str, ...] = ()  # the last lines of a report
    runs: tuple[RunView, ...] = ()
    groups: Groups | None = None
    about: Estimand = Estimand.THESE
    basis: str = ""  # what the intervals are about, in a sentence
    compared: bool = False  # whether it is the pairs that were asked for

    @property
    def simulated(self) -> bool:
        return any(model.simulated for model in self.models)
