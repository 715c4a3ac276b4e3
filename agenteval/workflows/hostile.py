"""Replies and words as a hostile model or server sends them, given to parser, judge, store, report.

Each must end as data with a name: a malformed call, a denial, the server's fault, or words that are
stored as they came and shown by signs.

Sandboxes and modules as a hostile model leaves them, given to the judges of a sandbox.

Each must end as data with a name: no crash, nothing that hangs, no goal reached by forging, no
secret read. After each of them an honest database must still get its answer.
"""

import asyncio
import io
import json
import re
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Final

from agenteval.classes.judge import judge
from agenteval.config.models import ModelEntry
from agenteval.errors import InfrastructureError
from agenteval.host import temporary_folder
from agenteval.models.failures import RefusedError
from agenteval.models.request import read_reply, request_body, turn_of
from agenteval.models.stream import StreamReader
from agenteval.policy.policy import Policy, ToolRule
from agenteval.protocols import Sandbox, SandboxBackend, TrialKey
from agenteval.replies.arrival import ReplyError
from agenteval.report import console, files, html
from agenteval.report import json as report
from agenteval.report.build import build_view
from agenteval.report.view import View
from agenteval.sandbox.maker import declared
from agenteval.store.sql import SqlStore
from agenteval.testing import Part, denied, run, says, tool, trial
from agenteval.trial.call import BASH, Asked
from agenteval.trial.run import Run
from agenteval.trial.trial import Answers, CallRecord, Limits, Message, Question, Trial, Turn
from agenteval.workflows.cheats import BABBLING, LOOKS, LOOT, cheats


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt: the part that read it, what was given, what came of it, and what had to."""

    part: str
    attempt: str
    came: str
    wanted: str

    @property
    def is_as_wanted(self) -> bool:
        return re.search(self.wanted, self.came) is not None


ROWS = 2  # of the world as it is
TABLE = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)")
FORGED = "CREATE VIEW t AS SELECT * FROM (VALUES (1), (2), (3), (4))"
OTHER = ("CREATE TABLE t (y)", "INSERT INTO t VALUES (1), (2), (3), (4)")
RUNS = "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('x'); END"
ENDLESS = """
CREATE VIEW t AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n
"""
SLOW = (
    "CREATE TABLE s (a, b)",
    """INSERT INTO s VALUES (
        printf('%.*c', 1000000, 'a'), printf('%.*c', 500000, 'a') || 'b')""",
    "CREATE VIEW t AS SELECT a FROM s WHERE instr(a, b) = 0",
)
ALTERED, ADDED, UNREADABLE = "as it was declared", "was not there at first", "cannot be read"
COSTS = "cannot be asked: it took too much"
HONEST, COUNTED = "honest.db", Question("SELECT count(*) FROM t")


def database(*statements: str, views: Mapping[str, str] | None = None) -> bytes:
    """Its file; views are written straight into its schema, where nothing looks at their depth."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA writable_schema = ON")
        rows = [("view", name, name, 0, text) for name, text in (views or {}).items()]
        connection.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
        return connection.serialize()


def chain(length: int) -> Mapping[str, str]:
    """A view of a view of a view ..., the last by the name of the table."""
    views = {"v0": "CREATE VIEW v0 AS SELECT 1 x"}
    for number in range(1, length):
        views[f"v{number}"] = _view(f"v{number}", number - 1)
    return views | {"t": _view("t", length - 1)}


def _view(name: str, of: int) -> str:
    return f"CREATE VIEW {name} AS SELECT * FROM v{of}"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class _Tampering:
    """The image that replaces the trial's database, or the command that damages it.

    `is_declared` is True if the fixture declares such a schema: then only the limits protect.
    """

    expected: str
    image: bytes = b""
    command: str = ""
    is_declared: bool = False


def _tamperings() -> Mapping[str, _Tampering]:
    whole = database(*TABLE)
    page = len(whole) // 2
    return {
        "400 views, one of the other": _Tampering(ALTERED, database(views=chain(400))),
        "5,000 views": _Tampering("more than 500 tables", database(views=chain(5_000))),
        "20,000 views": _Tampering("more than 500 tables", database(views=chain(20_000))),
        "a view in the table's place": _Tampering(ALTERED, database(FORGED)),
        "a view without end": _Tampering(ALTERED, database(ENDLESS)),
        "one instr over megabytes, which the fixture has too": _Tampering(
            COSTS, database(*SLOW), is_declared=True
        ),
        "another table of that name": _Tampering(ALTERED, database(*OTHER)),
        "a trigger": _Tampering(ADDED, database(*TABLE, RUNS)),
        "a virtual table": _Tampering(
            ADDED, database(*TABLE, "CREATE VIRTUAL TABLE f USING fts5(x)")
        ),
        "no table": _Tampering(ALTERED, database("CREATE TABLE u (x)")),
        "a page of broken bytes": _Tampering("malformed", whole[:page] + b"\xff" * page),
        "a file that is cut": _Tampering(UNREADABLE, whole[: page // 2]),
        "a file of words": _Tampering(UNREADABLE, b"SQLite format 4\0 and so on" * 99),
        "a file of zeros": _Tampering(UNREADABLE, command="head -c 60M /dev/zero > world.db"),
        "a FIFO": _Tampering("not a regular file", command="mkfifo world.db"),
        "a folder": _Tampering("Is a directory", command="mkdir world.db"),
        "nothing": _Tampering("No such file", command="true"),
        "a link to /dev/zero": _Tampering("Too many levels", command="ln -s /dev/zero world.db"),
        "a link to the judge's memory": _Tampering(
            "Too many levels", command="ln -s /proc/self/mem world.db"
        ),
        "a log of nonsense beside it": _Tampering(
            f"^{ROWS}$", whole, "head -c 9000 /dev/urandom > world.db-wal"
        ),
    }


async def try_worlds(backend: SandboxBackend) -> list[Tried]:
    """Both judges of a backend: of what the database holds, and of what a module does."""
    return [*await try_judge(backend), *await try_tests(backend)]


async def try_judge(backend: SandboxBackend) -> list[Tried]:
    part = f"judge, {backend.name}"
    async with backend.open({HONEST: database(*TABLE)}, Limits()) as sandbox:
        return [
            Tried(part, name, await _judge_answer(sandbox, tampering), tampering.expected)
            for name, tampering in _tamperings().items()
        ]


async def _judge_answer(sandbox: Sandbox, tampering: _Tampering) -> str:
    """Return the judge's answer for that database, and a wrong one for an honest one after it."""
    try:
        await sandbox.run(["sh", "-c", "rm -rf world.db*"])
        if tampering.image:
            await sandbox.write("world.db", tampering.image)
        if tampering.command:
            await sandbox.run(["sh", "-c", tampering.command])
        schema = declared(tampering.image if tampering.is_declared else database(*TABLE))
        came = _answer_text(await sandbox.ask("world.db", [COUNTED], schema))
        after = _answer_text(await sandbox.ask(HONEST, [COUNTED], declared(database(*TABLE))))
    except InfrastructureError as error:
        return f"our fault: {error}"
    return came if after == str(ROWS) else f"{came}; an honest world then says {after}"


def _answer_text(answers: Answers) -> str:
    return answers.broken or " ".join(one.error or str(one.first) for one in answers.answers)


SUBJECT = "work.py"
PROGRAM: Final = """\
from agenteval_test import call, known
assert call('work.py', 'double', known['number']) == known['right'], 'it is wrong'
"""
GOOD = "def double(number): return 2 * number\n"
FAILS, PASSES = r"\S", "^$"  # a reason is told, or none

HANGING: Mapping[str, tuple[str, str]] = {
    "never answers": ("import time\ndef double(_): time.sleep(600)", "wall-time"),
    "stops who started it": (
        "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\ndef double(_): return 6",
        "wall-time",
    ),
}


def _hostile_modules() -> Mapping[str, tuple[str, str]]:
    """Return the modules that end by themselves, between two that are honest."""
    forging = {how: (text, FAILS) for how, text in cheats({"double"}).items()}
    return {"is honest": (GOOD, PASSES), **forging, **BABBLING, "is honest again": (GOOD, PASSES)}


async def try_tests(backend: SandboxBackend) -> list[Tried]:
    part = f"tests, {backend.name}"
    short = replace(Limits(), call_seconds=1.0)
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(_tested(part, backend, _hostile_modules(), Limits()))
        hung = group.create_task(_tested(part, backend, HANGING, short))
        loot = group.create_task(_looked(backend))
    looked = Tried(part, "a module that looks around", loot.result(), PASSES)
    return [*ended.result(), *hung.result(), looked]


async def _tested(
    part: str, backend: SandboxBackend, modules: Mapping[str, tuple[str, str]], limits: Limits
) -> list[Tried]:
    tried = []
    async with backend.open({}, limits) as sandbox:
        for how, (text, wanted) in modules.items():
            came = await _judged(sandbox, text, {"number": 3, "right": 6})
            tried.append(Tried(part, f"a module that {how}", came, wanted))
    return tried


async def _judged(sandbox: Sandbox, text: str, test_variables: Mapping[str, object]) -> str:
    """Return why the program did not pass with this module; empty if it passed."""
    try:
        await sandbox.write(SUBJECT, text.encode())
        ran = await sandbox.judge(PROGRAM, json.dumps(test_variables))
    except InfrastructureError as error:
        return f"our fault: {error}"
    if ran.exit_code == 0:
        return ""
    return ran.limit or ran.output.strip().rpartition("\n")[2] or f"exit code {ran.exit_code}"


async def _looked(backend: SandboxBackend) -> str:
    """Return what a module could read of the test and its variables; it must read something."""
    secret = secrets.token_hex(16)
    async with backend.open({}, Limits()) as sandbox:
        await _judged(sandbox, LOOKS, {"number": 3, "right": secret})
        try:
            loot = await sandbox.read(LOOT)
        except OSError as error:
            return f"it could not look: {error}"
    if b"subject" not in loot and b"serve()" not in loot:
        return "it saw not even itself"
    read = [text for text in (secret, "'it is wrong'") if text.encode() in loot]
    return f"it read {' and '.join(read)}" if read else ""


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
    seen.feed(html.page(build_view([_run(words)])))
    return seen


def _report_result(words: str, plain: "_Elements") -> str:
    legible = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        there = _page(legible)
        view = build_view([_run(legible)])
        json.loads(report.dumps(view))
        printed = _printed(view) + files.markdown_text(view)
    except DEFECTS as error:
        return _defect(error)
    if there.elements != plain.elements:
        return "the page has other elements than one of harmless words"
    hiding = {one for one in there.text + printed if not one.isprintable() and one not in "\n\t"}
    return f"these are not shown: {sorted(hiding)!r}" if hiding else BY_SIGNS[1:-1]


def _printed(view: View) -> str:
    """Return the text that a terminal prints of the view."""
    out = io.StringIO()
    console.render(view, console.Terminal(file=out, width=100, color_system=None))
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
