"""A model without native tools: schemas in the prompt, calls read from its words."""

import json

import pytest

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.request import request_body
from agenteval.replies.text_calls import DIALECTS
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Message

LS = '{"command": "ls"}'
WRITTEN = {
    "hermes": f'Look.\n<tool_call>\n{{"name": "bash", "arguments": {LS}}}\n</tool_call>',
    "qwen3_coder": "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>",
    "json": f'```json\n{{"name": "bash", "arguments": {LS}}}\n```',
}
EXAMPLE = "then stop and wait for the result:\n"  # behind it stands how a call is written
for _name, _dialect in DIALECTS.items():
    _shown = _dialect.instructions({}).rpartition(EXAMPLE)[2]
    for _word, _meant in {"NAME": "bash", "PARAMETER": "command", "VALUE": "ls"}.items():
        _shown = _shown.replace(_word, _meant)
    WRITTEN.setdefault(_name, _shown)
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
OPENING = [Message("system", "You keep notes."), Message("user", "List them.")]


def entry(url: str, dialect: str) -> ModelEntry:
    return ModelEntry(base_url=url, model="m", stream=False, tools="text", dialect=dialect)


async def said(answering, reply, dialect: str, text: str):
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    with answering(reply("200 OK", "application/json", json.dumps(body))) as url:
        async with OpenAIModel(entry(url, dialect)) as model:
            return await model.ask(OPENING, TOOLS, seed=1)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_call_in_the_words_is_a_call_and_the_words_stay(answering, reply, dialect) -> None:
    turn = await said(answering, reply, dialect, WRITTEN[dialect])
    assert (turn.calls, turn.text, turn.malformed, turn.repairs) == (
        (ToolCall("call-0", "bash", LS, {"command": "ls"}),),
        WRITTEN[dialect],
        (),
        (),
    )


async def test_a_broken_call_is_the_models_and_one_in_another_dialect_is_none(
    answering, reply
) -> None:
    text = f'<tool_call>{{"name": "bash", "arguments": {{</tool_call>\n{WRITTEN["qwen3_coder"]}'
    turn = await said(answering, reply, "hermes", text)
    assert (
        [(call.name, call.arguments) for call in turn.calls],
        [(one.kind, str(one.blame), one.position) for one in turn.malformed],
    ) == ([("bash", None)], [("broken-json", "model", 0), ("call-in-text", "model", None)])


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda one: one.name)
def test_the_server_sees_words_alone_with_the_results_of_a_turn_together(dialect) -> None:
    calls = (ToolCall("a", "bash", LS), ToolCall("b", "bash", LS))
    messages = [
        *OPENING,
        Message("assistant", "My words.", calls),
        Message("tool", "one", call_id="a"),
        Message("tool", "two", call_id="b"),
    ]
    sent = json.loads(request_body(entry("http://a/v1", dialect.name), messages, TOOLS, 1))
    told = dialect.instructions({"bash": PARAMETERS})
    results = f"{dialect.result('bash', 'one')}\n{dialect.result('bash', 'two')}"
    assert (sent["messages"], "tools" in sent, sent.get("stop", [])) == (
        [
            {"role": "system", "content": f"You keep notes.\n\n{told}"},
            {"role": "user", "content": "List them."},
            {"role": "assistant", "content": "My words."},
            {"role": "user", "content": results},
        ],
        False,
        list(dialect.stop),
    )


def test_without_a_system_message_the_instructions_are_one() -> None:
    sent = json.loads(request_body(entry("http://a/v1", "hermes"), OPENING[1:], TOOLS, 1))
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, "native"),
        ({"tools": "text"}, "hermes/1"),
        ({"tools": "text", "dialect": "json"}, "json/1"),
    ],
)
def test_how_tools_were_called_is_kept_with_the_run(settings, kept) -> None:
    assert ModelEntry(base_url="http://a/v1", model="m", **settings).card("m").tools == kept
