"""Chat completions as JSONL, a conversation a line or a request with its reply; and our hook's log.

Arguments come as text or as an object, ids are left out or repeat, and a call may stand in the
content as text: what a server's parser did not take. Whether a call was denied no such log shows.
A line in which nothing of this is found is a plug-in's, as for `agenteval classify`.

The log of the hook has a line for each call that it was asked about, and not what an allowed call
then did, nor which calls were of one turn. A call that it only watched counts as denied if the list
denies it. A log is begun anew when it is long: the part of a session in one file is known by when
that file began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agenteval.hook.judging import NOT_JUDGED
from agenteval.logs.json import (
    Found,
    Line,
    Object,
    at,
    full_part,
    lines,
    name_at,
    nested,
    objects,
    read_lines,
    take_faults,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.packed import by_place
from agenteval.logs.tool_calls import called, tool_calls
from agenteval.replies.text_calls import calls_left
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped

# A message, and what it is a reply in
_Spoken = tuple[Object, Object | None]
_KEYS = frozenset(
    (
        "messages",
        "choices",
        "role",
        "request",
        "response",
    )
)
# Roles
_RESULTS = frozenset(("tool", "function"))
_SHARED = ("session_id", "conversation_id")
# Sessions of which turns are held
_AT_ONCE = 1_000
# Characters of an id that no other file has too, as "7" may stand in many
_LONG = 16


def read(path: Path) -> Found:
    """Lines that name one session are gathered; every other line is a conversation by itself."""
    conversations, holding = (
        dict[str, _Conversation](),
        dict[str, None](),
    )  # the longest untouched first
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        name, is_shared = _name(line, path)
        conversation = conversations.get(name) or _Conversation(
            Building(Session(name, path=str(path))), is_shared
        )
        yield from conversation.whole()
        if not (conversation.take(line.value) or line.value.keys() & _KEYS):
            yield Skipped(str(path), f"line {line.number}", "no messages, and no calls, in it")
        yield from take_faults(conversation.building, path, f"line {line.number}")
        if not is_shared:
            yield from conversation.rest()
            continue
        conversations[name] = conversation
        holding.pop(name, None)
        holding[name] = None
        if len(holding) > _AT_ONCE:
            oldest = next(iter(holding))
            del holding[oldest]
            yield from conversations[oldest].rest()
    for name in holding:
        yield from conversations[name].rest()


def _name(line: Line, path: Path) -> tuple[str, bool]:
    """Return the conversation's name, else its place in the file, and True if lines share it.

    An id of the line itself is one that is written again when it is repeated.
    """
    value = line.value
    for key in (*_SHARED, "id", "uuid"):
        found = name_at(value, key)
        if len(found) >= (1 if key == "session_id" else _LONG):
            return found, key in _SHARED
    return f"{by_place(path)}:{line.number}", False


class _SharedFields(NamedTuple):
    """The fields of a line that hold for all messages in it."""

    schemas: Object
    moment: float | None
    model: str


@dataclass(slots=True)
class _Conversation:
    """A session of one line or more; a line may repeat earlier messages or not."""

    building: Building
    # Other lines may repeat what stands in one
    is_shared: bool
    # Messages, each with all that are before it
    _places: set[int] = field(default_factory=set)
    # What waits for results behind the last one of each line that none has continued.
    _ends: dict[int, dict[str, list[LoggedCall]]] = field(default_factory=dict)

    def whole(self) -> Iterator[Session]:
        found = self.building.whole()
        if found is not None:
            self._ends.clear()
            yield found

    def rest(self) -> Iterator[Session]:
        self._ends.clear()
        if self.building.session.turns:
            yield self.building.cut()

    def take(self, value: Object) -> bool:
        """Take a line; return True if anything was found in it."""
        session = self.building.session
        turns = len(self.building.session.turns)
        inner = [part for key in ("request", "response", "body") for part in nested(value, key)]
        # Of a batch's output
        inner += [part for outer in inner for part in nested(outer, "body")]
        parts = (value, *inner)
        for part in parts:
            session.agent = session.agent or text_at(part, "agent")
            session.project = session.project or text_at(part, "project")
        shared = _shared_fields(parts)
        session.model = session.model or shared.model
        messages = [(each, None) for part in parts for each in objects(part.get("messages"))]
        spoken = [
            *messages,
            *(reply for part in parts for reply in _replies(part)),
        ]
        self._messages(spoken, shared)
        has_spoken = any(text_at(message, "role") == "assistant" for message, _ in spoken)
        if not has_spoken and (value.get("role") == "assistant" or "messages" not in value):
            _add_line(self.building, value, shared)
        return has_spoken or len(session.turns) > turns

    def _messages(
        self,
        spoken: Sequence[_Spoken],
        shared: _SharedFields,
    ) -> None:
        """Add the new messages: a prefix that an earlier line had is not counted again."""
        place = 0
        is_new = False
        for message, reply in spoken:
            before = place
            place = hash((place, _identity(message))) if self.is_shared else 0
            if not is_new and place not in self._places:
                is_new = True
                self.building.waits = self._ends.pop(
                    before,
                    {},
                )
            if is_new:
                self._places.add(place)
                _message(self.building, message, shared, reply)
        if is_new:
            self._ends[place] = self.building.waits


def _identity(message: Object) -> tuple[object, ...]:
    """Return what identifies a message, both as a reply and as it is sent in later requests."""
    role = text_at(message, "role")
    result = name_at(message, "tool_call_id")
    calls = tuple(
        (
            name_at(one, "id"),
            *map(str, (at(one, "function", "name"), at(one, "function", "arguments"))),
        )
        for one in _calls_of(message)
    )
    return role, words(message.get("content")), result, calls


def _shared_fields(parts: Sequence[Object]) -> _SharedFields:
    times = (when(parts[0].get(key)) for key in ("timestamp", "created", "created_at"))
    return _SharedFields(
        schemas=next((_schemas(one) for one in parts if one.get("tools")), {}),
        moment=next(filter(None, times), None),
        model=next(filter(None, (text_at(part, "model") for part in parts)), ""),
    )


def _replies(part: Object) -> Iterator[_Spoken]:
    for choice in objects(part.get("choices"))[:1]:
        reply = choice.get("message")
        if isinstance(reply, dict):
            yield {**choice, **reply, "role": "assistant"}, part


def _add_line(
    building: Building,
    value: Object,
    shared: _SharedFields,
) -> None:
    """A line that is a message, or what a plug-in finds calls in."""
    if text_at(value, "role") in {"assistant", *_RESULTS}:
        _message(building, value, shared)
    elif "choices" not in value and (calls := tool_calls(value)):
        turn = building.turn()
        turn.at = shared.moment
        turn.model = shared.model
        for call in calls:
            building.called(turn, LoggedCall(call))


def _schemas(part: Object) -> dict[str, Any]:
    tools = (tool.get("function", tool) for tool in objects(part.get("tools")))
    return {
        text_at(tool, "name"): at(tool, "parameters") or {}
        for tool in tools
        if isinstance(tool, dict) and text_at(tool, "name")
    }


def _message(
    building: Building, message: Object, shared: _SharedFields, reply: Object | None = None
) -> None:
    building.needs(message, "role")
    building.may_have(message, "tool_calls", "tool_call_id", "content")
    role = text_at(message, "role")
    if role in _RESULTS:
        call = building.take_call(name_at(message, "tool_call_id")) or building.waiting()
        if call is not None:
            building.set_reply(
                call,
                words(message.get("content")),
            )
    elif role == "assistant":
        turn = building.turn()
        turn.text = words(message.get("content"))
        turn.at = shared.moment
        turn.finish = text_at(message, "finish_reason")
        turn.model = text_at(message, "model") or shared.model
        turn.usage = usage_in(
            at(reply, "usage"),
            "prompt_tokens",
            "completion_tokens",
        )
        _calls(building, turn, message, shared.schemas)


def _calls_of(message: Object) -> list[dict[str, Any]]:
    calls = objects(message.get("tool_calls"))
    # Before there were tools
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})
    return calls


def _calls(
    building: Building,
    turn: LoggedTurn,
    message: Object,
    schemas: Object,
) -> None:
    items = _calls_of(message)
    for item in items:
        function = item.get("function") if isinstance(item.get("function"), dict) else item
        building.may_have(item, "function", "id")
        if isinstance(function, dict):
            building.needs(function, "name")
            building.may_have(function, "arguments")
        name = text_at(function, "name")
        arguments = at(function, "arguments")
        call = called(
            name_at(item, "id"),
            name,
            "" if arguments is None else arguments,
        )
        bad = Recorded.MALFORMED if call.malformed else Recorded.UNKNOWN
        building.called(turn, LoggedCall(call, bad))
    if not items:
        for _, left, spoken in calls_left(turn.text, schemas):
            if not spoken:
                call = called("", left.name, left.raw)
                building.called(turn, LoggedCall(call, Recorded.MALFORMED))


def read_hook_log(path: Path) -> Found:
    sessions: dict[tuple[str, str, str], Building] = {}
    unnamed = Building(Session(""))

    def take(line: Line) -> Found:
        value = line.value
        is_event = "event" in value
        if not is_event:
            unnamed.needs(value, "verdict", "tool", "arguments")
            yield from take_faults(unnamed, path, f"line {line.number}")
        if is_event or text_at(value, "verdict") in {"", NOT_JUDGED}:
            return
        key = (
            name_at(value, "session"),
            name_at(value, "agent"),
            text_at(value, "harness"),
        )
        building = sessions.setdefault(
            key,
            Building(_begun(value, path)),
        )
        yield from full_part(building)
        _call(building, value)

    yield from read_lines(path, take)
    for building in sessions.values():
        yield building.session


def _begun(value: Object, path: Path) -> Session:
    session = name_at(value, "session")
    agent = name_at(value, "agent")
    return Session(
        id="/".join(filter(None, (session, agent, text_at(value, "at")))),
        agent=agent or "main",
        version=text_at(value, "harness"),
        project=text_at(value, "cwd"),
        parent=session if agent else "",
        path=str(path),
    )


def _call(building: Building, value: Object) -> None:
    turn = building.turn()
    turn.at = when(value.get("at"))
    turn.model = text_at(value, "model")
    arguments = value.get("arguments")
    call = called(
        name_at(value, "call"),
        text_at(value, "tool"),
        {} if arguments is None else arguments,
    )
    denied = text_at(value, "verdict") == "denied"
    recorded = Recorded.DENIED if denied else Recorded.UNKNOWN
    building.called(
        turn,
        LoggedCall(call, recorded, said=text_at(value, "hint")),
    )
