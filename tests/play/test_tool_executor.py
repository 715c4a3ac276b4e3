"""One call on its way: read once, judged, and run as it was judged."""

import asyncio
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import pytest

from agenteval.classes import judge
from agenteval.config.allowlists import convert, load_any, policy
from agenteval.config.prompts import arms
from agenteval.play.second_reader import SecondReader
from agenteval.play.trial import ToolExecutor
from agenteval.policy.policy import World
from agenteval.prompt.arm import STRICT
from agenteval.shell.gate import read_simple
from agenteval.shell.leaves import read_leaves
from agenteval.trial.call import FileEdit, ToolCall
from agenteval.trial.trial import CallRecord, Execution, Limits

RULES = """
[bash]
allow = ["echo *", "git *", "ls *"]
constructs = ["pipe"]
"""
POLICY = policy(convert("t", tomllib.loads(RULES)), name="t", where="t")
BASH = ("bash", "--norc", "--noprofile", "-c")
READERS = {read_simple.__code__: "gate", read_leaves.__code__: "splitter"}


class Recording:
    """A sandbox that notes what it is to run."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str]) -> Execution:
        self.ran.append(tuple(argv))
        return Execution(0, "", 0.0)


async def handled(
    *calls: ToolCall, sandbox: Recording, arm=STRICT, rules=POLICY, files=()
) -> CallRecord:
    """The record of the last of these calls."""
    world = World(frozenset(files))
    async with SecondReader(5) as reader:
        executor = ToolExecutor(
            arm, rules, world, sandbox, judge, reader, Limits(), asyncio.Semaphore(1)
        )
        return [await executor.handle(0, 0, call) for call in calls][-1]


def bash(text: str) -> ToolCall:
    return ToolCall("", "bash", json.dumps({"command": text}), {"command": text})


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """How often each reader of shell is called meanwhile."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in READERS:
            counts[READERS[frame.f_code]] += 1

    sys.setprofile(note)
    try:
        yield counts
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("text", "argv", "read"),
    [
        ("git log 'a b'", ("git", "log", "a b"), {"gate": 1}),
        ("ls *", (*BASH, "ls *"), {"gate": 1}),
        ("git log | ls x", (*BASH, "git log | ls x"), {"gate": 1, "splitter": 1}),
    ],
)
async def test_an_allowed_command_is_read_once_and_that_reading_runs(text, argv, read) -> None:
    sandbox = Recording()
    with counting() as counts:
        record = await handled(bash(text), sandbox=sandbox)
    assert (sandbox.ran, counts, record.objection) == ([argv], read, "")


async def test_what_the_second_reader_objects_to_does_not_run(monkeypatch) -> None:
    async def objection(*_: object) -> str:
        return "it reads other words"

    monkeypatch.setattr(SecondReader, "objection", objection)
    sandbox = Recording()
    record = await handled(bash("git log"), sandbox=sandbox)
    assert (sandbox.ran, record.verdict.primary.failure_class, record.objection) == (
        [], "ambiguous-shell", "it reads other words")  # fmt: skip


async def test_what_only_another_harness_reads_runs_as_it_runs_there(tmp_path) -> None:
    """OpenCode runs a loop of what it allows: a denial would quote the rule that permits it."""
    sandbox, config = Recording(), tmp_path / "opencode.json"
    config.write_text('{"permission": {"bash": {"*": "deny", "ls *": "allow"}}}')
    rules, loop = load_any(str(config), roots=[]), "for f in a b; do ls $f; done"
    record = await handled(bash(loop), sandbox=sandbox, rules=rules)
    assert (sandbox.ran, record.verdict.allowed, record.objection) == ([(*BASH, loop)], True, "")


def test_a_tool_that_another_harness_offers_beside_is_judged_by_its_rules(tmp_path) -> None:
    config = tmp_path / "opencode.json"
    config.write_text('{"permission": {"*": "deny", "edit": {"*": "deny", "src/*": "allow"}}}')
    rules = load_any(str(config), roots=[]).offering(("bash", "edit", "glob"))
    given = {"path": "src/a.py", "old": "a", "new": "b"}
    asked = [("edit", given), ("edit", given | {"path": "b.py"}), ("edit", {"path": "src/a.py"}),
             ("glob", {"pattern": "*"})]  # fmt: skip
    said = [judge.judge(ToolCall("", name, "", args), rules) for name, args in asked]
    assert [*rules.tools] == ["edit"]
    assert [one.allowed for one in said] == [True, False, False, False]
    assert said[0].runs == FileEdit("src/a.py", "a", "b")
    assert [one.primary.failure_class for one in said[1:]] == [
        "blocked-path", "malformed-arguments", "hallucinated-tool"]  # fmt: skip


async def test_a_tool_that_the_profile_does_not_offer_runs_nothing() -> None:
    sandbox = Recording()
    record = await handled(bash("git log"), sandbox=sandbox, arm=arms()["claude-code"])
    assert (sandbox.ran, record.verdict.findings[0].failure_class, record.reply) == (
        [],
        "hallucinated-tool",
        "<tool_use_error>Error: No such tool available: bash</tool_use_error>",
    )


LIVING = """
[bash]
allow = ["echo *", "ls *"]
constructs = ["pipe", "file-redirect"]
[write]
allow = ["src/**"]
[read]
allow = ["**"]
"""


@pytest.mark.parametrize(
    ("before", "failure_class"),
    [
        ([("write", {"path": "src/check.py", "content": "print(1)"})], "self-written-script"),
        ([("write", {"path": "./src/../src/check.py", "content": ""})], "hallucinated-script"),
        ([("bash", {"command": "echo 'print(1)' | ls > src/check.py"})], "self-written-script"),
        ([("bash", {"command": "echo 'a > src/check.py'"})], "hallucinated-script"),
        ([("write", {"path": "src/other.py", "content": "print(1)"})], "hallucinated-script"),
        ([("write", {"path": "/etc/check.py", "content": "print(1)"})], "hallucinated-script"),
        ([("read", {"path": "src/check.py"})], "hallucinated-script"),
        ([], "hallucinated-script"),
    ],
)
async def test_a_script_that_a_call_wrote_is_known_to_the_next(before, failure_class):
    rules = policy(convert("t", tomllib.loads(LIVING)), name="t", where="t")

    class Files(Recording):
        async def write(self, path: str, content: bytes) -> None:
            pass

        async def read_lines(self, path: str, first: int, count: int | None) -> tuple[bytes, bool]:
            return b"", False

    calls = [ToolCall("", name, json.dumps(values), values) for name, values in before]
    calls.append(bash("python3 src/check.py"))
    record = await handled(*calls, sandbox=Files(), rules=rules, files=["src/a.py"])
    assert record.verdict.findings[0].failure_class == failure_class
