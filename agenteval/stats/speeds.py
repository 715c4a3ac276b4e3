"""The speed at which a model was served at one level of concurrency, from its replies."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agenteval.core.run import Run
from agenteval.core.served import generated
from agenteval.core.tally import useful_calls, was_useful
from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.stats.loads import Stint, Timeline, timeline
from agenteval.stats.quantiles import Samples, samples

# A reply in fewer pieces was held back, by a tool parser for one, and its last gap tells nothing.
MOST_PER_PIECE = 8  # tokens; speculative decoding sends a few at a time


def generation_speed(turn: Turn) -> float | None:
    """Return tokens a second after the first piece; None where the pieces cannot show it."""
    tokens, timing = generated(turn), turn.timing
    if timing is None or not timing.gap_mean or tokens > MOST_PER_PIECE * timing.pieces:
        return None
    return tokens / (timing.pieces * timing.gap_mean)


def _read(turn: Turn) -> int:
    """Return the prompt tokens, without those that were cached."""
    return turn.usage.prompt_tokens - turn.usage.cached_tokens


def prefill_speed(turn: Turn) -> float | None:
    """Return prompt tokens a second until the first piece, without those that were cached."""
    tokens = _read(turn)
    if turn.timing is None or not turn.timing.first or tokens <= 0:
        return None
    return tokens / turn.timing.first


def all_turns(trial: Trial) -> Iterator[Turn]:
    """Yield the turns of the first agent, and of all agents that it led to."""
    yield from trial.turns
    for agent in trial.agents:
        yield from agent.turns


JOULES_PER_KWH = 3.6e6
NO_TIME = Timeline()


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a run's requests.

    `seconds` are by the clock; None where they are not known, as are the values derived from them.
    Samples over requests: `generation` and `prefill` in tokens a second, `first` in seconds to the
    first piece. `useful` counts calls that were allowed and ran, and is None where nothing could
    run. `failed` counts requests without a reply. `windows` are of all requests together.
    `by_pieces` marks tokens that are pieces of streams, in replies whose server did not count them.
    """

    concurrency: int
    requests: int
    completion_tokens: int
    seconds: float | None
    generation: Samples | None
    prefill: Samples | None
    first: Samples | None
    windows: Timeline = NO_TIME
    useful: int | None = None
    failed: int = 0
    joules: float | None = None
    by_pieces: bool = False

    @property
    def tokens_per_second(self) -> float | None:
        """The tokens generated a second by all requests together; None also if not counted."""
        return _over(self.completion_tokens, self.seconds)

    @property
    def completions_per_minute(self) -> float | None:
        return 60 * self.requests / self.seconds if self.seconds else None

    @property
    def useful_per_minute(self) -> float | None:
        if not self.seconds or self.useful is None:
            return None
        return 60 * self.useful / self.seconds

    @property
    def watts(self) -> float | None:
        return _over(self.joules, self.seconds)

    @property
    def tokens_per_kwh(self) -> float | None:
        per_joule = _over(self.completion_tokens, self.joules)
        return per_joule and per_joule * JOULES_PER_KWH


def _over(amount: float | None, by: float | None) -> float | None:
    """Divide; None where either is not known, as counted tokens and joules are above 0."""
    return amount / by if amount and by else None


def _stints(turns: Sequence[Turn], calls: Sequence[CallRecord] = ()) -> Iterator[Stint]:
    """Yield the requests of one agent whose times are known, with the useful ones of its calls."""
    useful = Counter(one.turn for one in calls if was_useful(one))
    for number, turn in enumerate(turns):
        if turn.ended is not None:
            began = turn.ended - turn.seconds
            first = began + (turn.timing.first if turn.timing else 0.0)
            read = _read(turn) if turn.timing else 0
            yield Stint(began, first, turn.ended, generated(turn), useful[number], read)


def speed_of(turns: Sequence[Turn], *, concurrency: int, seconds: float | None, new: bool) -> Speed:
    """Return the speed over these turns.

    `new` states that no prompt began like another one, so that none of it can have been cached.
    Else prefill is reported only if the server reports cached tokens: many never do.
    """
    prefill_is_known = new or any(turn.usage.cached_tokens for turn in turns)
    windows = replace(timeline([*_stints(turns)]), useful=None)
    return Speed(
        concurrency=concurrency,
        requests=len(turns),
        completion_tokens=sum(map(generated, turns)),
        seconds=seconds,
        generation=_samples(map(generation_speed, turns)),
        prefill=_samples(map(prefill_speed, turns)) if prefill_is_known else None,
        first=_samples(turn.timing.first for turn in turns if turn.timing),
        windows=windows if prefill_is_known else replace(windows, prefill=None),
        by_pieces=any(turn.timing and not turn.usage.completion_tokens for turn in turns),
    )


def run_speed(run: Run) -> Speed:
    """Return the speed over all trials: requests of a void trial count as served."""
    turns = [turn for trial in run.trials for turn in all_turns(trial)]
    effort = run.effort
    speed = speed_of(
        turns,
        concurrency=run.concurrency,
        seconds=effort.seconds if effort else None,
        new=False,
    )
    useful = sum(map(useful_calls, run.trials))
    stints = [
        stint
        for trial in run.trials
        for turns, calls in (
            (trial.turns, trial.calls),
            *((part.turns, part.calls) for part in trial.agents),
        )
        for stint in _stints(turns, calls)
    ]
    joules = effort.joules if effort else None
    windows = timeline(stints)
    if not any(turn.usage.cached_tokens for turn in turns):
        windows = replace(windows, prefill=None)
    return replace(speed, windows=windows, useful=useful, joules=joules)


def _samples(values: Iterable[float | None]) -> Samples | None:
    return samples(Counter(value for value in values if value is not None))
