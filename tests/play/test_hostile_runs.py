"""A server that breaks off, floods and babbles, from its socket to the report."""

import json

from hostile import floods, in_turn, sends, serving

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import OpenAIModel
from agenteval.report import json as json_report
from agenteval.report.build import build_view
from agenteval.trial.call import Outcome


def event(delta: object, finish: str | None = None) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def marks(name: str) -> bytes:
    arguments = json.dumps({"command": f"uv run scripts/mark.py {name}"})
    function = {"name": "bash", "arguments": arguments}
    return event({"tool_calls": [{"index": 0, "id": f"call-{name}", "function": function}]})


END = event({}, "tool_calls") + b"data: [DONE]\n\n"
STOP = event({"content": "Done."}) + event({}, "stop") + b"data: [DONE]\n\n"
A, B = sends(marks("a"), END), sends(marks("b"), END)
REQUESTS = (
    floods(event({"content": "word " * 200_000}), 100),
    sends(b"data: {broken\n\n", END),
    A,
    sends(marks("b")),  # and the connection ends
    A,
    B,
    sends(STOP),
)
VOIDS = (
    "a reply of over 33554432 bytes",
    "a broken event in the stream",
    "ended in the middle of a tool call",
)


async def test_what_a_hostile_server_broke_is_void_and_reported_and_the_run_goes_on(play) -> None:
    async with serving(in_turn(*REQUESTS)) as url:
        async with OpenAIModel(ModelEntry(base_url=url, model="m")) as model:
            trials = await play(model, trials=4, concurrency=1)
    assert [(one.outcome, len(one.calls)) for one in trials] == [
        (Outcome.VOID, 0),
        (Outcome.VOID, 0),
        (Outcome.VOID, 1),
        (Outcome.COMPLETED, 2),
    ]
    (reported,) = json.loads(json_report.dumps(build_view([play.store.load("r")])))["runs"]
    told = [void["reason"] for void in reported["voids"]]
    assert [why in said for why, said in zip(VOIDS, told, strict=True)] == [True, True, True]
    assert (reported["trials"], reported["turns"]) == (1, 3)
