"""The log of our own hook: a line for each call that it was asked about.

It does not record what an allowed call then did, nor which calls were of one turn. A call that it
only watched counts as denied if the list denies it. A log is begun anew when it is long: the part
of a session in one file is known by when that file began.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.formats.tool_calls import called
from agenteval.hook.production_log import NOT_JUDGED
from agenteval.readers.json_source import Line, lines, name_at, take_faults, text_at, when


def read(path: Path) -> Iterator[Session | Skipped]:
    sessions: dict[tuple[str, str, str], Building] = {}
    building = Building(Session(""))
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        value = line.value
        building.needs(value, *(() if "event" in value else ("verdict", "tool", "arguments")))
        yield from take_faults(building, path, f"line {line.number}")
        if "event" in value or text_at(value, "verdict") in {"", NOT_JUDGED}:
            continue
        key = (name_at(value, "session"), name_at(value, "agent"), text_at(value, "harness"))
        building = sessions.setdefault(key, Building(_begun(value, path)))
        if (whole := building.whole()) is not None:
            yield whole
        _call(building, value)
    yield from (one.session for one in sessions.values())


def _begun(value: Mapping[str, Any], path: Path) -> Session:
    session, agent = name_at(value, "session"), name_at(value, "agent")
    return Session(
        id="/".join(filter(None, (session, agent, text_at(value, "at")))),
        agent=agent or "main",
        version=text_at(value, "harness"),
        project=text_at(value, "cwd"),
        parent=session if agent else "",
        path=str(path),
    )


def _call(building: Building, value: Mapping[str, Any]) -> None:
    turn = building.turn()
    turn.at, turn.model = when(value.get("at")), text_at(value, "model")
    given = value.get("arguments")
    call = called(name_at(value, "call"), text_at(value, "tool"), {} if given is None else given)
    denied = text_at(value, "verdict") == "denied"
    recorded = Recorded.DENIED if denied else Recorded.UNKNOWN
    building.called(turn, LoggedCall(call, recorded, said=text_at(value, "hint")))
