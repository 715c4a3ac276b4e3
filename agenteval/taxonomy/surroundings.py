"""Failure classes of what is put around a command: redirects, wrappers, variables, shells."""

import re

from agenteval.core.policy.mismatch import PREFIXES, Part
from agenteval.core.shell.facts import RedirectKind
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import is_shell
from agenteval.core.shell.simple_command import RESERVED
from agenteval.taxonomy.denied import ALONE, DeniedCall, redirected
from agenteval.taxonomy.failure_class import ArticleRow, Seen, failure_class


@failure_class(
    bad=[
        "uv run scripts/notes.py list 2>&1",
        "uv run scripts/notes.py list 2>/dev/null",
        "uv run scripts/notes.py list &> out.txt",
    ],
    good=["uv run scripts/notes.py add '2>&1'", "uv run scripts/notes.py add 2"],
    cure=ALONE + "; its errors are shown to you anyway.",
    seen_in=[RedirectKind.STDERR],
    slip="{} 2>&1",
    article=ArticleRow.STDERR,
)
def stderr_redirect(call: DeniedCall) -> Seen | None:
    """Error output moved or thrown away.

    Errors are what tells the agent how to go on. They are already part of each result.
    """
    return redirected(call, RedirectKind.STDERR)


@failure_class(
    bad=[
        "uv run scripts/notes.py list > notes.txt",
        "uv run scripts/notes.py list >> notes.txt",
        "uv run scripts/notes.py add - < notes.txt",
        "uv run scripts/notes.py list <>notes.txt",
        "exec 3<>notes.txt",
    ],
    good=[
        "uv run scripts/notes.py search 'a > b'",
        "uv run scripts/db_query.py --sql 'select 1<2'",
    ],
    cure=ALONE + " and read its output.",
    seen_in=[RedirectKind.FILE, RedirectKind.INPUT],
    slip="{} > out.txt",
)
def file_redirect(call: DeniedCall) -> Seen | None:
    """Input or output redirected from or to a file.

    It reads or writes a path that the rules for reading and writing never saw.
    """
    seen = redirected(call, RedirectKind.FILE, RedirectKind.INPUT)
    is_input = seen is not None and _INPUT.match(seen.span.text)
    return seen._replace(hint="no file may be fed to a command") if seen and is_input else seen


_INPUT = re.compile(r"[0-9]*<(?!>)")


@failure_class(
    bad=["timeout 60 uv run scripts/notes.py list", "env FOO=1 uv run scripts/notes.py list"],
    good=["uv run scripts/notes.py add 'timeout 60 x'", "uv run scripts/notes.py show timeout"],
    cure="Run `{alone}` without anything before it.",
    seen_in=["wrapped"],
    slip="timeout 30 {}",
    article=ArticleRow.TIMEOUT,
)
def wrapper_prefix(call: DeniedCall) -> Seen | None:
    """A command started through another one: timeout, env, nice, nohup, sudo and the like.

    The rule is for the command, and what stands before it changes how it runs.
    """
    outer = None
    for part in call.parts:
        if not part.via:
            outer = part
        elif outer and PREFIXES.issuperset(part.via) and not _may_wrap(outer):
            hint = "a time limit is already kept" if "timeout" in part.via else ""
            return Seen(call.span(outer.words.extent[0], part.words.extent[0]), hint)
    return None


def _may_wrap(outer: Part) -> bool:
    """Return True if a rule lets the wrapper stand there; bash's own `time` is never read."""
    return outer.admitted and outer.program not in RESERVED


@failure_class(
    bad=["LIMIT=5 uv run scripts/notes.py list", "Q='select 1'"],
    good=["uv run scripts/notes.py add LIMIT=5", "uv run scripts/notes.py add 'A=1 b'"],
    cure="Run `{alone}` without setting variables; give values as arguments.",
    construct=Construct.ENV_ASSIGNMENT,
    seen_in=["assignments"],
    slip="LIMIT=5 {}",
)
def env_assignment(call: DeniedCall) -> Seen | None:
    """A variable set before a command, or alone.

    Variables such as PATH change what a listed command does, and none outlives the call.
    """
    spans = call.shell.assignments
    env = call.policy.bash.env
    closed = [span for span in spans if span.text.partition("=")[0].removesuffix("+") not in env]
    if closed:
        hint = f"only {', '.join(sorted(env))} may be set" if env else ""
        return Seen(closed[0], hint, despite=True)
    for command in call.shell.commands:
        if command.assignments and not command.words:
            return Seen(command.assignments[0], despite=True)
    return Seen(spans[0]) if spans else None


@failure_class(
    bad=[
        "bash -c 'uv run scripts/notes.py list'",
        "eval 'uv run scripts/notes.py list'",
        "bash --norc -l -c ls",
        "bash -euo pipefail -c 'git status'",
        "uv run bash +O extglob --rcfile x -c ls",
    ],
    good=["uv run scripts/notes.py add \"bash -c 'x'\"", "uv run scripts/notes.py show eval"],
    cure="Run `{alone}` itself: it already runs in bash.",
    seen_in=["code"],
    slip="bash -c '{quoted}'",
)
def nested_shell(call: DeniedCall) -> Seen | None:
    """A shell started inside the shell: bash -c, sh -c, eval.

    The text inside is shell again, behind one more layer of quotes.
    """
    for part in call.parts:
        if (part.code and is_shell(part.argv)) or part.program == "eval":
            return Seen(call.words(part))
    return None


@failure_class(
    bad=[
        'uv run python -c "print(1)"',
        "python3 -c 'import json'",
        "perl -ne 'print' notes/2026-01-12.md",
    ],
    good=["uv run scripts/notes.py add 'python -c x'", "uv run scripts/echo.py -c 'print(1)'"],
    cure="Code of your own may not run.",
    seen_in=["code"],
    slip="python3 -c 'import sqlite3; print(sqlite3.sqlite_version)'",
    article=ArticleRow.CODE,
)
def inline_code(call: DeniedCall) -> Seen | None:
    """A program given as an argument: python -c, node -e, perl -e.

    It can do anything, and no rule can read it.
    """
    for part in call.parts:
        if part.code and not is_shell(part.argv):
            return Seen(call.words(part))
    return None
