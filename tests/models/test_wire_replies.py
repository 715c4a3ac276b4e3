"""Replies as servers really send them, each with its calls, the malformed ones and whom they blame.

Written after public reports on these servers; the number of the report stands beside each.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scripted_server import TOOLS

from agenteval.classes.malformed import KINDS
from agenteval.config.models import ModelEntry, Sampling
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.call import Blame
from agenteval.trial.trial import Message

STREAMS = Path(__file__).parents[1] / "replies" / "streams"
MODEL, PARSER, PROMPT = Blame.MODEL, Blame.PARSER, Blame.PROMPT
HARNESS, SERVER = Blame.HARNESS, Blame.SERVER
ASKED = [Message("system", "You keep notes."), Message("user", "List them.")]
LATER = [*ASKED, Message("assistant", "Hm."), Message("user", "Go on.")]


def call(name: object, arguments: object, ident: object = "c1", **more: object) -> dict:
    return {"id": ident, "function": {"name": name, "arguments": arguments}} | more


def whole(text: str | None = None, *calls: dict, finish: str = "", **more: object) -> str:
    message = {"role": "assistant", "content": text, "tool_calls": list(calls) or None, **more}
    finish = finish or ("tool_calls" if calls else "stop")
    usage = {"prompt_tokens": 90, "completion_tokens": 40}
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def stream(*deltas: dict, finish: str | None = "tool_calls") -> str:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def parts(*calls: dict) -> dict:
    return {"tool_calls": [{"index": at, **one} for at, one in enumerate(calls)]}


Wrong = Sequence[tuple[str, Blame] | tuple[str, Blame, int]]


@dataclass(frozen=True)
class Reply:
    body: str
    calls: Sequence[tuple[str, str]] = ()
    malformed: Wrong = ()
    status: str = "200 OK"
    entry: dict[str, object] = field(default_factory=dict)
    said: Sequence[Message] = tuple(ASKED)

    @property
    def kind(self) -> str:
        return "text/event-stream" if self.body.startswith("data:") else "application/json"


LS = '{"command": "ls"}'
HERMES = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
QWEN = (
    "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
)
TEXT_PARSER = [("call-in-text", PARSER)]

REPLIES = {
    "a good call": Reply(whole(None, call("bash", LS)), [("bash", LS)]),
    "a good call, streamed": Reply(stream(parts(call("bash", LS))), [("bash", LS)]),
    "words alone": Reply(whole("I have done it.")),
    "a tool without parameters": Reply(whole(None, call("now", "{}")), [("now", "{}")]),
    # vLLM 22975: the parser is skipped, and the call stays in the content.
    "hermes left as text": Reply(whole(f"I look.\n{HERMES}"), (), TEXT_PARSER),
    "qwen3_coder left as text": Reply(whole(QWEN), (), TEXT_PARSER),
    # llama.cpp 15012: without the opening tag.
    # vLLM's hermes parser stops at the first end tag, be it inside a value.
    "an end tag inside the arguments": Reply(
        whole(HERMES.replace("ls", "grep -c '</tool_call>' a")), (), TEXT_PARSER
    ),
    "an end tag inside the arguments, read to it": Reply(
        stream(parts(call("bash", '{"command": "grep -c \''))),
        [("bash", '{"command": "grep -c \'')],
        [("broken-json", MODEL, 0)],
    ),
    "function without tool_call": Reply(
        stream({"content": QWEN.removeprefix("<tool_call>\n")}, finish="stop"), (), TEXT_PARSER
    ),
    "json left as text": Reply(
        whole('{"name": "bash", "arguments": {"command": "ls"}}'), (), TEXT_PARSER
    ),
    "two left as text": Reply(whole(f"{HERMES}\n{HERMES}"), (), TEXT_PARSER * 2),
    "json of something else": Reply(whole('{"name": "Ada", "arguments": "none"}')),
    "spoken about in a fence": Reply(
        whole(f"Write it so:\n```xml\n{HERMES}\n```\nDone."), (), [("call-in-fence", MODEL)]
    ),
    "a tag that is only spoken about": Reply(whole("The <tool_call> tag begins a call.")),
    "a broken call left as text": Reply(
        whole('<tool_call>\n{"name": "bash", "arguments": {"command": "ls}}\n</tool_call>'),
        (),
        [("call-in-text", MODEL)],
    ),
    "left as text as our prompt shows": Reply(
        whole(HERMES), (), [("call-in-text", PROMPT)], said=[Message("user", f"Write {HERMES}")]
    ),
    # Reasoning parsers take the call along.
    "a call in the reasoning": Reply(
        whole("", reasoning_content=f"I must look. {HERMES}"), (), [("call-in-reasoning", PARSER)]
    ),
    "a broken call in the reasoning": Reply(
        whole("", reasoning='<tool_call>{"name": "b"'), (), [("reasoning-only", PARSER)]
    ),
    "a call that is thought about": Reply(whole("Done.", reasoning=f"Shall I {HERMES}?")),
    # vLLM 35266: the opening brace is missing.
    "no opening brace": Reply(
        stream(parts(call("bash", '"command": "ls"}'))),
        [("bash", '"command": "ls"}')],
        [("broken-json", PARSER, 0)],
    ),
    # vLLM 45256: incomplete JSON of a parser that writes the JSON itself.
    "no closing brace, by a parser": Reply(
        stream(parts(call("bash", '{"command": "ls'))),
        [("bash", '{"command": "ls')],
        [("broken-json", PARSER, 0)],
        entry={"tool_parser": "qwen3_coder"},
    ),
    "no closing brace, by the model": Reply(
        whole(None, call("bash", '{"command": "ls')),
        [("bash", '{"command": "ls')],
        [("broken-json", MODEL, 0)],
    ),
    "arguments that are a list": Reply(
        whole(None, call("bash", '["ls"]')), [("bash", '["ls"]')], [("broken-json", MODEL, 0)]
    ),
    # vLLM 33965, SGLang 37634: the arguments of the second like call are lost.
    "a twin without arguments": Reply(
        whole(None, call("bash", LS), call("bash", "{}", "c2")),
        [("bash", LS), ("bash", "{}")],
        [("lost-arguments", PARSER, 1)],
    ),
    "not even an empty object": Reply(
        stream(parts(call("bash", ""))), [("bash", "")], [("lost-arguments", PARSER, 0)]
    ),
    "an empty object alone": Reply(
        whole(None, call("bash", "{}")), [("bash", "{}")], [("lost-arguments", MODEL, 0)]
    ),
    "another argument than asked for": Reply(
        whole(None, call("bash", '{"cmd": "ls"}')),
        [("bash", '{"cmd": "ls"}')],
        [("schema-mismatch", MODEL, 0)],
    ),
    "a list left as text by the parser": Reply(
        whole(None, call("todo", '{"items": "[1, 2]"}')),
        [("todo", '{"items": "[1, 2]"}')],
        [("schema-mismatch", PARSER, 0)],
    ),
    "a tool that was not offered": Reply(
        whole(None, call("web", '{"q": 1}')), [("web", '{"q": 1}')]
    ),
    # Tags of the template that the parser left in.
    "a tag behind the value": Reply(
        whole(None, call("bash", json.dumps({"command": "ls\n</parameter>"}))),
        [("bash", json.dumps({"command": "ls\n</parameter>"}))],
        [("markup-in-arguments", PARSER, 0)],
    ),
    # LiteLLM 24095: an object where text belongs, and no id.
    "an object without id": Reply(
        whole(None, call("bash", {"command": "ls"}, None)),
        [("bash", LS)],
        [("object-arguments", SERVER, 0), ("missing-id", SERVER, 0)],
    ),
    # llama.cpp 12279: an empty id.
    "an empty id": Reply(
        whole(None, call("bash", LS, "")), [("bash", LS)], [("missing-id", SERVER, 0)]
    ),
    "the same id twice": Reply(
        whole(None, call("bash", LS, "0"), call("read", '{"path": "a"}', "0")),
        [("bash", LS), ("read", '{"path": "a"}')],
        [("repeated-id", SERVER, 1)],
    ),
    "no name": Reply(whole(None, call(None, LS)), [("", LS)], [("empty-name", PARSER, 0)]),
    # gpt-oss: channel tokens in the name.
    "channel tokens": Reply(
        whole(None, call("bash<|channel|>commentary", LS)),
        [("bash", LS)],
        [("channel-tokens", PARSER, 0)],
    ),
    # llama.cpp 27129: tools dropped without a word; the reply alone cannot show it.
    "tools dropped silently": Reply(whole("Run `ls` yourself.")),
    # Ollama 18107: the context was cut; the reply alone cannot show it either.
    "a context that was cut": Reply(whole("What is it that I should do?")),
    "cut by the server's limit": Reply(
        stream(parts(call("bash", '{"command": "l')), finish="length"),
        [("bash", '{"command": "l')],
        [("cut-call", SERVER, 0)],
    ),
    "cut by our own limit": Reply(
        whole(None, call("bash", '{"command": "l'), finish="length"),
        [("bash", '{"command": "l')],
        [("cut-call", HARNESS, 0)],
        entry={"sampling": Sampling(max_tokens=40)},
    ),
    # vLLM's qwen3_coder makes an empty call of a cut one, its hermes leaves it in the content.
    "cut to an empty call": Reply(
        whole(None, call("bash", "{}"), finish="length"),
        [("bash", "{}")],
        [("cut-call", SERVER, 0)],
    ),
    "cut inside the text": Reply(
        whole('<tool_call>\n{"name": "bash", "argum', finish="length"), (), [("cut-call", SERVER)]
    ),
    # vLLM 58228: a call was found, so that the limit is not told.
    "a call cut by our max_tokens, which is not told": Reply(
        whole(None, call("bash", LS[:9]), finish="tool_calls"),
        [("bash", LS[:9])],
        [("cut-call", Blame.HARNESS, 0)],
        entry={"sampling": Sampling(max_tokens=40)},
    ),
    "words cut by our max_tokens": Reply(
        whole("I think that", finish="length"),
        (),
        [("cut-reply", Blame.HARNESS)],
        entry={"sampling": Sampling(max_tokens=40)},
    ),
    "left as text, and then cut": Reply(whole(f"{HERMES}\nAnd", finish="length"), (), TEXT_PARSER),
    "words cut": Reply(whole("I think that", finish="length"), (), [("cut-reply", SERVER)]),
    "words cut in a round without end": Reply(whole("and so " * 200, finish="length")),
    "a whole call before the cut": Reply(
        whole(None, call("bash", LS), finish="length"), [("bash", LS)]
    ),
    # Ollama 12884, llama.cpp: an error instead of the message that could not be parsed.
    "refused, with good JSON shown": Reply(
        '{"error": "error parsing tool call: raw=\'{"command": "ls"}\' err=invalid"}',
        [("", '{"error": "error parsing tool call: raw=\'{"command": "ls"}\' err=invalid"}')],
        [("refused-call", PARSER, 0)],
        status="500 Internal Server Error",
    ),
    "refused": Reply(
        '{"error": {"message": "output does not match the expected peg-native format"}}',
        [("", '{"error": {"message": "output does not match the expected peg-native format"}}')],
        [("refused-call", MODEL, 0)],
        status="500 Internal Server Error",
    ),
    # What a server on UTF-16 writes of a token that ends within a character.
    "half a character in the arguments": Reply(
        whole(None, call("bash", '{"command": "ls \ud83d"}')),
        [("bash", '{"command": "ls \ufffd"}')],
        [("broken-text", SERVER, 0)],
    ),
    "half a character in the words, streamed": Reply(
        stream({"content": "so \ud83d"}, finish="stop"), (), [("broken-words", SERVER)]
    ),
    "the halves of a character, each in an event": Reply(
        stream({"content": "so \ud83d"}, {"content": "\ude00"}, finish="stop")
    ),
    # What the model itself writes, when it breaks off within the escapes of a character.
    "half a character, escaped": Reply(
        whole(None, call("bash", '{"command": "ls \\ud83d"}')),
        [("bash", '{"command": "ls \\ud83d"}')],
        [("broken-json", MODEL, 0)],
    ),
    "refused in the stream": Reply(
        'data: {"error": {"code": 500, "message": "Failed to parse input at pos 3"}}\n\n',
        [("", '{"code": 500, "message": "Failed to parse input at pos 3"}')],
        [("refused-call", MODEL, 0)],
        said=LATER,
    ),
}


def shown(evidence: str, said: str) -> bool:
    """As it is, or as it is written within JSON; or with what stands for half a character."""
    return "\ufffd" in evidence or evidence in said or json.dumps(evidence)[1:-1] in said


@pytest.mark.parametrize("case", REPLIES.values(), ids=REPLIES)
async def test_a_reply_gives_its_calls_its_malformed_calls_and_the_layer_to_blame(
    answering, reply, case
) -> None:
    with answering(reply(case.status, case.kind, case.body)) as url:
        entry = ModelEntry(base_url=url, model="m", **case.entry)
        async with OpenAIModel(entry) as model:
            turn = await model.ask(case.said, TOOLS, seed=1)
    seen = [
        (one.kind, one.blame, *((one.position,) * (one.position is not None)))
        for one in turn.malformed
    ]
    said = turn.text + turn.raw + "".join(one.raw for one in turn.calls)
    assert (
        [(one.name, one.raw) for one in turn.calls],
        seen,
        [one.kind for one in turn.malformed if not one.why or not shown(one.evidence, said)],
    ) == (list(case.calls), list(case.malformed), [])


def test_every_kind_is_among_the_replies_or_in_the_corpus() -> None:
    shown = {kind for case in REPLIES.values() for kind, *_ in case.malformed}
    corpus = [json.loads(path.read_text()) for path in STREAMS.glob("*.json")]
    shown |= {fault["kind"] for case in corpus for fault in case["faults"]}
    assert shown == {kind.id for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_a_kind_has_a_title_and_a_rationale(kind) -> None:
    assert (kind.title.endswith("."), "\n" in kind.title, bool(kind.rationale)) == (
        True,
        False,
        True,
    )
