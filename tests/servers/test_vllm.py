"""A real vLLM, for the CPU, does with replies what the table of its parsers says."""

import json
import urllib.request
from collections.abc import Mapping

import pytest
from free_server import served_by
from scripted_server import TOOLS
from scripts import TEMPLATE, played
from test_parser_table import DATA

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # it starts in a minute or more

MARKED = "think: thought, call"  # its marks are tokens; where they are spelled, a stream hides them


Message = tuple[str, str, list[list[str]]]


def asked(entry: Mapping[str, object], name: str, *, stream: bool) -> Message:
    """Reasoning, content, and each call's name and arguments."""
    said = {"model": entry["model"], "messages": [{"role": "user", "content": name}]}
    body = json.dumps({**said, "tools": TOOLS, "stream": stream, "temperature": 0}).encode()
    request = urllib.request.Request(
        f"{entry['base_url']}/chat/completions", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        text = reply.read().decode()
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: {")]
    parts = [json.loads(line) for line in (lines if stream else [text])]
    reasoning, content, calls = "", "", dict[int, list[str]]()
    for part in (choice for one in parts for choice in one["choices"]):
        message = part["delta" if stream else "message"]
        reasoning += message.get("reasoning") or ""
        content += message.get("content") or ""
        for at, call in enumerate(message.get("tool_calls") or ()):
            known = calls.setdefault(call.get("index", at), ["", ""])
            known[0] += call["function"].get("name") or ""
            known[1] += call["function"].get("arguments") or ""
    return reasoning, content, list(calls.values())


def table(kind: str, parser: str) -> dict[tuple[str, str], Message]:
    """By reply and way, of the replies that are plain ASCII: a piece of another may be a byte."""
    return {
        (reply, way): (one.get("reasoning", ""), one["content"], one["calls"])
        for reply, seen in DATA[kind]["messages"]["vllm"].items()
        if DATA[kind]["replies"][reply].isascii()
        for one in seen
        for name, way in (by.split() for by in one["by"])
        if name == parser
    }


@pytest.mark.parametrize(
    ("kind", "parser", "options"),
    [("tools", "hermes", ()), ("reasoning", "qwen3", ("--reasoning-parser", "qwen3"))],
    ids=["tools", "reasoning"],
)
def test_the_server_does_what_the_table_says(kind, parser, options, tmp_path) -> None:
    replies, expected = DATA[kind]["replies"], table(kind, parser)
    if kind == "reasoning":
        expected = {
            key: message
            for key, message in expected.items()
            if key[1] == "whole" or key[0] == MARKED or "<" not in replies[key[0]]
        }
    names = {reply: f"reply-{at}" for at, (reply, _) in enumerate(expected)}
    texts = {name: replies[reply] for reply, name in names.items()}
    chain = played(texts, marked=names.get(MARKED, ""))
    with served_by("vllm", tmp_path / "played", chain, *options, template=TEMPLATE) as entry:
        seen = {key: asked(entry, names[key[0]], stream=key[1] == "streamed") for key in expected}
    assert (len(seen) >= 19, seen) == (True, expected)
