"""Replies and words as a hostile model or server sends them, given to parser, judge, store, report.

Each must end as data with a name: a malformed call, a denial, the server's fault, or words that are
stored as they came and shown by signs.
"""

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser

from agenteval import report
from agenteval.config.models import ModelEntry
from agenteval.core.call import BASH
from agenteval.core.chunk import ReplyError
from agenteval.core.malformed import Asked
from agenteval.core.policy.arguments import ToolRule
from agenteval.core.policy.policy import Policy
from agenteval.core.run import Run
from agenteval.core.trial import CallRecord, Message, Trial, Turn
from agenteval.models.chat_completions import read_reply, request_body
from agenteval.models.failures import RefusedError
from agenteval.models.stream import StreamReader
from agenteval.models.turns import turn_of
from agenteval.protocols import TrialKey
from agenteval.report.build import build_view
from agenteval.report.view import View
from agenteval.store.sql import SqlStore
from agenteval.taxonomy.judge import judge
from agenteval.temporary import temporary_folder
from agenteval.testing import Part, denied, run, says, tool, trial
from agenteval.workflows.hostile_worlds import Tried

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
SCHEMAS = {BASH: COMMAND | {"required": ["command"]}}
POLICY = Policy("none is allowed", tools={BASH: ToolRule(BASH)})
ENTRY = ModelEntry(base_url="http://127.0.0.1/v1", model="m")
# What no part may let through as an exception: a defect of ours, then.
DEFECTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
BROKEN, SERVER = r"broken-json \(model\)", r"broken-text \(server\)"
LOST = r"lost-arguments \(model\)"
DENIED, FAULT = "^denied", "the server's fault: "


def call(arguments: bytes, name: str = BASH) -> bytes:
    """A whole reply with one call, its argument text written as it is into the JSON."""
    return (
        b'{"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [{"id": "c",'
        b' "function": {"name": %s, "arguments": "%s"}}]}}]}'
    ) % (json.dumps(name).encode(), arguments.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))


def command(text: str) -> bytes:
    return call(json.dumps({"command": text}).encode())


def streamed(*events: bytes) -> bytes:
    return b"".join(b"data: %s\n\n" % event for event in events)


CALLS = b'"tool_calls": ['
FUNCTION = b'"id": "d", "function": {"name": "bash", "arguments": "{}"}'
PART = b'{"choices": [{"delta": {"tool_calls": [{"id": "c", "function": {"name": "bash"}}]}}]}'
REPLIES: Mapping[str, tuple[bytes, str]] = {
    "half a character in an argument": (call(b'{"command": "echo \\ud83d"}'), BROKEN),
    "half a character in the reply": (
        call(b'{"command": "HALF"}').replace(b"HALF", b"\\ud83d"),
        SERVER,
    ),
    "a number of 5,000 digits": (call(b'{"command": %s}' % (b"9" * 5000)), BROKEN),
    "NaN": (call(b'{"command": NaN}'), BROKEN),
    "an argument nested 20,000 deep": (
        call(b'{"command": %s%s}' % (b"[" * 20_000, b"]" * 20_000)),
        BROKEN,
    ),
    "a reply nested 100,000 deep": (b'{"choices": ' + b"[" * 100_000, FAULT),
    "arguments of a megabyte": (command("x" * (1 << 20)), BROKEN),
    "arguments that are cut": (call(b'{"command": "ls'), BROKEN),
    "arguments that are a list": (call(b'["ls"]'), BROKEN),
    "bytes that are no UTF-8": (call(b'{"command": "\xff\xc3"}'), SERVER),
    "NUL in a command": (command("cat notes\0.md"), DENIED),
    "escapes of a terminal in a command": (command("ls \x1b]0;title\x07"), DENIED),
    "a key that comes twice": (call(b'{"command": "ls", "command": "rm -rf ~"}'), DENIED),
    "a tool's name of 100,000 characters": (call(b"{}", "b" * 100_000), DENIED),
    "a command of 9,000 brackets": (command("$(" * 4500 + ")" * 4500), DENIED),
    "3,000 calls at once": (
        call(b"{}").replace(CALLS, CALLS + b"{%s}, " % FUNCTION * 3000),
        LOST,
    ),
    "counts of tokens that are no numbers": (
        command("ls").replace(b"{", b'{"usage": {"prompt_tokens": 1e999, "cost": [0]}, ', 1),
        DENIED,
    ),
    "no object": (b"[]", FAULT),
    "no JSON": (b"<html>504</html>", FAULT),
    "an event that is no JSON": (streamed(PART, b"{broken"), FAULT),
    "a stream that ends within a call": (streamed(PART), FAULT),
    "an error in the place of an event": (streamed(PART, b'{"error": {"code": 500}}'), FAULT),
}


def try_texts() -> list[Tried]:
    return [*try_parser(), *try_store(), *try_report()]


def try_parser() -> list[Tried]:
    return [Tried("parser", name, _read(body), wanted) for name, (body, wanted) in REPLIES.items()]


def _read(body: bytes) -> str:
    """Return how a reply was judged: all its calls are judged, and the next request is written."""
    try:
        turn = _turn(body)
        denials = [judge(one, POLICY) for one in turn.calls]
        results = [Message("tool", "denied", call_id=one.id) for one in turn.calls]
        messages = [Message("user", "go on"), Message("assistant", turn.text, turn.calls), *results]
        json.loads(request_body(ENTRY, messages, (), 1).decode())
    except (ReplyError, RefusedError) as error:
        return f"{FAULT}{error}"
    except DEFECTS as error:
        return _defect(error)
    if any(one.allowed for one in denials) or not denials:
        return "a call is allowed, or lost"
    kinds = sorted({f"{one.kind} ({one.blame})" for one in turn.malformed})
    return f"denied{': ' if kinds else ''}{', '.join(kinds)}"


def _turn(body: bytes) -> Turn:
    if body.startswith(b"data:"):
        reader = StreamReader()
        reader.feed(body, 0.0)
        received, usage = reader.received()
    else:
        received, usage = read_reply(body)
    return turn_of(received, Asked(SCHEMAS), usage=usage, raw=body.decode("latin-1"), seconds=1.0)


def _defect(error: Exception) -> str:
    return f"a defect of ours: {type(error).__name__}: {str(error)[:200]}"


HIDING = {
    "NUL": "notes\0.md",
    "escapes of a terminal": "a\x1b[31mred\x1b]0;title\x07\x9b2J",
    "marks that turn the direction": "a\u202egpj.exe\u2066b",
    "characters without a width": "a\u200b\u2060\ufeffb",
    "half a character": "a\ud83db",
    "a megabyte": "x" * (1 << 20),
}
STORED = HIDING | {
    "SQL": "'; DROP TABLE call; DELETE FROM turn; --",
    "JSON in a text": '{"a": NaN}\\u0000\\ud83d',
}
SHOWN = HIDING | {
    "a script": "</code></pre></details><script>alert(1)</script>",
    "an element with a handler": "\"'><img src=x onerror=alert(1)><svg onload=alert(1)>",
    "a template": "{{ 7 * 7 }}{% raw %}{# #}",
    "markup of the terminal": "[red]a[/] [link=file:///]b[/link] :smile:",
    "Markdown": "a | b `` <b> [x](javascript:alert(1))",
}
AS_IT_CAME, BY_SIGNS = "^it came back as it was$", "^it is shown, and does nothing$"


def try_store() -> list[Tried]:
    """Each is written as the calls of a run are, and read again."""
    with (
        temporary_folder() as folder,
        closing(SqlStore(str(folder / "inbound.db"))) as store,
    ):
        return [
            Tried("store", name, _store_result(store, at, words), AS_IT_CAME)
            for at, (name, words) in enumerate(STORED.items())
        ]


def _store_result(store: SqlStore, number: int, words: str) -> str:
    try:
        content = b'"content": %s, %s' % (json.dumps(words).encode(), CALLS)
        turn = _turn(command(words).replace(CALLS, content))
        records = [
            CallRecord(0, at, one, judge(one, POLICY), turn.text)
            for at, one in enumerate(turn.calls)
        ]
        played = replace(trial(), number=number, turns=(turn,), calls=tuple(records))
        back = _stored(store, f"inbound-{number}", played)
    except DEFECTS as error:
        return _defect(error)
    same = [one.turns for one in back] == [(turn,)] and [one.calls for one in back] == [
        played.calls
    ]
    return AS_IT_CAME[1:-1] if same else f"another came back: {str(back)[:200]}"


def _stored(store: SqlStore, name: str, played: Trial) -> Sequence[Trial]:
    started = run(run_id=name)
    store.add(started)
    recorder = store.recorder(started, {played.scenario: "sha256:0"})
    key = TrialKey(played.scenario, played.number, played.seed)
    recorder.begin(key)
    for at, turn in enumerate(played.turns):
        recorder.turn(key, at, turn)
    for record in played.calls:
        recorder.call(key, record)
    recorder.finish(key, played)
    return store.load(name).trials


def try_report() -> list[Tried]:
    plain = _page("harmless")
    return [
        Tried("report", name, _report_result(words, plain), BY_SIGNS)
        for name, words in SHOWN.items()
    ]


def _run(words: str) -> Run:
    """The words in every place that a model has in a report.

    Each in a trial of its own: what followed a denial is read from words too, and shown.
    """
    unknown = tool(words, failure_class="hallucinated-tool")
    parts: Sequence[Part] = (
        denied(words),
        denied(f"ls {words}", evidence="ls"),
        says(words),
        unknown,
    )
    trials = (trial(part, number=at, reason=words) for at, part in enumerate(parts, 1))
    return run(*trials)


def _page(words: str) -> "_Elements":
    seen = _Elements()
    seen.feed(report.html.page(build_view([_run(words)])))
    return seen


def _report_result(words: str, plain: "_Elements") -> str:
    legible = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        there = _page(legible)
        view = build_view([_run(legible)])
        json.loads(report.json.dumps(view))
        printed = _printed(view) + report.markdown.dumps(view)
    except DEFECTS as error:
        return _defect(error)
    if there.elements != plain.elements:
        return "the page has other elements than one of harmless words"
    hiding = {one for one in there.text + printed if not one.isprintable() and one not in "\n\t"}
    return f"these are not shown: {sorted(hiding)!r}" if hiding else BY_SIGNS[1:-1]


def _printed(view: View) -> str:
    """Return the text that a terminal prints of the view."""
    out = io.StringIO()
    report.console.render(view, report.console.Terminal(file=out, width=100, color_system=None))
    return out.getvalue()


class _Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
