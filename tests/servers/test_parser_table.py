"""What vLLM's and SGLang's own parsers made of replies, as our arrival layer reads it.

The table is renewed by `make parsers`. A tokenizer stands in there for a model's: a parser that
looks into one fails in the table, which says nothing of its server.
"""

import json
from collections.abc import Iterator

import pytest
from parsers import TABLE, WHEELS
from scripted_server import TOOLS

from agenteval.models.request import _schemas_of, read_reply, turn_of
from agenteval.trial.call import Asked, Blame

DATA = json.loads(TABLE.read_text(encoding="utf-8"))
REPLIES = DATA["tools"]["replies"] | DATA["reasoning"]["replies"]
ASKED = Asked(_schemas_of(TOOLS), None, "", "", ())
COMMAND = "uv run scripts/notes.py list --notebook kitchen | head -5"
GOOD = ("bash", {"command": COMMAND})
OF_NO_MODEL = {Blame.PARSER, Blame.SERVER}


def messages(kind: str = "tools") -> Iterator[tuple[str, str, dict]]:
    for server, replies in DATA[kind]["messages"].items():
        for reply, seen in replies.items():
            for message in seen:
                if "error" not in message:
                    yield server, reply, message


def arrived(reply: str, message: dict):
    """The turn that a client has, as the server of this parser would send it, whole."""
    calls = [
        {"id": f"call-{at}", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(message["calls"])
    ]
    thoughts = {"reasoning_content": message["reasoning"]} if message.get("reasoning") else {}
    said = {"content": message["content"] or None, "tool_calls": calls or None, **thoughts}
    finish = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 90, "completion_tokens": len(REPLIES[reply]) // 4}
    body = {"choices": [{"message": said, "finish_reason": finish}], "usage": usage}
    received, used = read_reply(json.dumps(body).encode())
    return turn_of(received, ASKED, usage=used, raw="", seconds=1.0)


def test_the_table_is_of_these_versions_and_has_every_parser() -> None:
    assert DATA["versions"] == WHEELS
    seen = {
        (kind, server): len({name.split()[0] for one in replies[reply] for name in one["by"]})
        for kind, reply in {"tools": "no call", "reasoning": "words alone"}.items()
        for server, replies in DATA[kind]["messages"].items()
    }
    assert seen == {
        ("tools", "vllm"): 54,
        ("tools", "sglang"): 44,
        ("reasoning", "vllm"): 38,
        ("reasoning", "sglang"): 36,
    }


def test_a_reply_that_a_parser_lost_is_blamed_on_no_model() -> None:
    lost = [
        (reply, arrived(reply, message))
        for _, reply, message in messages()
        if not message["content"].strip() and not message["calls"]
    ]
    blames = [{one.blame for one in turn.malformed} for _, turn in lost]
    assert len(lost) > 20
    assert [one for one in blames if not one or not one <= OF_NO_MODEL] == []


def test_a_call_that_its_own_parser_read_is_that_call_without_a_fault() -> None:
    read: dict[str, set[str]] = {}
    for server, reply, message in messages():
        turn = arrived(reply, message)
        calls = [(call.name, call.arguments) for call in turn.calls]
        if reply.endswith(": good") and calls == [GOOD] and not turn.malformed:
            read.setdefault(reply, set()).update(f"{server} {one}" for one in message["by"])
    ways = {f"{server} hermes {way}" for server in WHEELS for way in ("whole", "streamed")}
    assert ways <= read["hermes: good"]
    assert set(read) == {reply for reply in DATA["tools"]["replies"] if reply.endswith(": good")}


@pytest.mark.parametrize(
    "reply", [name for name in DATA["tools"]["replies"] if name.endswith(": good")]
)
def test_a_call_that_a_parser_left_in_the_text_is_told_so(reply) -> None:
    whole = DATA["tools"]["replies"][reply]
    left = [one for _, name, one in messages() if name == reply and one["content"] == whole]
    turns = [arrived(reply, one) for one in left]
    kinds = {tuple((one.kind, one.blame) for one in turn.malformed) for turn in turns}
    assert (bool(left), kinds) == (True, {(("call-in-text", Blame.PARSER),)})


# Nothing in the message of these says that the model was cut within the command.
COMPLETED = {
    "sglang": {
        *(f"{name} whole" for name in ("cohere_command4", "nanbeige", "qwen3_coder", "step3p5")),
    },
    "vllm": {
        *("apertus whole", "gemma4 whole", "granite-20b-fc streamed", "internlm streamed"),
        *("llama3_json streamed", "llama4_json streamed", "poolside_v1 streamed"),
    },
}


def test_parsers_that_complete_a_cut_command_are_known() -> None:
    cut = {"command": COMMAND.removesuffix(" -5")}
    completed: dict[str, set[str]] = {}
    for server, reply, message in messages():
        if reply.endswith(": cut"):
            turn = arrived(reply, message)
            if [call.arguments for call in turn.calls] == [cut] and not turn.malformed:
                completed.setdefault(server, set()).update(message["by"])
    assert completed == COMPLETED


def test_a_call_that_a_parser_of_reasoning_swallowed_is_blamed_on_it() -> None:
    swallowed = [
        (message, arrived(reply, message))
        for _, reply, message in messages("reasoning")
        if "<tool_call>" in message["reasoning"]
        and not message["calls"]
        and not message["content"].strip()
    ]
    told = {tuple((one.kind, one.blame) for one in turn.malformed) for _, turn in swallowed}
    assert told == {(("call-in-reasoning", Blame.PARSER),), (("reasoning-only", Blame.PARSER),)}


def test_words_that_a_parser_took_for_reasoning_are_no_silence_of_the_model() -> None:
    words = DATA["reasoning"]["replies"]["words alone"]
    turns = [
        arrived(reply, message)
        for _, reply, message in messages("reasoning")
        if reply == "words alone" and message["reasoning"] == words and not message["content"]
    ]
    told = [[(one.kind, one.blame) for one in turn.malformed] for turn in turns]
    assert told == [[("reasoning-only", Blame.PARSER)]] * 2  # of vLLM, of SGLang


# Cohere's is read by neither here: one wants a library of its own, one a mark before its answer.
READ_BY = {
    **{form: {"vllm", "sglang"} for form in ("think", "mistral", "minimax-m3", "gemma4")},
    **{form: {"vllm"} for form in ("seed", "granite", "plamo")},
    **{form: {"sglang"} for form in ("kimi", "harmony")},
}


def test_each_form_of_thoughts_is_read_with_its_call_by_a_parser_of_its_own() -> None:
    read: dict[str, set[str]] = {}
    for server, reply, message in messages("reasoning"):
        turn = arrived(reply, message)
        calls = [(call.name, call.arguments) for call in turn.calls]
        form, _, rest = reply.partition(": ")
        parted = message["reasoning"].strip() == "I look into the kitchen."
        if rest and parted and calls == [GOOD] and not turn.malformed:
            read.setdefault(form, set()).add(server)
    assert read == READ_BY


# Streamed, the call is run; whole, it is a thought.
RUN_WHEN_STREAMED = {
    "vllm": set(),
    "sglang": {
        *("deepseek-v3", "dots", "glm45", "granite_thinking_parser", "interns1", "ling3", "mimo"),
        *("minimax", "nanbeige", "nemotron_3", "poolside_v1", "qwen3", "qwen3-thinking"),
    },
}


def test_parsers_that_run_a_call_within_a_thought_when_streamed_are_known() -> None:
    reply = "call within the thought, words"
    calls: dict[tuple[str, str], dict[str, int]] = {}
    for server, replies in DATA["reasoning"]["messages"].items():
        for message in (one for one in replies[reply] if "error" not in one):
            for name, way in (one.split() for one in message["by"]):
                calls.setdefault((server, name), {})[way] = len(message["calls"])
    seen = {server: set[str]() for server in WHEELS}
    for (server, name), by_way in calls.items():
        if by_way == {"whole": 0, "streamed": 1}:
            seen[server].add(name)
    assert seen == RUN_WHEN_STREAMED
