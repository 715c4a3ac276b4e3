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
    call_at,
    check_keys,
    full_part,
    lines,
    name_at,
    object_at,
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
_KEYS = {
    "messages",
    "choices",
    "role",
    "request",
    "response",
}
# Roles
_RESULTS = {"tool", "function"}
_SHARED = ("session_id", "conversation_id")
# Sessions of which turns are held
_AT_ONCE = 1_000
# Characters of an id that no other file has too, as "7" may stand in many
_LONG = 16


def read(path: Path) -> Found:
    """Gather the lines that name one session; every other line is a conversation by itself."""
    conversations: dict[str, _Conversation] = {}
    # Names of those whose turns are held, the longest untouched first
    holding: dict[str, None] = {}
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        name, is_shared = _name(line, path)
        building = Building(Session(name, path=str(path)))
        conversation = conversations.get(name) or _Conversation(building, is_shared)
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
        name = name_at(value, key)
        if len(name) >= (1 if key == "session_id" else _LONG):
            return name, key in _SHARED
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
        """Yield the part read so far, once it is long enough."""
        for part in full_part(self.building):
            self._ends.clear()
            yield part

    def rest(self) -> Iterator[Session]:
        self._ends.clear()
        if self.building.session.turns:
            yield self.building.cut()

    def take(self, value: Object) -> bool:
        """Take a line; return True if anything was found in it."""
        session = self.building.session
        turns = len(session.turns)
        inner = [object_at(value, key) for key in ("request", "response", "body")]
        # Of a batch's output
        inner += [object_at(part, "body") for part in inner]
        parts = [value, *filter(None, inner)]
        for part in parts:
            session.agent = session.agent or text_at(part, "agent")
            session.project = session.project or text_at(part, "project")
        shared = _shared_fields(parts)
        session.model = session.model or shared.model
        spoken: list[_Spoken] = []
        for part in parts:
            spoken += [(message, None) for message in objects(part.get("messages"))]
        for part in parts:
            spoken += _replies(part)
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
                self.building.waits = self._ends.pop(before, {})
            if is_new:
                self._places.add(place)
                _message(self.building, message, shared, reply)
        if is_new:
            self._ends[place] = self.building.waits


def _identity(message: Object) -> tuple[object, ...]:
    """Return what identifies a message, both as a reply and as it is sent in later requests."""
    role = text_at(message, "role")
    result = name_at(message, "tool_call_id")
    calls = []
    for item in _calls_of(message):
        name = str(at(item, "function", "name"))
        arguments = str(at(item, "function", "arguments"))
        calls.append((name_at(item, "id"), name, arguments))
    return (
        role,
        words(message.get("content")),
        result,
        tuple(
            calls,
        ),
    )


def _shared_fields(parts: Sequence[Object]) -> _SharedFields:
    times = (when(parts[0].get(key)) for key in ("timestamp", "created", "created_at"))
    schemas = (_schemas(part) for part in parts if part.get("tools"))
    models = (text_at(part, "model") for part in parts)
    return _SharedFields(
        schemas=next(schemas, {}),
        moment=next(filter(None, times), None),
        model=next(filter(None, models), ""),
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
    """Add a line that is a message, or what a plug-in finds calls in."""
    if text_at(value, "role") in {"assistant", *_RESULTS}:
        _message(building, value, shared)
        return
    calls = tool_calls(value) if "choices" not in value else None
    if calls:
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
    check_keys(building, message, "openai.message")
    role = text_at(message, "role")
    if role in _RESULTS:
        call = building.take_call(name_at(message, "tool_call_id")) or building.waiting()
        if call is not None:
            building.set_reply(call, words(message.get("content")))
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
        check_keys(building, item, "openai.call")
        function = item.get("function")
        if not isinstance(function, dict):
            function = item
        check_keys(building, function, "openai.function")
        named = {**function, "id": item.get("id")}
        call = call_at(
            named,
            "id",
            "name",
            "arguments",
            missing="",
        )
        outcome = Recorded.MALFORMED if call.malformed else Recorded.UNKNOWN
        building.called(turn, LoggedCall(call, outcome))
    if items:
        return
    for _, text_call, is_spoken in calls_left(turn.text, schemas):
        if not is_spoken:
            call = called(
                "",
                text_call.name,
                text_call.raw,
            )
            building.called(turn, LoggedCall(call, Recorded.MALFORMED))


def read_hook_log(path: Path) -> Found:
    sessions: dict[tuple[str, str, str], Building] = {}
    faulty = Building(Session(""))

    def take(value: Object) -> Found:
        is_event = "event" in value
        if not is_event:
            check_keys(faulty, value, "hook.call")
        if is_event or text_at(value, "verdict") in {"", NOT_JUDGED}:
            return
        key = (name_at(value, "session"), name_at(value, "agent"), text_at(value, "harness"))
        building = sessions.setdefault(key, Building(_begun(value, path)))
        yield from full_part(building)
        _call(building, value)

    yield from read_lines(path, take, faulty)
    for building in sessions.values():
        yield building.session


def _begun(value: Object, path: Path) -> Session:
    session = name_at(value, "session")
    agent = name_at(value, "agent")
    # When its log began tells the parts of a session apart
    names = (session, agent, text_at(value, "at"))
    return Session(
        id="/".join(filter(None, names)),
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
    call = call_at(value, "call", "tool", "arguments")
    is_denied = text_at(value, "verdict") == "denied"
    recorded = Recorded.DENIED if is_denied else Recorded.UNKNOWN
    building.called(
        turn,
        LoggedCall(
            call,
            recorded,
            said=text_at(value, "hint"),
        ),
    )
