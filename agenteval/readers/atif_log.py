"""ATIF trajectories, as Harbor writes them of every agent that it runs.

They have no field for errors: a call with a result may have been denied, one without may have run.
In a job of Harbor each trial has a folder, with `agent/trajectory.json` and a result beside that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called
from agenteval.readers.json_documents import walked
from agenteval.readers.json_source import (
    at,
    count_at,
    name_at,
    objects,
    take_faults,
    text_at,
    when,
    words,
)
from agenteval.readers.log_bytes import by_place, small

Object = Mapping[str, Any]
_LISTS = ("steps", "subagent_trajectories")


def read(path: Path) -> Iterator[Session | Skipped]:
    """The trajectory of a file, and those of sub-agents that are embedded in it."""
    reading, skips = _Reading(path, "", Building(_session(path))), 0
    for item in walked(path, *_LISTS):
        if isinstance(item, Skipped):
            skips += 1
            yield item
        else:
            yield from reading.take(*item)
    if not (reading.has_steps or skips or _is_source(path)):
        yield Skipped(str(path), "the file", "no ATIF trajectory: no step in it")
    yield reading.building.session


def _is_source(path: Path) -> bool:
    """Return True if the agent itself may have written it, and Harbor its neighbour from it."""
    return path.name.endswith(".trajectory.json") and path.with_name("trajectory.json").exists()


def _session(path: Path) -> Session:
    """Return the session as the trial's own result names it: a trajectory may lack its model."""
    session = Session(by_place(path), path=str(path))
    folder = path.parent
    try:
        result = small(folder.parent / "result.json") if folder.name == "agent" else None
    except (OSError, ValueError):
        return session
    known = at(result, "agent_info")
    session.agent, session.version = text_at(known, "name"), text_at(known, "version")
    session.model = text_at(known, "model_info", "name")
    session.project = text_at(result, "task_name")
    return session


@dataclass(slots=True)
class _Reading:
    """One trajectory; `prefix` is its place in the file, empty of the file's own."""

    path: Path
    prefix: str
    building: Building
    has_steps: bool = False
    _names: dict[str, str] = field(default_factory=dict)
    _count: dict[str, int] = field(default_factory=dict)

    def take(self, key: str, value: object) -> Iterator[Session | Skipped]:
        """Take one key of the trajectory; for a list, one of its elements."""
        place = self.prefix.removesuffix(", ") or "the file"
        self.has_steps = self.has_steps or key == "steps"
        if key in _LISTS and isinstance(value, dict):
            number = self._count[key] = self._count.get(key, 0) + 1
            if key == "steps":
                if (whole := self.building.whole()) is not None:
                    yield whole
                place = f"{self.prefix}step {number}"
                _step(self.building, value)
            else:
                yield from self._embedded(value, number)
        else:
            self._begin(key, value)
            self.building.may_have({key: None}, *_LISTS)
        yield from take_faults(self.building, self.path, place)

    def _embedded(self, trajectory: Object, number: int) -> Iterator[Session | Skipped]:
        own = self.building.session
        name = name_at(trajectory, "trajectory_id") or str(number)
        session = Session(
            f"{own.id}/{name}", model=own.model, project=own.project, parent=own.id, path=own.path
        )
        inner = _Reading(self.path, f"{self.prefix}sub-agent {number}, ", Building(session))
        for key, value in trajectory.items():
            is_list = key in _LISTS and isinstance(value, list)
            for one in value if is_list else [value]:
                yield from inner.take(key, one)
        yield inner.building.session

    def _begin(self, key: str, value: object) -> None:
        session = self.building.session
        is_name = key in {"session_id", "trajectory_id"} and not self.prefix
        if is_name and (name := name_at({key: value}, key)):
            # Several files of one session, continued or of sub-agents, bear one id.
            self._names[key] = name
            known = (self._names[one] for one in sorted(self._names))
            session.id = "/".join([*known, self.path.name])
        elif key == "agent":
            session.agent = text_at(value, "name") or session.agent
            session.version = text_at(value, "version") or session.version
            session.model = text_at(value, "model_name") or session.model


def _step(building: Building, step: Object) -> None:
    """A step that was copied from another file, as for a summary, is counted there."""
    building.needs(step, "source")
    building.may_have(step, "tool_calls", "observation", "metrics", "is_copied_context")
    if step.get("is_copied_context") is True:
        return
    if isinstance(observation := step.get("observation"), dict):
        building.may_have(observation, "results")
    calls: list[LoggedCall] = []
    if step.get("source") == "agent":
        turn = building.turn()
        turn.text, turn.model = words(step.get("message")), text_at(step, "model_name")
        turn.at = when(step.get("timestamp"))
        turn.usage = _usage(step)
        for item in objects(step.get("tool_calls")):
            building.needs(item, "function_name", "arguments")
            building.may_have(item, "tool_call_id")
            calls.append(_call(item))
            building.called(turn, calls[-1])
    for result in objects(at(step, "observation", "results")):
        building.may_have(result, "source_call_id", "content")
        name = name_at(result, "source_call_id")
        call = building.take_call(name) if name else next(reversed(calls), None)
        if call:
            building.set_reply(call, words(result.get("content")))


def _call(item: Object) -> LoggedCall:
    """By Harbor's own names: Terminus types, and what ends with a new line is a command."""
    arguments, name = at(item, "arguments"), text_at(item, "function_name")
    typed = text_at(arguments, "keystrokes")
    if name == "bash_command" and typed.endswith("\n") and typed.strip():
        name, arguments = BASH, {"command": typed.strip("\n")}
    elif name == "bash_command" and text_at(arguments, "command"):
        name = BASH
    call = called(name_at(item, "tool_call_id"), name, {} if arguments is None else arguments)
    return LoggedCall(call, Recorded.UNKNOWN)


def _usage(step: Object) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")
    return Usage(*(count_at(step, "metrics", name) for name in names))
