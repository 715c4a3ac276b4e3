import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from agenteval.config.models import ModelEntry, Timeouts
from agenteval.config.trust import bind
from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Message, Usage

FIRST = [Message("system", "s"), Message("user", "u")]
LATER = [*FIRST, Message("assistant", "a"), Message("tool", "ok", call_id="1")]
JSON = "application/json"
WHOLE = json.dumps(
    {
        "choices": [
            {
                "message": {
                    "content": None,
                    "tool_calls": [
                        {"id": "a", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    }
)
CALL = ToolCall("a", "bash", '{"command": "ls"}', {"command": "ls"})


def entry(url: str, **settings: object) -> ModelEntry:
    return ModelEntry(base_url=url, model="m", **settings)


async def ask(url: str, messages: list[Message] = FIRST, **settings: object):
    bind(url)
    async with OpenAIModel(entry(url, **settings)) as model:
        return await model.ask(messages, [], seed=1)


async def test_a_whole_reply_becomes_a_turn_and_keeps_its_bytes(answering, reply) -> None:
    with answering(reply("200 OK", JSON, WHOLE)) as url:
        turn = await ask(url)
    assert (turn.calls, turn.finish_reason, turn.usage, turn.raw) == (
        (CALL,),
        "tool_calls",
        Usage(12, 3),
        WHOLE,
    )


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        ("401 Unauthorized", "{}", r"401, the key is not accepted; set OPENAI_API_KEY"),
        ("404 Not Found", "{}", r"404 for model 'm'; `agenteval models` lists"),
        ("400 Bad Request", '{"error": "no tools"}', r"400, the server refuses .*no tools"),
    ],
)
async def test_a_refusal_that_only_the_user_can_mend_is_his_error(
    answering, reply, status, body, complaint
) -> None:
    with answering(reply(status, JSON, body)) as url:
        with pytest.raises(UsageError, match=complaint):
            await ask(url)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (("500 Oops", JSON, '{"error": "cuda"}'), r"500: .*cuda"),
        (("503 Busy", JSON, ""), r"503"),
        (("400 Bad Request", JSON, '{"error": "bad history"}'), r"400: .*bad history"),
        (("200 OK", "text/html", "<html>hello"), r"no chat completion"),
        (("200 OK", JSON, '{"choices": []}'), r"no chat completion"),
        (("200 OK", JSON, WHOLE[:50]), r"no chat completion"),
        (("200 OK", JSON, ""), r"no chat completion"),
        (("200 OK", JSON, "[" * 100_000), r"no chat completion"),
        (("200 OK", "text/event-stream", 'data: {"choices": [{"delta"\n'), r"broken event"),
        (("200 OK", "text/event-stream", 'data: {"error": {"code": 500}}'), r"500 in the reply"),
        (
            ("200 OK", "text/event-stream", 'data: {"choices": [{"delta": {"content": "x"}}]}\n'),
            r"ended in the middle",
        ),
    ],
)
async def test_a_server_that_breaks_in_mid_trial_is_the_machines_error(
    answering, reply, answer, complaint
) -> None:
    with answering(reply(*answer)) as url:
        with pytest.raises(InfrastructureError, match=complaint):
            await ask(url, LATER)


async def test_half_a_reply_is_the_machines_error(answering, reply) -> None:
    with answering(reply("200 OK", JSON, WHOLE[:40], length=len(WHOLE))) as url:
        with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1\S* Not enough data"):
            await ask(url)


async def test_nothing_at_all_is_the_machines_error(answering) -> None:
    with answering(b"") as url:
        with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1"):
            await ask(url)


async def test_a_server_that_never_answers_is_given_up_at_the_timeout(answering) -> None:
    with answering(b"", 5.0) as url:
        with pytest.raises(InfrastructureError, match=r"no reply within 0.1 s"):
            await ask(url, timeouts=Timeouts(request=0.1))


async def test_a_turn_says_when_it_had_come(answering, reply) -> None:
    body = '{"choices": [{"message": {"content": "Well."}, "finish_reason": "stop"}]}'
    began = datetime.now(UTC).timestamp()
    with answering(reply("200 OK", "application/json", body)) as url:
        async with OpenAIModel(ModelEntry(base_url=url, model="m")) as model:
            turn = await model.ask([Message("user", "u")], [], seed=1)
    assert began <= turn.ended <= datetime.now(UTC).timestamp()


async def heard_by_a_server() -> list[str]:
    """The head of a request, as it came, in lower case."""
    heard: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend((await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines())
        writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{WHOLE}".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        turn = await ask(f"http://127.0.0.1:{port}/v1/")
    assert turn.calls == (CALL,)
    assert heard[0] == "post /v1/chat/completions http/1.1"
    names = [line.partition(":")[0] for line in heard[1:]]
    assert len(names) == len(set(names))
    return heard


async def test_the_key_and_the_settings_of_the_sdk_go_with_a_request(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "ours")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-route: a\nUSER-AGENT: mine")
    wanted = {"authorization: bearer secret", "openai-organization: ours", "x-route: a"}
    wanted |= {"user-agent: mine", "content-type: application/json", "accept-encoding: identity"}
    assert wanted <= {*await heard_by_a_server()}


@pytest.mark.parametrize("key", ["", "secret", " with-an-end\n"])
async def test_without_settings_a_request_is_the_sdks_but_for_what_that_tells_of_itself(
    key, monkeypatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    ours = {line for line in await heard_by_a_server() if not line.startswith("user-agent")}
    monkeypatch.setenv("OPENAI_LOG", "")  # a setting, which asks for nothing
    theirs = await heard_by_a_server()
    assert any(line.startswith("x-stainless") for line in theirs)
    wanted = {line for line in theirs if not line.startswith(("x-stainless", "user-agent"))}
    assert ours - of_this_connection(ours) == wanted - of_this_connection(wanted)
    assert f"authorization: bearer {key.strip() or 'none'}" in ours


def of_this_connection(lines: set[str]) -> set[str]:
    return {line for line in lines if line.startswith("host:")}


def test_a_run_that_has_no_settings_of_the_sdk_does_not_import_it() -> None:
    """16 MB and half a second."""
    asked = "import sys, agenteval.workflows.evaluate; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
