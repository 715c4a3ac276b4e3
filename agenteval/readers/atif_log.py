"""ATIF trajectories, as Harbor writes them of every agent that it runs.

They have no field for errors: a call with a result may have been denied, one without may have run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called
from agenteval.readers.json_source import at, count_at, lost, objects, text_at, walked, when, words

Object = Mapping[str, Any]


def read(path: Path) -> Iterator[Session | Skipped]:
    building, number = Building(Session(path.stem, path=str(path))), 0
    for one in walked(path, "steps"):
        if isinstance(one, Skipped):
            yield one
            continue
        key, value = one
        if key == "steps" and isinstance(value, dict):
            if (whole := building.whole()) is not None:
                yield whole
            number += 1
            _step(building, value)
            yield from lost(building, path, f"step {number}")
        else:
            _begin(building.session, key, value, path)
            building.may_have({key: None}, "steps")
            yield from lost(building, path, "the file")
    yield building.session


def _begin(session: Session, key: str, value: object, path: Path) -> None:
    if key in {"trajectory_id", "session_id"} and isinstance(value, str):
        # Several files of one session, continued or of sub-agents, bear one id.
        session.id = f"{value}/{path.name}"
    elif key == "agent":
        session.agent = text_at(value, "name")
        session.version = text_at(value, "version")
        session.model = text_at(value, "model_name")


def _step(building: Building, step: Object) -> None:
    results = objects(at(step, "observation", "results"))
    if isinstance(observation := step.get("observation"), dict):
        building.may_have(observation, "results")
    building.needs(step, "source")
    building.may_have(step, "tool_calls", "observation", "metrics")
    if step.get("source") == "agent":
        turn = building.turn()
        turn.text, turn.model = words(step.get("message")), text_at(step, "model_name")
        turn.at = when(step.get("timestamp"))
        turn.usage = _usage(step)
        for one in objects(step.get("tool_calls")):
            building.needs(one, "function_name", "arguments")
            building.may_have(one, "tool_call_id")
            given = at(one, "arguments")
            name = text_at(one, "function_name")
            call = called(text_at(one, "tool_call_id"), name, {} if given is None else given)
            building.called(turn, LoggedCall(call, Recorded.UNKNOWN))
    for result in results:
        building.may_have(result, "source_call_id", "content")
        if found := building.answered(text_at(result, "source_call_id")):
            found.said = words(result.get("content"))


def _usage(step: Object) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")
    return Usage(*(count_at(step, "metrics", name) for name in names))
