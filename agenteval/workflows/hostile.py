"""Replies, words, databases and modules of a hostile model, given to the parts that read them.

`try_texts`: replies and words, given to parser, judge, store and report. Each must end as data with
a name: a malformed call, a denial, the server's fault, or words that are stored as they came and
shown by signs.

`try_worlds`: databases and modules as a model leaves them, given to the judges of a sandbox. Each
must end as data with a name: no crash, nothing that hangs, no goal reached by forging, no secret
read. After each of them an honest database must still get its answer.

hostile.toml lists what is given.
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
from functools import cache
from html.parser import HTMLParser
from typing import Any, Final

from agenteval.classes.judge import judge
from agenteval.config.models import ModelEntry
from agenteval.errors import InfrastructureError
from agenteval.host import temporary_folder
from agenteval.lazily import read_table
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
from agenteval.workflows.cheats import LOOKS, LOOT, cheats


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


@cache
def _battery() -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of hostile.toml, with their repetitions written out."""
    battery: Mapping[str, Any] = repeated(read_table("agenteval.workflows", "hostile.toml"))
    return battery


_REPEATED = re.compile(r"<<(.+?)\|(\d+)>>", re.DOTALL)


def repeated(value: Any) -> Any:
    """Write out <<X|N>>, N times X, in all texts of a value that TOML can hold."""
    if isinstance(value, str):
        return _REPEATED.sub(lambda match: match[1] * int(match[2]), value)
    if isinstance(value, list):
        return [repeated(item) for item in value]
    if isinstance(value, dict):
        return {key: repeated(item) for key, item in value.items()}
    return value


# The judges of a sandbox: databases.

ROWS = 2  # of the database as the fixture has it
TABLE = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)")
HONEST, COUNTED = "honest.db", Question("SELECT count(*) FROM t")


def database(*statements: str, views: Mapping[str, str] | None = None) -> bytes:
    """Return the file of a database.

    Views are written straight into its schema, where nothing looks at their depth.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA writable_schema = ON")
        rows = [("view", name, name, 0, text) for name, text in (views or {}).items()]
        connection.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
        return connection.serialize()


def chain(length: int) -> Mapping[str, str]:
    """Return the views of a view of a view ..., the last by the name of the table."""
    views = {"v0": "CREATE VIEW v0 AS SELECT 1 x"}
    for number in range(1, length):
        views[f"v{number}"] = _view(f"v{number}", number - 1)
    return views | {"t": _view("t", length - 1)}


def _view(name: str, of: int) -> str:
    return f"CREATE VIEW {name} AS SELECT * FROM v{of}"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class _Tampering:
    """The file in place of the trial's database, and the command that then damages it."""

    expected: str
    sql: Sequence[str] = ()
    views: int = 0
    text: str = ""
    image: str = ""
    command: str = ""
    is_declared: bool = False  # the fixture declares the same schema: only the limits protect

    @property
    def content(self) -> bytes:
        """The bytes of the file; empty where only the command makes one."""
        if self.sql or self.views:
            return database(*self.sql, views=chain(self.views) if self.views else None)
        whole = database(*TABLE)
        half = len(whole) // 2
        images = {
            "whole": whole,
            "cut": whole[: half // 2],
            "broken page": whole[:half] + b"\xff" * half,
        }
        return images.get(self.image, self.text.encode())


async def try_worlds(backend: SandboxBackend) -> list[Tried]:
    """Try both judges of a backend: of what the database holds, and of what a module does."""
    return [*await _try_judge(backend), *await _try_tests(backend)]


async def _try_judge(backend: SandboxBackend) -> list[Tried]:
    part = f"judge, {backend.name}"
    attempts = []
    async with backend.open({HONEST: database(*TABLE)}, Limits()) as sandbox:
        for name, case in _battery()["databases"].items():
            tampering = _Tampering(**case)
            came = await _judge_answer(sandbox, tampering)
            attempts.append(Tried(part, name, came, tampering.expected))
    return attempts


async def _judge_answer(sandbox: Sandbox, tampering: _Tampering) -> str:
    """Return the judge's answer for that database, and a wrong one for an honest one after it."""
    honest_schema, content = declared(database(*TABLE)), tampering.content
    try:
        # The case before may have left a journal, a folder or a link of this name.
        await sandbox.run(["sh", "-c", "rm -rf world.db*"])
        if content:
            await sandbox.write("world.db", content)
        if tampering.command:
            await sandbox.run(["sh", "-c", tampering.command])
        schema = declared(content) if tampering.is_declared else honest_schema
        came = _answer_text(await sandbox.ask("world.db", [COUNTED], schema))
        after = _answer_text(await sandbox.ask(HONEST, [COUNTED], honest_schema))
    except InfrastructureError as error:
        return f"our fault: {error}"
    return came if after == str(ROWS) else f"{came}; an honest world then says {after}"


def _answer_text(answers: Answers) -> str:
    texts = [answer.error or str(answer.first) for answer in answers.answers]
    return answers.broken or " ".join(texts)


# The judges of a sandbox: modules.

SUBJECT = "work.py"
PROGRAM: Final = """\
from agenteval_test import call, known
assert call('work.py', 'double', known['number']) == known['right'], 'it is wrong'
"""
GOOD = "def double(number): return 2 * number\n"
FAILS, PASSES = r"\S", "^$"  # a reason is told, or none


@dataclass(frozen=True, slots=True)
class _Module:
    """A module, and the pattern of why the test must fail with it."""

    text: str
    expected: str = FAILS
    is_hanging: bool = False


def _modules() -> tuple[Mapping[str, _Module], Mapping[str, _Module]]:
    """Return the modules that end by themselves, between two that are honest, and the others."""
    honest = _Module(GOOD, PASSES)
    ending = {"is honest": honest}
    hanging: dict[str, _Module] = {}
    for how, text in cheats({"double"}).items():
        ending[how] = _Module(text)
    for how, case in _battery()["modules"].items():
        module = _Module(**case)
        (hanging if module.is_hanging else ending)[how] = module
    return ending | {"is honest again": honest}, hanging


async def _try_tests(backend: SandboxBackend) -> list[Tried]:
    part = f"tests, {backend.name}"
    ending, hanging = _modules()
    short = replace(Limits(), call_seconds=1.0)
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(_tested(part, backend, ending, Limits()))
        hung = group.create_task(_tested(part, backend, hanging, short))
        loot = group.create_task(_looked(backend))
    looked = Tried(part, "a module that looks around", loot.result(), PASSES)
    return [*ended.result(), *hung.result(), looked]


async def _tested(
    part: str,
    backend: SandboxBackend,
    modules: Mapping[str, _Module],
    limits: Limits,
) -> list[Tried]:
    attempts = []
    async with backend.open({}, limits) as sandbox:
        for how, module in modules.items():
            came = await _judged(sandbox, module.text, {"number": 3, "right": 6})
            attempts.append(Tried(part, f"a module that {how}", came, module.expected))
    return attempts


async def _judged(
    sandbox: Sandbox,
    text: str,
    test_variables: Mapping[str, object],
) -> str:
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


# Parser, judge and the next request: replies.

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
SCHEMAS = {BASH: COMMAND | {"required": ["command"]}}
POLICY = Policy("none is allowed", tools={BASH: ToolRule(BASH)})
ENTRY = ModelEntry(base_url="http://127.0.0.1/v1", model="m")
# What no part may let through as an exception: a defect of ours, then.
DEFECTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
FAULT = "the server's fault: "


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply of a server, as hostile.toml writes it down."""

    expected: str
    body: str = ""
    events: Sequence[str] = ()
    tool: str = BASH
    arguments: str = ""
    command: str = ""
    replace: Sequence[str] = ("", "")

    @property
    def content(self) -> bytes:
        text = self.body + "".join(f"data: {event}\n\n" for event in self.events)
        if not text:
            arguments = self.arguments or json.dumps({"command": self.command})
            text = call(arguments, self.tool)
        before, after = self.replace
        return text.replace(before, after, 1).encode("latin-1")


def call(arguments: str, name: str = BASH) -> str:
    """Return a whole reply with one call, its argument text written as it is into the JSON."""
    quoted = arguments.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '{"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [{"id": "c",'
        f' "function": {{"name": {json.dumps(name)}, "arguments": "{quoted}"}}}}]}}}}]}}'
    )


def try_texts() -> list[Tried]:
    return [*_try_parser(), *_try_store(), *_try_report()]


def _try_parser() -> list[Tried]:
    attempts = []
    for name, case in _battery()["replies"].items():
        reply = _Reply(**case)
        attempts.append(Tried("parser", name, _read(reply.content), reply.expected))
    return attempts


def _read(body: bytes) -> str:
    """Return how a reply was judged: all its calls are judged, and the next request is written."""
    try:
        turn = _turn(body)
        verdicts = [judge(call, POLICY) for call in turn.calls]
        results = [Message("tool", "denied", call_id=call.id) for call in turn.calls]
        messages = [Message("user", "go on"), Message("assistant", turn.text, turn.calls), *results]
        json.loads(request_body(ENTRY, messages, (), 1).decode())
    except (ReplyError, RefusedError) as error:
        return f"{FAULT}{error}"
    except DEFECTS as error:
        return _defect(error)
    if any(verdict.allowed for verdict in verdicts) or not verdicts:
        return "a call is allowed, or lost"
    kinds = sorted({f"{malformed.kind} ({malformed.blame})" for malformed in turn.malformed})
    return f"denied{': ' if kinds else ''}{', '.join(kinds)}"


def _turn(body: bytes) -> Turn:
    if body.startswith(b"data:"):
        reader = StreamReader()
        reader.feed(body, 0.0)
        received, usage = reader.received()
    else:
        received, usage = read_reply(body)
    return turn_of(
        received,
        Asked(SCHEMAS),
        usage=usage,
        raw=body.decode("latin-1"),
        seconds=1.0,
    )


def _defect(error: Exception) -> str:
    return f"a defect of ours: {type(error).__name__}: {str(error)[:200]}"


# Store and report: words.

AS_IT_CAME, BY_SIGNS = "it came back as it was", "it is shown, and does nothing"


def _words(*kinds: str) -> Mapping[str, str]:
    # TOML has no half of a character, which a model's JSON may hold.
    words = {name: text for kind in kinds for name, text in _battery()["words"][kind].items()}
    return {name: text.replace("HALF", "\ud83d") for name, text in words.items()}


def _try_store() -> list[Tried]:
    """Write each text as the calls of a run are, and read it again."""
    attempts = []
    with (
        temporary_folder() as folder,
        closing(SqlStore(str(folder / "inbound.db"))) as store,
    ):
        for at, (name, text) in enumerate(_words("hiding", "stored").items()):
            attempts.append(Tried("store", name, _store_result(store, at, text), f"^{AS_IT_CAME}$"))
    return attempts


def _store_result(
    store: SqlStore,
    number: int,
    words: str,
) -> str:
    arguments = json.dumps({"command": words})
    calls = '"tool_calls": ['
    reply = call(arguments).replace(calls, f'"content": {json.dumps(words)}, {calls}')
    try:
        turn = _turn(reply.encode("latin-1"))
        records = [
            CallRecord(0, at, tool_call, judge(tool_call, POLICY), turn.text)
            for at, tool_call in enumerate(turn.calls)
        ]
        played = replace(
            trial(),
            number=number,
            turns=(turn,),
            calls=tuple(records),
        )
        back = _stored(store, f"inbound-{number}", played)
    except DEFECTS as error:
        return _defect(error)
    content = [(stored.turns, stored.calls) for stored in back]
    if content == [((turn,), played.calls)]:
        return AS_IT_CAME
    return f"another came back: {str(back)[:200]}"


def _stored(
    store: SqlStore,
    name: str,
    played: Trial,
) -> Sequence[Trial]:
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


def _try_report() -> list[Tried]:
    plain = _page("harmless")
    attempts = []
    for name, words in _words("hiding", "shown").items():
        came = _report_result(words, plain)
        attempts.append(Tried("report", name, came, f"^{BY_SIGNS}$"))
    return attempts


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
    page = _Elements()
    page.feed(html.page(build_view([_run(words)])))
    return page


def _report_result(words: str, plain: "_Elements") -> str:
    # A store replaces halves of characters before a report reads them.
    legible = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        page = _page(legible)
        view = build_view([_run(legible)])
        json.loads(report.dumps(view))
        printed = _printed(view) + files.markdown_text(view)
    except DEFECTS as error:
        return _defect(error)
    if page.elements != plain.elements:
        return "the page has other elements than one of harmless words"
    characters = {*page.text, *printed} - {"\n", "\t"}
    hiding = [character for character in sorted(characters) if not character.isprintable()]
    return f"these are not shown: {hiding!r}" if hiding else BY_SIGNS


def _printed(view: View) -> str:
    """Return the text that a terminal prints of the view."""
    out = io.StringIO()
    console.render(
        view,
        console.Terminal(file=out, width=100, color_system=None),
    )
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
