"""The simulated models, asked over real HTTP as any served model is."""

import asyncio
import json

import httpx2
import pytest
import pytest_asyncio
from suite import SCENARIOS

from agenteval.errors import UsageError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.persona import NAMES
from agenteval.models.servers import served
from agenteval.models.simulated import SimulatedServer
from agenteval.sandbox.maker import render
from agenteval.trial.trial import Message

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("bash", "read")]
DENIAL = "Permission denied: the rules do not allow `| head` here. Nothing was run."
MODEL = "sim/qwen3.6-35b"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    async with SimulatedServer(SCENARIOS) as running:
        yield running


@pytest.fixture
async def http(server):
    async with httpx2.AsyncClient(base_url=server.base_url, trust_env=False) as client:
        yield client


def request(scenario: int = 0, seed: int = 0, **more) -> dict[str, object]:
    prompt = render(SCENARIOS[scenario], seed)
    return {
        "model": MODEL,
        "seed": seed,
        "tools": TOOLS,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.task},
        ],
        **more,
    }


async def play(server: SimulatedServer, name: str, scenario: int, seed: int, *, deny: bool = True):
    """A whole trial through the ordinary client; what is no step of the solution is denied."""
    prompt = render(SCENARIOS[scenario], seed)
    messages = [Message("system", prompt.system), Message("user", prompt.task)]
    right = [(step.tool, step.arguments) for step in prompt.solution]
    calls, turns = [], []
    async with OpenAIModel(server.entry(name)) as model:
        for _ in range(60):
            turn = await model.ask(messages, TOOLS, seed=seed)
            turns.append(turn)
            messages.append(Message("assistant", turn.text, turn.calls))
            if not turn.calls:
                break
            for call in turn.calls:
                allowed = (call.name, call.arguments) in right
                calls.append((call.name, call.raw, allowed))
                reply = "done" if allowed or not deny else DENIAL
                messages.append(Message("tool", reply, call_id=call.id))
    return calls, turns


async def test_it_says_which_models_it_serves_and_that_they_are_simulated(http):
    listed = (await http.get("models")).json()
    assert [(entry["id"], entry["owned_by"]) for entry in listed["data"]] == [
        (name, "agenteval-simulated") for name in NAMES
    ]


async def test_a_request_that_never_ends_does_not_keep_it_from_closing() -> None:
    """One that waited for it would hang."""
    async with SimulatedServer(SCENARIOS) as running:
        port = int(running.base_url.split(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n"
        writer.write(head + b"expect: 100-continue\r\n\r\n")
        await reader.readline()  # it is being read
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def test_it_is_healthy(http, server):
    health = await http.get(server.base_url.replace("/v1", "/health"))
    assert (health.status_code, health.json()) == (200, {"status": "ok", "simulated": True})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scenario", range(len(SCENARIOS)))
async def test_every_solution_step_is_played_in_order_or_the_trial_ends_in_words(
    name, scenario, server
):
    calls, turns = await play(server, name, scenario, seed=5)
    solution = [(step.tool, step.arguments) for step in render(SCENARIOS[scenario], 5).solution]
    place = 0
    for tool, raw, allowed in calls:
        if allowed and place < len(solution) and (tool, json.loads(raw)) == solution[place]:
            place += 1
    assert turns[-1].calls == ()
    assert turns[-1].finish_reason == "stop"
    assert place == len(solution) or turns[-1].text


@pytest.mark.slow
async def test_the_same_seed_plays_the_same_trial_and_another_seed_another(server):
    one, _ = await play(server, MODEL, 1, seed=3)
    again, _ = await play(server, MODEL, 1, seed=3)
    others = [(await play(server, MODEL, 1, seed=seed))[0] for seed in range(6, 30, 3)]
    assert one == again
    assert any(other != one for other in others)


@pytest.mark.slow
async def test_a_slip_that_was_not_denied_is_not_taken_for_a_denial(server):
    slipped = []
    for seed in range(12):
        denied, _ = await play(server, MODEL, 1, seed=seed)
        first = next((number for number, call in enumerate(denied) if not call[2]), None)
        if first is not None and first + 1 < len(denied):
            tolerated, _ = await play(server, MODEL, 1, seed=seed, deny=False)
            slipped.append((denied[: first + 1], denied[first + 1 :], tolerated, first))
    assert all(before == tolerated[: first + 1] for before, _, tolerated, first in slipped)
    assert any(after != tolerated[first + 1 :] for _, after, tolerated, first in slipped)


async def test_a_whole_reply_and_its_stream_say_the_same(http):
    whole = (await http.post("chat/completions", json=request(seed=4))).json()
    stream = await http.post(
        "chat/completions",
        json=request(seed=4, stream=True, stream_options={"include_usage": True}),
    )
    chunks = [line.removeprefix("data: ") for line in stream.text.splitlines() if line]
    events = [json.loads(chunk) for chunk in chunks[:-1]]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    pieces = [call for delta in deltas for call in delta.get("tool_calls", [])]
    (call,) = whole["choices"][0]["message"]["tool_calls"]
    assert chunks[-1] == "[DONE]"
    assert (
        "".join(piece["function"]["arguments"] for piece in pieces)
        == (call["function"]["arguments"])
    )
    assert (pieces[0]["id"], pieces[0]["function"]["name"]) == (
        call["id"],
        call["function"]["name"],
    )
    assert (
        "".join(delta.get("reasoning_content", "") for delta in deltas)
        == (whole["choices"][0]["message"]["reasoning_content"])
    )
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert (events[-1]["choices"], events[-1]["usage"]) == ([], whole["usage"])


async def test_a_turn_has_its_times_and_reasoning_tokens(server):
    _, (first, *_) = await play(server, MODEL, 1, seed=3)
    assert first.timing is not None
    assert first.timing.pieces >= 3
    assert 0 < first.usage.reasoning_tokens <= first.usage.completion_tokens


async def test_a_stream_carries_usage_only_when_it_is_asked_for(http):
    stream = await http.post("chat/completions", json=request(stream=True))
    assert "usage" not in stream.text


async def test_the_words_of_a_conversation_it_does_not_know_say_so(http):
    asked = request() | {"messages": [{"role": "user", "content": [{"text": "Hello?"}]}]}
    reply = (await http.post("chat/completions", json=asked)).json()
    (choice,) = reply["choices"]
    assert "I am a simulated model" in choice["message"]["content"]
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("stop", False)


async def test_it_recognises_its_scenario_inside_a_longer_message(http):
    asked = request()
    task = asked["messages"][1]["content"]
    asked["messages"][1]["content"] = [{"type": "text", "text": f"Long history.\n{task}\nGo."}]
    reply = (await http.post("chat/completions", json=asked)).json()
    assert reply["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "body: Invalid JSON"),
        (b"[]", 400, "body: Input should be an object"),
        (b'{"model": "sim/qwen3.5-27b", "messages": []}', 400, "messages: List should have"),
        (b'{"messages": [{"role": "user"}]}', 400, "model: Field required"),
        (b'{"model": "m", "messages": [{}]}', 400, "messages.0.role: Field required"),
        (
            b'{"model": "m", "messages": [{"role": "assistant", "tool_calls": [7]}]}',
            400,
            "messages.0.tool_calls.0: Input should be",
        ),
        (b'{"model": "m", "messages": [{"role": "user"}]}', 404, "The model `m` does not exist."),
    ],
)
async def test_a_faulty_request_gets_an_openai_error(body, status, says, http):
    reply = await http.post("chat/completions", content=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (status, "invalid_request_error")
    assert error["message"].startswith(says)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "x", 404), ("PUT", "models", 405)])
async def test_other_pages_are_refused_in_the_same_shape(method, path, status, http):
    reply = await http.request(method, path)
    assert (reply.status_code, "message" in reply.json()["error"]) == (status, True)


async def test_a_server_with_a_key_asks_for_it(monkeypatch):
    async with SimulatedServer(SCENARIOS, api_key="secret") as server:
        async with httpx2.AsyncClient(base_url=server.base_url, trust_env=False) as client:
            refused = await client.get("models")
            admitted = await client.get("models", headers={"Authorization": "Bearer secret"})
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        with pytest.raises(UsageError, match="the key is not accepted"):
            await served(server.entry(MODEL))
    assert (refused.status_code, admitted.status_code) == (401, 200)
    assert refused.json()["error"]["code"] == "invalid_api_key"


def test_a_name_without_a_persona_has_no_entry():
    with pytest.raises(UsageError, match="no simulated model 'sim/x'"):
        SimulatedServer(SCENARIOS).entry("sim/x")
