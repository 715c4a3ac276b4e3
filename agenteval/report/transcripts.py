"""A trial for reading, turn by turn, each denied call with its evidence marked.

`shown_trial` makes what a page, the viewer and the terminal show. `lines` is the text of
`agenteval transcript`, `document` its JSON.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from agenteval.report.json import Document, attributes, keyed
from agenteval.report.tables import counted, report_texts
from agenteval.trial.call import Ending, MalformedCall, Outcome, ToolCall, Verdict
from agenteval.trial.recovery import trial_recovery
from agenteval.trial.run import Run
from agenteval.trial.text import shortened, visible
from agenteval.trial.trial import AgentPart, CallRecord, HandshakeStep, Message, Trial, Turn

# Characters; a report is read, the store keeps the whole.
REPLY_SHOWN = 1500
TEXT_SHOWN = 4000  # of a call before and in its evidence, of what a model said, of a traceback
AFTER_SHOWN = 1000  # of a call behind its evidence, of a hint
PROMPT_SHOWN = 12_000
NAME_SHOWN = 200  # of a name, the reason of an end
_Place = tuple[int | None, int | None]  # turn and position of a call


@dataclass(frozen=True, slots=True)
class _CallShown:
    """One call, with its text split at the evidence of the primary class.

    `place` is the label of its agent, its turn and its position. `named` is set if the evidence is
    the name of the tool. `followed` is the recovery after a denial.
    """

    place: tuple[str, int, int]
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
    agents: "Sequence[_AgentShown]" = ()  # that it asked for


@dataclass(frozen=True, slots=True)
class _TurnShown:
    """One turn: its calls in order, all its malformed ones, and its `cost` in time and tokens.

    `unread` is the number of its calls that were not read.
    """

    number: int  # from 1
    text: str
    reasoning: str
    cost: str
    calls: Sequence[_CallShown]
    malformed: tuple[MalformedCall, ...]
    unread: int


@dataclass(frozen=True, slots=True)
class _AgentShown:
    """A sub-agent; `agents` are those whose starting call is not known."""

    part: AgentPart
    denials: int
    turns: tuple[_TurnShown, ...]
    agents: "tuple[_AgentShown, ...]"
    reason: str
    prompt: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TrialShown:
    """A trial: the first agent's turns, with sub-agents as in `_AgentShown`.

    `trace` is the reason of its end after the first line. `steps` are those of its handshake, each
    with the place where it was reached.
    """

    trial: Trial
    denials: int
    turns: tuple[_TurnShown, ...]
    agents: tuple[_AgentShown, ...] = ()
    reason: str = ""
    prompt: tuple[tuple[str, str], ...] = ()  # who says it, and what
    trace: str = ""
    steps: tuple[tuple[str, bool, str], ...] = ()  # name, whether reached, and where
    place: str = ""  # of its page, by which it is linked

    @property
    def ended(self) -> str:
        return _ended_text(self.trial.ending)


def _ended_text(ending: Ending) -> str:
    text: str = report_texts()["ended"][ending]
    return text


def rank(outcome: Outcome) -> int:
    """Return the rank in a reader's order: not completed, then void, then completed."""
    return {Outcome.VOID: 1, Outcome.COMPLETED: 2}.get(outcome, 0)


def shown_trial(
    trial: Trial,
    place: str = "",
    first: int = 0,
) -> TrialShown:
    """Return a trial as shown; of a part of one, `first` is the turn that it begins with."""
    turns, agents = _acted(trial, 0, "", first)
    reason, _, trace = trial.reason.partition("\n")
    return TrialShown(
        trial,
        denials(trial),
        turns,
        agents,
        reason=shortened(reason, NAME_SHOWN),
        prompt=_prompt(trial.prompt),
        trace=shortened(trace, TEXT_SHOWN),
        steps=tuple((step.name, step.reached, _reached_at(step)) for step in trial.handshake),
        place=place,
    )


def _prompt(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    return tuple((role, shortened(text, PROMPT_SHOWN)) for role, text in _messages(messages))


def _reached_at(step: HandshakeStep) -> str:
    """Return the call that reached a step; empty if that is not known."""
    if not step.reached or step.turn is None or step.position is None:
        return ""
    whose = f" of {step.agent}" if step.agent else ""
    early = ", too early" if step.in_order is False else ""
    return f"turn {step.turn + 1}, call {step.position + 1}{whose}{early}"


def _messages(prompt: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield role and text of each message that an agent began with."""
    for message in prompt:
        calls = (f"{call.name} {call.raw}" for call in message.calls)
        yield message.role, "\n".join(filter(None, (message.content, *calls)))


def denials(acted: Trial | AgentPart) -> int:
    return sum(not record.verdict.allowed for record in acted.calls)


def _acted(
    trial: Trial,
    number: int,
    label: str,
    first: int,
) -> tuple[tuple[_TurnShown, ...], tuple[_AgentShown, ...]]:
    """Return the turns of the agent of this number, and its sub-agents that no call started.

    `trial` has the turns and calls of that agent, and all sub-agents of the trial.
    """
    agents_by_call: dict[_Place, list[_AgentShown]] = defaultdict(list)
    for part in trial.agents:
        if part.parent == number:
            agents_by_call[part.turn, part.position].append(_agent_shown(trial, part, first))
    recoveries = {
        (denial.turn, denial.position): str(denial.recovery)
        for denial in trial_recovery(trial).aftermaths
    }
    calls: dict[int, list[_CallShown]] = defaultdict(list)
    for record in trial.calls:
        spot = record.turn, record.position
        call = _call_shown(
            record,
            place=(label, first + record.turn, record.position),
            followed=recoveries.get(spot, ""),
            agents=agents_by_call.pop(spot, ()),
        )
        calls[record.turn].append(call)
    # Sub-agents that are left over were started by no call that was stored.
    turns = [_turn(turn, calls[at], first + at + 1) for at, turn in enumerate(trial.turns)]
    return tuple(turns), tuple(chain.from_iterable(agents_by_call.values()))


def _agent_shown(trial: Trial, part: AgentPart, first: int) -> _AgentShown:
    own = replace(
        trial,
        turns=part.turns,
        calls=part.calls,
        ending=part.ending,
    )
    turns, agents = _acted(own, part.number, part.label, first)
    return _AgentShown(
        part,
        denials(part),
        turns,
        agents,
        reason=shortened(part.reason, NAME_SHOWN),
        prompt=_prompt(part.prompt),
    )


def _turn(
    turn: Turn,
    calls: Sequence[_CallShown],
    number: int,
) -> _TurnShown:
    return _TurnShown(
        number=number,
        text=shortened(turn.text, TEXT_SHOWN),
        reasoning=shortened(turn.reasoning, TEXT_SHOWN),
        cost=_cost(turn),
        calls=calls,
        malformed=turn.malformed,
        unread=len(turn.calls) - len(calls),
    )


def _cost(turn: Turn) -> str:
    """Return the time of a turn, with its tokens if the server counted them."""
    usage = turn.usage
    seconds = f"{turn.seconds:.1f} s"
    if usage.prompt_tokens or usage.completion_tokens:
        read, written = usage.prompt_tokens, usage.completion_tokens
        return f"{seconds}; {read:,} tokens read, {written:,} written"
    return seconds


def _call_shown(
    record: CallRecord,
    *,
    place: tuple[str, int, int],
    followed: str,
    agents: Sequence[_AgentShown],
) -> _CallShown:
    before, marked, after = _parts(*marked_text(record.call, record.verdict))
    primary = record.verdict.primary
    return _CallShown(
        place=place,
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
        agents=agents,
    )


def _parts(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """Shorten the three parts for a page, from the ends furthest from the evidence."""
    excess = len(before) - TEXT_SHOWN
    if marked and excess > 0:
        before = f"({excess} more characters) {before[-TEXT_SHOWN:]}"
    return (
        shortened(before, 2 * TEXT_SHOWN),
        shortened(marked, TEXT_SHOWN),
        shortened(after, AFTER_SHOWN),
    )


def marked_text(call: ToolCall, verdict: Verdict) -> tuple[str, str, str]:
    """Return the text of a call before, in and after the evidence.

    All of it is before if the evidence does not match the text.
    """
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


# As text, and as JSON.

SCHEMA = "agenteval.transcript/1"
MARK = "SIMULATED"
_IN = "    "


def lines(
    run: Run,
    transcript: TrialShown,
    *,
    whole_prompt: bool,
) -> Iterator[str]:
    """Yield the trial as lines; nothing that a model wrote can move the cursor."""
    yield from map(_one_line, _lines(run, transcript, whole_prompt=whole_prompt))


def _one_line(line: str) -> str:
    """Return one line; a tab stays, as it is of a text and not of a name."""
    return visible(line).replace("\n", "\u240a")


def _lines(
    run: Run,
    transcript: TrialShown,
    *,
    whole_prompt: bool,
) -> Iterator[str]:
    trial = transcript.trial
    simulated = f"  {MARK}" if run.model.simulated else ""
    yield f"{trial.scenario} #{trial.number} of {run.model.name}{simulated}"
    arm = f", arm {run.arm.name}" if run.arm else ""
    yield f"run {run.id}, seed {trial.seed}{arm}, {trial.seconds:.1f} s of the model's"
    yield from _why(transcript)
    yield from _prompt_lines(trial.prompt, whole=whole_prompt)
    yield from _turns(transcript.turns)
    for agent in transcript.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def ended(transcript: TrialShown) -> Iterator[str]:
    """Yield how the trial ended and why, and how many of its calls were denied."""
    yield from map(_one_line, _why(transcript))
    trial = transcript.trial
    calls = [*trial.calls, *(call for part in trial.agents for call in part.calls)]
    denied = sum(not call.verdict.allowed for call in calls)
    yield f"{counted(len(calls), 'tool call')}, {denied} denied"


def of_agent(
    transcript: TrialShown,
    part: AgentPart,
    *,
    whole_prompt: bool,
) -> Iterator[str]:
    """Yield the lines of one sub-agent, with those that it started."""
    for agent in agents_below(transcript):
        if agent.part == part:
            yield from map(_one_line, _agent(agent, whole_prompt=whole_prompt))


def agents_below(part_shown: TrialShown | _AgentShown) -> Iterator[_AgentShown]:
    """Yield all sub-agents below, each before those that it started."""
    agents = (agent for turn in part_shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*agents, *part_shown.agents):
        yield agent
        yield from agents_below(agent)


def _why(transcript: TrialShown) -> Iterator[str]:
    trial = transcript.trial
    yield f"{trial.outcome}: {transcript.ended}"
    # The checks below say which parts of the goal were missed.
    reason = trial.reason.partition("not met: ")[0] if trial.goal else trial.reason
    if reason.strip("; "):
        yield from _indented(reason.strip("; "))
    for check in trial.goal:
        has_values = check.expected is not None or check.found is not None
        value = f" (found {check.found!r})" if has_values else ""
        held, missed = f"held: {check.name}{value}", f"missed: {check.failure}"
        yield f"{_IN}{held if check.held else missed}"
    if trial.goal_turn is not None:
        yield f"{_IN}the goal first held after turn {trial.goal_turn + 1}"
    for name, reached, where in transcript.steps:
        state = "reached" if reached else "not reached"
        yield f"{_IN}handshake, {state}: {name}{f' ({where})' if where else ''}"


def _prompt_lines(prompt: Sequence[Message], *, whole: bool) -> Iterator[str]:
    for role, text in _messages(prompt):
        yield ""
        if whole or (role == "user" and text == prompt[-1].content):
            yield f"{role}:"
            yield from _indented(text)
        else:
            yield f"{role}: {len(text):,} characters, with --whole"


def _turns(turns: Sequence[_TurnShown]) -> Iterator[str]:
    for turn in turns:
        yield ""
        yield f"turn {turn.number}: {turn.cost}"
        if turn.reasoning:
            yield f"{_IN}thought:"
            yield from _indented(turn.reasoning, 2)
        if turn.text:
            yield from _indented(turn.text)
        for call in turn.calls:
            yield from _call_lines(call)
        for malformed in turn.malformed:
            yield f"{_IN}{malformed.kind}, to blame: {malformed.blame} ({malformed.why})"


def _call_lines(call: _CallShown) -> Iterator[str]:
    tool = "" if call.tool == "bash" else f" {call.tool}"
    yield f"{_IN}{call.state}{tool}"
    yield from _indented(f"{call.before}{call.marked}{call.after}", 2)
    if call.classes:
        also = f", also {', '.join(call.classes[1:])}" if call.classes[1:] else ""
        at = f" at {shortened(call.marked, 60)!r}" if call.marked else ""
        then = f", then {call.followed}" if call.followed else ""
        yield f"{_IN * 2}^ {call.classes[0]}{at}{also}{then}"
    for line in call.reply.splitlines():
        yield f"{_IN * 2}| {line}"
    if call.cut:
        yield f"{_IN * 2}| ({call.cut} more characters)"
    for agent in call.agents:
        yield from _agent(agent, whole_prompt=False)


def _agent(agent_shown: _AgentShown, *, whole_prompt: bool) -> Iterator[str]:
    part = agent_shown.part
    yield ""
    because = f"; {agent_shown.reason}" if agent_shown.reason else ""
    ended = _ended_text(part.ending)
    yield f"sub-agent {part.label}, {agent_shown.denials} denied; {ended}{because}"
    yield from _prompt_lines(part.prompt, whole=whole_prompt)
    yield from _turns(agent_shown.turns)
    for agent in agent_shown.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def _indented(text: str, deep: int = 1) -> Iterator[str]:
    return (f"{_IN * deep}{line}".rstrip() for line in text.splitlines())


def document(run: Run, trial: Trial) -> Document:
    """Return a trial in full; its keys are stable and documented in docs/json.md."""
    return keyed(
        trial,
        "transcript",
        schema=SCHEMA,
        run=run.id,
        model=run.model.name,
        simulated=run.model.simulated,
        arm=run.arm.name if run.arm else None,
        prompt=_prompt_document(trial.prompt),
        turns=_turn_documents(trial),
        agents=[agent_document(part) for part in trial.agents],
    )


def agent_document(part: AgentPart) -> Document:
    prompt = _prompt_document(part.prompt)
    return keyed(part, "agent", prompt=prompt, turns=_turn_documents(part))


def _prompt_document(prompt: Sequence[Message]) -> list[Document]:
    return [{"role": role, "content": text} for role, text in _messages(prompt)]


def _turn_documents(part: Trial | AgentPart) -> list[Document]:
    documents = []
    for at, turn in enumerate(part.turns):
        records = [record for record in part.calls if record.turn == at]
        calls = [{**keyed(record, "call"), **execution_document(record)} for record in records]
        documents.append(keyed(turn, "turn", calls=calls))
    return documents


def execution_document(record: CallRecord) -> Document:
    """Return how a call ran; nulls for one that did not."""
    ran = record.execution
    if ran is None:
        return {"exit_code": None, "limit": "", "seconds": None}
    return attributes(ran, "exit_code", "limit", "seconds")
