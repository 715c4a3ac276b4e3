"""A trial as it is read: turn by turn, each denied call with its evidence marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.malformed import MalformedCall
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.plain import shortened
from agenteval.core.recovery import trial_recovery
from agenteval.core.trial import AgentPart, CallRecord, HandshakeStep, Message, Trial, Turn

# Characters; a report is read, the store keeps the whole.
REPLY_SHOWN = 1500
TEXT_SHOWN = 4000  # of a call before and in its evidence, of what a model said, of a traceback
AFTER_SHOWN = 1000  # of a call behind its evidence, of a hint
PROMPT_SHOWN = 12_000
NAME_SHOWN = 200  # of a name, the reason of an end

ENDED = {
    Ending.STOPPED: "it replied without a tool call",
    Ending.GOAL: "the goal held",
    Ending.TURNS: "its turns were used up",
    Ending.TOKENS: "its tokens were used up",
    Ending.TIME: "its time was used up",
    Ending.LOOPED: "it did the same again and again",
    Ending.CONTEXT: "the conversation outgrew its context",
    Ending.BROKEN: "our side or the server failed",
    Ending.REFUSED: "a limit of the scenario refused it",
}
Place = tuple[int | None, int | None]  # turn and position of a call


@dataclass(frozen=True, slots=True)
class CallShown:
    """One call: its text cut where the evidence of the primary class begins and ends.

    `named` says that the evidence is the name of the tool; `followed` what came after a denial.
    """

    tool: str
    named: bool
    before: str
    marked: str
    after: str
    classes: tuple[str, ...]
    hint: str
    followed: str
    reply: str
    cut: int  # characters of the reply left out
    state: str  # "denied", "allowed", or how an allowed call failed
    agents: "tuple[AgentShown, ...]" = ()  # that it asked for


@dataclass(frozen=True, slots=True)
class TurnShown:
    """`malformed` are those of the whole turn, its calls in their order; `cost` what it took."""

    number: int  # from 1
    text: str
    reasoning: str
    cost: str
    calls: tuple[CallShown, ...]
    malformed: tuple[MalformedCall, ...]


@dataclass(frozen=True, slots=True)
class AgentShown:
    """A sub-agent; `agents` are those of which it is not known by which of its calls."""

    part: AgentPart
    denials: int
    turns: tuple[TurnShown, ...]
    agents: "tuple[AgentShown, ...]"
    reason: str
    prompt: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TrialShown:
    """The first agent's turns; sub-agents stand in them as in `AgentShown`.

    `trace` is what stands behind the first line of the reason of its end; `steps` are those of its
    handshake, each with when it was reached.
    """

    trial: Trial
    denials: int
    turns: tuple[TurnShown, ...]
    agents: tuple[AgentShown, ...] = ()
    reason: str = ""
    trace: str = ""
    steps: tuple[tuple[str, bool, str], ...] = ()  # name, whether reached, and where
    prompt: tuple[tuple[str, str], ...] = ()  # who says it, and what
    place: str = ""  # of its page, by which it is linked

    @property
    def ended(self) -> str:
        return ENDED[self.trial.ending]


def rank(outcome: Outcome) -> int:
    """What a reader looks at first: what did not complete, then what is void."""
    return {Outcome.VOID: 1, Outcome.COMPLETED: 2}.get(outcome, 0)


def shown_trial(trial: Trial, place: str = "") -> TrialShown:
    turns, agents = _acted(trial, 0)
    reason, _, trace = trial.reason.partition("\n")
    reason, trace = shortened(reason, NAME_SHOWN), shortened(trace, TEXT_SHOWN)
    steps = tuple((step.name, step.reached, reached_at(step)) for step in trial.handshake)
    prompt = _prompt(trial.prompt)
    return TrialShown(trial, denials(trial), turns, agents, reason, trace, steps, prompt, place)


def _prompt(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    return tuple((who, shortened(said, PROMPT_SHOWN)) for who, said in told_messages(messages))


def reached_at(step: HandshakeStep) -> str:
    """By which call; empty where that is not known."""
    if not step.reached or step.turn is None or step.position is None:
        return ""
    whose = f" of {step.agent}" if step.agent else ""
    early = ", too early" if step.in_order is False else ""
    return f"turn {step.turn + 1}, call {step.position + 1}{whose}{early}"


def told_messages(prompt: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """What an agent began with: who says it, and what."""
    for message in prompt:
        calls = (f"{call.name} {call.raw}" for call in message.calls)
        yield message.role, "\n".join(filter(None, (message.content, *calls)))


def denials(acted: Trial | AgentPart) -> int:
    return sum(not record.verdict.allowed for record in acted.calls)


def _acted(trial: Trial, number: int) -> tuple[tuple[TurnShown, ...], tuple[AgentShown, ...]]:
    """The turns of the trial's agent of this number, and the agents that none of its calls has.

    All sub-agents of the trial are in `trial`, whose turns and calls are those of that agent.
    """
    asked: dict[Place, list[AgentShown]] = {}
    for part in trial.agents:
        if part.parent == number:
            own = replace(trial, turns=part.turns, calls=part.calls, ending=part.ending)
            reason = shortened(part.reason, NAME_SHOWN)
            acted = _acted(own, part.number)
            shown = AgentShown(part, denials(part), *acted, reason, _prompt(part.prompt))
            asked.setdefault((part.turn, part.position), []).append(shown)
    followed = {
        (one.turn, one.position): str(one.recovery) for one in trial_recovery(trial).aftermaths
    }
    calls: dict[int, list[CallShown]] = {}
    for record in trial.calls:
        place = record.turn, record.position
        shown_call = _call(record, followed.get(place, ""), asked.pop(place, []))
        calls.setdefault(record.turn, []).append(shown_call)
    turns = tuple(
        TurnShown(
            number=at + 1,
            text=shortened(turn.text, TEXT_SHOWN),
            reasoning=shortened(turn.reasoning, TEXT_SHOWN),
            cost=_cost(turn),
            calls=tuple(calls.get(at, ())),
            malformed=turn.malformed,
        )
        for at, turn in enumerate(trial.turns)
    )
    return turns, tuple(one for agents in asked.values() for one in agents)


def _cost(turn: Turn) -> str:
    """Tokens only where the server counted them."""
    usage = turn.usage
    told = [f"{turn.seconds:.1f} s"]
    if usage.prompt_tokens or usage.completion_tokens:
        told.append(f"{usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written")
    return "; ".join(told)


def _call(record: CallRecord, followed: str, agents: Sequence[AgentShown]) -> CallShown:
    before, marked, after = _parts(*marked_text(record.call, record.verdict))
    primary = record.verdict.primary
    return CallShown(
        tool=shortened(record.call.name, NAME_SHOWN),
        named=primary is not None and primary.evidence.text == record.call.name,
        before=before,
        marked=marked,
        after=after,
        classes=tuple(finding.failure_class for finding in record.verdict.findings),
        hint=shortened(primary.hint, AFTER_SHOWN) if primary else "",
        followed=followed,
        reply=record.reply[:REPLY_SHOWN],
        cut=max(0, len(record.reply) - REPLY_SHOWN),
        state=_state(record),
        agents=tuple(agents),
    )


def _parts(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """The three so that a page holds them: what is nearest to the evidence is kept."""
    left = len(before) - TEXT_SHOWN
    if marked and left > 0:
        before = f"({left} more characters) {before[-TEXT_SHOWN:]}"
    return (
        shortened(before, 2 * TEXT_SHOWN),
        shortened(marked, TEXT_SHOWN),
        shortened(after, AFTER_SHOWN),
    )


def marked_text(call: ToolCall, verdict: Verdict) -> tuple[str, str, str]:
    """The text of a call before, in and after the evidence; no mark where it does not match."""
    text = call.raw if call.command is None else call.command
    if verdict.primary is None:
        return text, "", ""
    evidence = verdict.primary.evidence
    if text[evidence.start : evidence.end] != evidence.text:
        return text, "", ""
    return text[: evidence.start], evidence.text, text[evidence.end :]


def _state(record: CallRecord) -> str:
    if not record.verdict.allowed:
        return "denied"
    if record.execution is None:
        return "allowed"
    if record.execution.limit:
        return f"ended by {record.execution.limit}"
    return f"exit {record.execution.exit_code}" if record.execution.exit_code else "allowed"
