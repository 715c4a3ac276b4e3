"""Errors that come with status 200, and what of them a user can mend before anything was served."""

import asyncio
import json

import pytest
from hostile import Play, model_behind, sends

from agenteval.errors import Cause, InfrastructureError, OutgrownError, UnservedError, UsageError
from agenteval.models.failures import retry_after
from agenteval.trial.call import Blame
from agenteval.trial.trial import Message, Turn

FIRST = [Message("system", "s"), Message("user", "u")]
WORD = b'data: {"choices": [{"delta": {"content": "Let me"}}]}\n\n'
LONG = "This model's maximum context length is 4096 tokens."


def answers(status: int, said: str) -> Play:
    """A document in one piece."""
    head = f"HTTP/1.1 {status} Well\r\nconnection: close\r\ncontent-type: application/json\r\n"

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(f"{head}content-length: {len(said)}\r\n\r\n{said}".encode())
        await writer.drain()

    return play


def within(said: str, *, streamed: bool) -> Play:
    """An error with status 200, as OpenRouter sends it in both forms."""
    return sends(f"data: {said}\n\n".encode()) if streamed else answers(200, said)


async def asked(*plays: Play) -> Turn:
    async with model_behind(*plays) as model:
        for _ in plays[1:]:
            await model.ask(FIRST, [], seed=1)
        return await model.ask(FIRST, [], seed=1)


GOOD = answers(200, '{"choices": [{"message": {"content": "Well."}, "finish_reason": "stop"}]}')
BOTH = pytest.mark.parametrize("streamed", [True, False])


def error(code: object, said: str = "Provider returned error") -> str:
    return json.dumps({"error": {"code": code, "message": said}, "user_id": "u"})


@BOTH
@pytest.mark.parametrize(
    ("code", "cause", "is_taken"),
    [
        (429, Cause.BUSY, False),
        ("503", Cause.BUSY, False),
        (502, Cause.BUSY, True),
        (400, Cause.REFUSED, True),
        (402, Cause.REFUSED, True),
        (500, Cause.SERVER_ERROR, True),
        ("server_error", Cause.SERVER_ERROR, True),
        (1261, Cause.SERVER_ERROR, True),
    ],
)
async def test_an_error_with_status_200_is_as_one_with_the_status_that_it_names(
    code, cause, is_taken, streamed
) -> None:
    with pytest.raises(InfrastructureError, match=r"in the reply: .*Provider returned") as raised:
        await asked(GOOD, within(error(code), streamed=streamed))
    assert raised.value.cause is cause
    assert isinstance(raised.value, UnservedError) is not is_taken


async def test_nothing_is_asked_again_of_which_something_had_come() -> None:
    begun = sends(WORD, f"data: {error(429)}\n\n".encode())
    with pytest.raises(InfrastructureError, match="an error in the reply") as raised:
        await asked(GOOD, begun)
    assert not isinstance(raised.value, UnservedError)


@BOTH
@pytest.mark.parametrize(
    "said",
    [
        error(400, LONG),
        json.dumps({"error": LONG, "error_type": "validation"}),
        json.dumps({"object": "error", "message": LONG, "code": 400}),
        json.dumps({"choices": None, "error_type": "BadRequestError", "error_message": LONG}),
    ],
)
async def test_a_context_that_is_outgrown_is_told_with_status_200_too(said, streamed) -> None:
    with pytest.raises(OutgrownError, match=r"in the reply: .*maximum context"):
        await asked(GOOD, within(said, streamed=streamed))
    with pytest.raises(UsageError, match=r"context is too short .* serve it with a longer one"):
        await asked(within(said, streamed=streamed))


async def test_nothing_of_an_error_is_passed_on_to_a_program_that_asked() -> None:
    passed = []

    async def write(part: bytes) -> None:
        passed.append(part)

    async with model_behind(within(error(429), streamed=False)) as model:
        with pytest.raises(UnservedError):
            await model.relay({"messages": []}, seed=1, write=write)
    assert passed == []


async def test_what_came_before_an_error_was_served() -> None:
    with pytest.raises(OutgrownError):
        await asked(sends(WORD, f"data: {error(400, LONG)}\n\n".encode()))


@pytest.mark.parametrize(
    ("play", "cure"),
    [
        (
            within(error(401), streamed=True),
            "401 in the reply, the key is not accepted; set OPENAI",
        ),
        (within(error(404), streamed=False), "404 in the reply for model 'm'; `agenteval models`"),
        (within(error(402), streamed=False), "402 in the reply, the server refuses the request"),
        (answers(402, error(402, "Insufficient credits")), "402, the server .*Insufficient cre"),
        (answers(413, "<html>Request Entity Too Large"), "413, the server refuses the request"),
        (answers(403, "<!DOCTYPE html>Just a moment..."), "403, with a page .* a firewall before"),
    ],
)
async def test_what_a_user_can_mend_is_one_line_at_the_first_request(play, cure) -> None:
    with pytest.raises(UsageError, match=cure):
        await asked(play)


@pytest.mark.parametrize(
    "said",
    [
        "prompt too long; exceeded max context length by 1204 tokens",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5003",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100",
        "The sum of prompt length (5000), query length (0) should not exceed max_num_tokens (4096)",
        "unable to process request: the context window is full. Please reduce the input size",
        "prompt is too long: 213462 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
        "invalid params, context window exceeds limit (2013)",
        "Prompt exceeds max length",
        "Range of input length should be [1, 129024]",
        "prompt token count of 140000 exceeds the limit of 128000",
    ],
)
async def test_a_context_that_is_outgrown_is_told_in_many_words(said) -> None:
    with pytest.raises(OutgrownError):
        await asked(GOOD, answers(400, error(None, said)))


@BOTH
async def test_a_gateway_tells_beside_the_end_how_its_own_server_ended(streamed) -> None:
    part = {"delta": {}, "message": {"content": ""}, "finish_reason": "stop"}
    ends = ("network_error", "MALFORMED_FUNCTION_CALL", "STOP")
    broken, refused, ended = (
        within(json.dumps({"choices": [{**part, "native_finish_reason": end}]}), streamed=streamed)
        for end in ends
    )
    with pytest.raises(InfrastructureError, match="network_error"):
        await asked(broken)
    assert [(one.kind, one.blame) for one in (await asked(refused)).malformed] == [
        ("refused-call", Blame.MODEL)
    ]
    assert (await asked(ended)).malformed == ()


CALL = '{"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "now", %s}}]}}]}'


@pytest.mark.parametrize("reason", ["", '"finish_reason": "", '])
async def test_an_end_without_a_reason_is_one_behind_whole_calls_only(reason) -> None:
    whole = CALL.replace('"delta"', f'{reason}"delta"') % r'"arguments": "{}"'
    turn = await asked(sends(f"data: {whole}\n\ndata: [DONE]\n\n".encode()))
    assert [(one.name, one.raw) for one in turn.calls] == [("now", "{}")]
    cut = CALL % r'"arguments": "{\"a\": "'
    for play in (
        sends(f"data: {cut}\n\ndata: [DONE]\n\n".encode()),
        sends(f"data: {whole}\n\n".encode()),
        sends(WORD, b"data: [DONE]\n\n"),
    ):
        with pytest.raises(InfrastructureError, match="ended in the middle"):
            await asked(play)


@pytest.mark.parametrize(
    ("seconds", "milliseconds", "expected"),
    [("7", "", 7.0), ("7", "300", 0.3), ("", "1500.5", 1.5005), ("Fri, 13 Nov", "", None)],
)
def test_milliseconds_go_before_seconds(seconds, milliseconds, expected) -> None:
    assert retry_after(seconds, milliseconds) == expected
