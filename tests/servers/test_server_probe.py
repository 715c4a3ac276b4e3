"""`agenteval models --probe`: what is found of a server is what that server does.

The servers here are written for it, each with one habit; the last one is a real llama.cpp.
"""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agenteval.config.models import at_url
from agenteval.models.probe import IDS, probe
from agenteval.trial.run import FITTED, FREE, NOT_OBSERVABLE


def rendered(body, *, keeps="loop", ids=True, results=2) -> str:
    """A template: what of a conversation its model reads."""
    lines, left = [], results
    last = max((at for at, one in enumerate(body["messages"]) if one["role"] == "user"), default=0)
    for at, one in enumerate(body["messages"]):
        thought = one.get("reasoning_content") or ""
        if thought and (keeps == "always" or (keeps == "loop" and at > last)):
            lines.append(f"<think>{thought}</think>")
        lines += [
            f"{call['id'] if ids else ''} {call['function']['arguments']}"
            for call in one.get("tool_calls") or ()
        ]
        if one["role"] == "tool":
            left -= 1
        if one["role"] != "tool" or left >= 0:
            lines.append(str(one["content"]))
    return "\n".join(lines)


@contextmanager
def server(pages, reply):
    """`pages` maps a path to a function of the body; `reply` makes the message of a completion."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path == "/v1/chat/completions":
                told = reply(body)
            else:
                told = pages[self.path](body) if self.path in pages else None
            answer = told if told is not None else {"error": "no"}
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200 if told is not None else 404)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        there.daemon_threads = True
        threading.Thread(target=there.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{there.server_port}/v1"
        there.shutdown()


def completion(body, *, word="apple", calls=2, ids=IDS, **template):
    """Calls as they are asked for; the tokens are the words of the prompt."""
    if "tools" not in body:
        return None
    tool = body["tools"][0]["function"]["name"]
    written = [{"place": "attic"}, {"place": "cellar"}] if tool == "look" else [{"word": word}]
    made = [
        {"id": ident, "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for ident, arguments in zip(ids, written[:calls], strict=False)
    ]
    words = len(rendered(body, **template).split())
    return {"choices": [{"message": {"tool_calls": made}}], "usage": {"prompt_tokens": words}}


async def found(pages, reply) -> dict[str, str]:
    with server(pages, reply) as url:
        return dict((await probe(at_url(url, "m"))).findings)


async def test_a_rendered_prompt_shows_what_is_read() -> None:
    pages = {"/apply-template": lambda body: {"prompt": rendered(body)}}
    assert await found(pages, completion) == {
        "prompt rendered": "by /apply-template",
        "reasoning in the tool loop": "read",
        "reasoning behind an answer": "dropped",
        "results of two calls": "both read",
        "two calls in one turn": "both read",
        "ids of calls": "read",
        "reasoning, by our rule": "sent back within the tool loop",
        "grammar of calls": FREE,
        "a tool that nobody offers": "not observable",
        "calls come": "as calls",
        "calls in one reply": "2 where 2 were asked for",
        "ids of its calls": "each has its own",
        "reasoning": "none seen",
        "seed": "not observable",
        "asked": "4 requests, 42 prompt and 0 completion tokens",
    }


async def test_a_server_that_counts_tokens_renders_by_them() -> None:
    """As vLLM: a prompt into numbers, and numbers back."""
    known: list[str] = []

    def tokens(body):
        known.append(rendered(body, keeps="always", ids=False, results=1))
        return {"tokens": [len(known) - 1]}

    pages = {"/tokenize": tokens, "/detokenize": lambda body: {"prompt": known[body["tokens"][0]]}}
    told = await found(pages, lambda body: completion(body, calls=1, ids=("",)))
    assert (told["prompt rendered"], told["reasoning behind an answer"]) == (
        "by /tokenize and /detokenize", "read")  # fmt: skip
    assert (told["results of two calls"], told["ids of calls"]) == (
        "1 of 2 is not read",
        "not read",
    )
    assert (told["calls in one reply"], told["ids of its calls"]) == (
        "1 where 2 were asked for", "missing-id")  # fmt: skip


@pytest.mark.parametrize(
    ("template", "reasoning", "second"),
    [
        ({"keeps": "loop"}, ("read (1 tokens)", "dropped"), "read (1 tokens)"),
        ({"keeps": "never", "results": 1}, ("dropped", "dropped"), "dropped"),
        ({"keeps": "always"}, ("read (1 tokens)", "read (2 tokens)"), "read (1 tokens)"),
    ],
)
async def test_without_a_page_the_tokens_of_replies_tell(template, reasoning, second) -> None:
    told = await found({}, lambda body: completion(body, **template))
    assert told["prompt rendered"].startswith("no: ")
    assert (told["reasoning in the tool loop"], told["reasoning behind an answer"]) == reasoning
    assert told["result of the second call"] == second


async def test_arguments_that_only_a_grammar_writes_are_told() -> None:
    made = "bcdfghjklmnpqrstvwxzbcdf"
    assert re.fullmatch("[b-df-hj-np-tv-z]{24}", made)
    told = await found({}, lambda body: completion(body, word=made))
    assert told["grammar of calls"] == FITTED


@pytest.mark.parametrize(
    "reply",
    [lambda _: None, lambda _: {}, lambda _: {"choices": [{"message": {"content": ["?"]}}]},
     lambda _: {"choices": {"a": 1}, "usage": []}, lambda _: b"[" * 100_000],
    ids=["refuses", "empty", "words", "odd", "deep"],
)  # fmt: skip
async def test_a_server_that_tells_nothing_is_unknown_and_no_error(reply) -> None:
    told = await found({"/tokenize": lambda _: {"tokens": ["?"]}}, reply)
    assert told["conversation"].startswith("unknown")
    assert (told["calls in one reply"], told["grammar of calls"]) == (NOT_OBSERVABLE,) * 2


@pytest.mark.slow
async def test_a_real_llama_cpp_renders_its_prompt_and_makes_calls_by_a_grammar(llama) -> None:
    seen = await probe(at_url(f"{llama}/v1", "markov"))
    told = dict(seen.findings)
    assert told["prompt rendered"] == "by /apply-template"
    assert all(word in seen.prompt for word in ("attic", "cellar"))
    assert told["results of two calls"] == "both read"
