"""Which failures of a server have which name, and which of them may be asked again."""

import asyncio
import json
import re
import socket

import pytest
from hostile import Play, model_behind, sends

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.config.models import ModelEntry, Timeouts
from agenteval.errors import Cause, InfrastructureError, OutgrownError, UnservedError, UsageError
from agenteval.models.failures import NAMELESS_TOOL
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.stream import REPEATS
from agenteval.trial.call import Blame
from agenteval.trial.trial import Message

ASKED = [Message("system", "s"), Message("user", "u"), Message("assistant", "a")]


def answers(status: int, said: str, *headers: str) -> Play:
    """A reply in one piece."""
    about = headers or (f"content-length: {len(said)}",)
    head = [f"HTTP/1.1 {status} Well", "connection: close", *about, "", said]

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(head).encode())
        await writer.drain()

    return play


def completion(model: str, finish: str = "stop", text: str = "Well.") -> str:
    choice = {"message": {"content": text}, "finish_reason": finish}
    return json.dumps({"model": model, "choices": [choice]})


async def resets(writer: asyncio.StreamWriter) -> None:
    """Hang up hard, with a reset on the wire."""
    peer = writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def hangs_up(_: asyncio.StreamWriter) -> None:
    """Close without a word."""


async def sleeps(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


# what the server does, the cause, and after how many seconds it may be asked again (-1: never)
CASES: dict[str, tuple[Play, Cause, float | None]] = {
    "hung up before a byte": (hangs_up, Cause.LOST, None),
    "reset before a byte": (resets, Cause.LOST, None),
    "silent": (sleeps, Cause.TIMEOUT, -1),
    "429": (answers(429, "slow down", "retry-after: 7"), Cause.BUSY, 7.0),
    "503, a date": (answers(503, "loading", "retry-after: Fri, 13 Nov"), Cause.BUSY, None),
    "503 of a model that is loaded": (answers(503, "Loading model"), Cause.BUSY, None),
    "502, and when to come again": (answers(502, "bad", "retry-after: 1.5"), Cause.BUSY, 1.5),
    "502 of a proxy": (answers(502, "bad gateway"), Cause.BUSY, -1),
    "504 of a proxy": (answers(504, "upstream timed out"), Cause.BUSY, -1),
    "500": (answers(500, "something"), Cause.SERVER_ERROR, -1),
    "500, memory": (answers(500, "CUDA error: out of memory"), Cause.OUT_OF_MEMORY, -1),
    "503, memory": (answers(503, "torch.OutOfMemoryError"), Cause.OUT_OF_MEMORY, -1),
    "500, a dead engine": (answers(500, "EngineDeadError: see stack"), Cause.CRASHED, -1),
    "500, a dead runner": (
        answers(500, "llama runner process has terminated: exit status 2"),
        Cause.CRASHED,
        -1,
    ),
    "400 of a later request": (answers(400, "invalid role sequence"), Cause.REFUSED, -1),
    "422 of a later request": (answers(422, "content: Input should be text"), Cause.REFUSED, -1),
    "500 of a template": (
        answers(500, "Value is not callable: null at row 1, column 72"),
        Cause.REFUSED,
        -1,
    ),
    "400, memory": (answers(400, "failed to allocate a buffer"), Cause.OUT_OF_MEMORY, -1),
    "no JSON": (answers(200, "<html>"), Cause.BAD_REPLY, -1),
    "closed within a body": (
        answers(200, "", "content-length: 99", "content-type: application/json"),
        Cause.LOST,
        -1,
    ),
    "cut within a stream": (sends(b'data: {"choices": []}\n\n'), Cause.BAD_REPLY, -1),
    "an error in a stream": (
        sends(b'data: {"error": {"code": 500, "message": "CUDA out of memory"}}\n\n'),
        Cause.OUT_OF_MEMORY,
        -1,
    ),
}


@pytest.mark.parametrize(("play", "cause", "after"), CASES.values(), ids=CASES)
async def test_a_failure_has_a_cause_and_only_what_was_not_taken_may_be_asked_again(
    play, cause, after
) -> None:
    async with model_behind(play, timeouts=Timeouts(request=1.0)) as model:
        with pytest.raises(InfrastructureError) as raised:
            await model.ask(ASKED, [], seed=1)
    error = raised.value
    again = error.after if isinstance(error, UnservedError) else -1
    assert (error.cause, again) == (cause, after)


LONG = [
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000."),
    (400, "You passed 5000 input tokens ... the model's context length is only 4096 tokens"),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
    (400, "Requested token count exceeds the model's maximum context length of 4096 tokens."),
    (400, '{"message": "the request exceeds the available context size", "n_ctx": 4096}'),
    (400, '{"type": "exceed_context_size_error"}'),
    (500, "Context size has been exceeded."),
    (400, "the input length exceeds the context length"),
    (400, "Prompt length 5000 is greater than max_seq_len 4096"),
    (400, '{"code": "context_length_exceeded"}'),
    (400, "litellm.ContextWindowExceededError: too many tokens"),
    (200, "Context size has been exceeded."),
]


@pytest.mark.parametrize(("status", "said"), LONG)
async def test_a_conversation_that_outgrew_the_context_is_no_fault_of_the_servers(
    status, said
) -> None:
    good = answers(200, completion("m"))
    event = f"data: {json.dumps({'error': {'message': said}})}\n\n".encode()
    long = sends(event) if status == 200 else answers(status, said)
    async with model_behind(good, long) as model:
        await model.ask(ASKED, [], seed=1)
        with pytest.raises(OutgrownError, match=re.escape(said[:20])):
            await model.ask(ASKED, [], seed=1)


async def test_a_first_prompt_that_does_not_fit_is_the_users_to_mend() -> None:
    async with model_behind(answers(*LONG[0])) as model:
        with pytest.raises(UsageError, match="maximum context length"):
            await model.ask(ASKED[:2], [], seed=1)


@pytest.mark.parametrize("status", [400, 401, 403, 405, 422])
@pytest.mark.parametrize("asked", [ASKED, ASKED[:2]])
async def test_what_is_refused_once_the_model_was_served_costs_one_trial_and_no_run(
    status, asked
) -> None:
    plays = (answers(200, completion("m")), answers(status, "content management policy"))
    async with model_behind(*plays) as model:
        await model.ask(ASKED, [], seed=1)
        with pytest.raises(InfrastructureError, match=f"{status}: .*policy") as raised:
            await model.ask(asked, [], seed=2)
    assert raised.value.cause is Cause.REFUSED


async def test_a_call_that_a_server_could_not_read_was_served() -> None:
    said = json.dumps({"error": {"code": 500, "message": GRAMMAR + "look"}})
    async with model_behind(answers(500, said), answers(403, "WAF")) as model:
        await model.ask(ASKED, [], seed=1)
        with pytest.raises(InfrastructureError, match="WAF"):
            await model.ask(ASKED, [], seed=1)


GRAMMAR = "got exception: Unexpected empty grammar stack after accepting piece: "


@pytest.mark.parametrize(
    ("piece", "name"),
    [
        ("<tool_call>", NAMELESS_TOOL),
        ("=list (40972)", "list"),
        ("lookup", "lookup"),
        ('{"', NAMELESS_TOOL),
        (" (198)", NAMELESS_TOOL),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_tool_that_the_servers_grammar_does_not_know_is_a_call_to_it(
    piece, name, streamed
) -> None:
    said = json.dumps({"error": {"code": 500, "message": GRAMMAR + piece}})
    play = sends(f"data: {said}\n\n".encode()) if streamed else answers(500, said)
    async with model_behind(play) as model:
        turn = await model.ask(ASKED, [], seed=1)
    (call,), (seen,) = turn.calls, turn.malformed
    verdict = judge(call, load_policy("notes", roots=[shipped()]))
    assert (call.name, call.arguments, verdict.primary.failure_class) == (
        name,
        {},
        "hallucinated-tool",
    )
    assert (seen.kind, seen.blame, "grammar" in seen.why) == ("refused-call", Blame.MODEL, True)


async def test_nobody_at_the_port_was_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with OpenAIModel(ModelEntry(base_url=f"http://127.0.0.1:{port}/v1", model="m")) as model:
        with pytest.raises(UnservedError) as raised:
            await model.ask(ASKED, [], seed=1)
    assert raised.value.cause is Cause.UNREACHABLE


@pytest.mark.parametrize(
    "said",
    [
        "The model produced output that does not match the expected peg-native format",
        "Failed to parse input at pos 7: <tool_call>",
    ],
)
async def test_a_500_about_what_the_model_wrote_is_the_models_and_no_void(said) -> None:
    async with model_behind(answers(500, said)) as model:
        turn = await model.ask(ASKED, [], seed=1)
    assert turn.calls[0].raw == said


@pytest.mark.parametrize(
    "second", [answers(200, completion("other")), answers(404, "no model m")], ids=["reply", "404"]
)
async def test_a_model_that_changes_in_mid_run_is_a_void(second) -> None:
    async with model_behind(answers(200, completion("one")), second) as model:
        first = await model.ask(ASKED, [], seed=1)
        with pytest.raises(InfrastructureError) as raised:
            await model.ask(ASKED, [], seed=1)
    assert (first.model, raised.value.cause) == ("one", Cause.MODEL_CHANGED)


@pytest.mark.parametrize(
    ("finish", "text", "repeats"),
    [
        ("length", "I will wait. " * 100, "I will wait. "),
        ("stop", "I will wait. " * 100, ""),
        ("length", "".join(f"line {number}\n" for number in range(300)), ""),
    ],
)
async def test_a_reply_that_was_cut_in_a_passage_without_end_says_so(finish, text, repeats) -> None:
    async with model_behind(answers(200, completion("m", finish, text))) as model:
        turn = await model.ask(ASKED, [], seed=1)
    assert turn.repeats == repeats


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_stream_that_repeats_itself_is_not_read_to_its_end(field) -> None:
    event = {"choices": [{"index": 0, "delta": {field: "I wait. "}, "finish_reason": None}]}
    words = f"data: {json.dumps(event)}\n\n".encode() * 100
    async with model_behind(sends(*[words] * 1000)) as model:
        turn = await model.ask(ASKED, [], seed=1)
    assert (turn.repeats, turn.finish_reason, len(turn.raw) < 10**6) == ("I wait. ", REPEATS, True)
