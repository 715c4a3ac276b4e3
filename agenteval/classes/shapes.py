"""Failure classes of the shell around a command: first what joins it, then what wraps it."""

import re
from collections.abc import Iterable
from itertools import pairwise

from agenteval.classes.failure_class import (
    ALONE,
    ArticleRow,
    DeniedCall,
    Seen,
    failure_class,
    fed,
    redirected,
)
from agenteval.policy.mismatch import PREFIXES, Part
from agenteval.shell.facts import RedirectKind, SubstitutionKind, embedded_in
from agenteval.shell.gate import RESERVED, Obstacle, Span, compiled, new, outside
from agenteval.shell.leaves import Construct
from agenteval.shell.programs import FILTERS, is_shell
from agenteval.shell.wrappers import base_name


@failure_class(
    bad=[
        'uv run scripts/context_cache.py --command set --value "$(cat)" << EOF\nx\nEOF',
        "cat << 'END' | uv run scripts/notes.py add -\nhello\nEND",
        "uv run python <<< 'print(1)'",
        "uv run scripts/notes.py add - <<EOF\nno end",
    ],
    good=["uv run scripts/notes.py add 'cat <<EOF'", "uv run scripts/notes.py add 'two\nlines'"],
    cure=ALONE + " and give the text as a quoted argument; it may span lines.",
    seen_in=[RedirectKind.HEREDOC, RedirectKind.HERESTRING],
    slip="{} << 'EOF'\nIt goes on.\nEOF",
    article=ArticleRow.HEREDOC,
)
def heredoc(call: DeniedCall) -> Seen | None:
    """A here-document or here-string fed to a program.

    The text reaches the command's standard input, past every rule for its arguments. Facets:
    `into-interpreter`, `into-listed` for a listed command, `into-program` for any other.
    """
    return fed(call, to_file=False)


@failure_class(
    bad=[
        "cat > notes/x.md << 'EOF'\nbuy milk\nEOF",
        "tee notes/x.md <<EOF\nbuy milk\nEOF",
        "cat <<EOF | tee -a notes/x.md\nbuy milk\nEOF",
    ],
    good=["uv run scripts/notes.py add 'cat > x <<EOF'"],
    cure=ALONE + "; no command may write a file.",
    seen_in=[RedirectKind.HEREDOC, RedirectKind.HERESTRING],
    slip="cat << 'EOF' > out.txt\nIt goes on.\nEOF",
)
def heredoc_to_file(call: DeniedCall) -> Seen | None:
    """A here-document or here-string put into a file.

    It writes a path that the rules for writing never saw.
    """
    return fed(call, to_file=True)


@failure_class(
    bad=[
        "uv run scripts/notes.py list | head -5",
        "uv run scripts/db_query.py --sql 'select 1' | jq '.[0].id'",
        'ls scripts/ | grep -E "search|web"',
        "uv run scripts/notes.py list 2>&1 | tail -n 20",
    ],
    good=["uv run scripts/notes.py list --limit 5", "uv run scripts/notes.py show 'a | head'"],
    cure=ALONE + " and read its whole output.",
    construct=Construct.PIPE,
    seen_in=["pipelines"],
    slip="{} | head -20",
    article=ArticleRow.FILTERS,
)
def pipe_to_filter(call: DeniedCall) -> Seen | None:
    """Output piped into a text filter.

    Each listed script returns what the task needs; cutting it down loses content the agent should
    have seen. Ask the script for less instead.
    """
    return _pipe(call, to_filter=True)


@failure_class(
    bad=["uv run scripts/notes.py list | uv run scripts/notes.py add -", "yes | rm -i notes"],
    good=["uv run scripts/notes.py search --pattern 'a|b' x"],
    cure=ALONE + "; give what it prints to the next call, as an argument.",
    construct=Construct.PIPE,
    seen_in=["pipelines"],
    slip="{} | xargs echo",
)
def pipe(call: DeniedCall) -> Seen | None:
    """Output piped into another program.

    Two programs run in one call, and the output of the first is never seen.
    """
    return _pipe(call, to_filter=False)


def _pipe(call: DeniedCall, *, to_filter: bool) -> Seen | None:
    """The first pipe outside substitutions that leads to a filter, or to another program."""
    for commands in call.shell.pipelines:
        for before, command in pairwise(commands):
            if (base_name(command.words.first) in FILTERS) is to_filter and not command.nested:
                start, end = command.extent
                bar = call.text.find("|", before.extent[1], start)
                return new(Seen, (call.span(bar if bar >= 0 else start, end), "", (), False))
    return None


@failure_class(
    bad=[
        "cd /workspace && uv run scripts/notes.py list",
        "uv run scripts/notes.py list || true",
        "uv run scripts/notes.py list; echo done",
        "uv run scripts/notes.py list\nuv run scripts/notes.py list --json",
        "uv run scripts/notes.py list ;",
    ],
    good=["uv run scripts/notes.py add 'x && y; z || true'", "uv run scripts/notes.py list\n"],
    cure=ALONE + ", one command a call; every call starts in the workspace.",
    construct=Construct.CHAIN,
    seen_in=["chains", "move", ";"],
    slip="{} || true",
    article=ArticleRow.CHAIN,
)
def shell_chain(call: DeniedCall) -> Seen | None:
    """Several commands in one call, joined by && || ; or a new line.

    Each command needs its own verdict and its own result: a chain hides which part failed.
    Facets: `fallback` for ||, `cd` for a change of folder first, `list` for the rest.
    """
    if call.move:
        return Seen(call.move, facets=("cd",), despite=True)
    outer = call.shell.chains
    if call.shell.substitutions or call.shell.control:
        inner = [span for _, span in call.shell.substitutions]
        outer = outside(outer, [span[:2] for span in (*inner, *call.shell.control)])
    if not outer:
        return _lone_semicolon(call)
    for span in outer:
        if span.text == "||":
            return Seen(span, facets=("fallback",))
    programs = {command.words.first for command in call.shell.commands}
    return Seen(outer[0], facets=("cd" if programs & {"cd", "pushd"} else "list",))


_LAST = compiled(r";(?:[ \t\n]++|(?<=[ \t\n;])#[^\n]*+)*+")


def _lone_semicolon(call: DeniedCall) -> Seen | None:
    """A last `;`, which the facts leave out, as it joins nothing."""
    stop = call.stop
    if stop and stop.reason is Obstacle.OPERATOR and _LAST.fullmatch(call.text, stop.start):
        return Seen(call.span(stop.start, stop.start + 1), facets=("list",))
    return None


@failure_class(
    bad=["diff <(uv run scripts/notes.py list) notes/2026-01-12.md"],
    good=["uv run scripts/notes.py search '<(a)'"],
    cure=ALONE + "; compare what it prints yourself.",
    seen_in=[SubstitutionKind.PROCESS],
    slip="diff <({}) README.md",
)
def process_substitution(call: DeniedCall) -> Seen | None:
    """A command handed over as a file, `<(...)` or `>(...)`.

    The inner command runs out of sight and its output is never seen.
    """
    return _substitution(call, SubstitutionKind.PROCESS)


@failure_class(
    bad=[
        'uv run scripts/notes.py add "$(date)"',
        "uv run scripts/notes.py show `uv run scripts/notes.py list`",
        "uv run scripts/notes.py show ${x:-`date`}",
    ],
    good=["uv run scripts/notes.py add '$(date)'", 'uv run scripts/notes.py add "5 \\$(x)"'],
    cure="Run `{alone}` in a call of its own and write its result out.",
    construct=Construct.COMMAND_SUBSTITUTION,
    seen_in=[SubstitutionKind.COMMAND, SubstitutionKind.PARAMETER, Obstacle.EXPANSION],
    slip='echo "$({})"',
)
def command_substitution(call: DeniedCall) -> Seen | None:
    """A command inside the words of another, $(...) or backticks.

    What the outer command gets is not known before the inner one has run, so no rule can check it.
    """
    stop = call.stop
    seen = _substitution(call, SubstitutionKind.COMMAND) or _in_expansion(call)
    if stop and call.text.startswith("`", stop.start) and (call.policy.bash.constructs or not seen):
        return Seen(call.span(stop.start, stop.start + 1), despite=True)
    return seen


def _in_expansion(call: DeniedCall) -> Seen | None:
    """Backticks in a ${...}, which the parse tree holds as plain characters."""
    for kind, span in call.shell.substitutions:
        if kind is SubstitutionKind.PARAMETER and ("`" in span.text or "(" in span.text):
            inside = embedded_in(span.text, 1, len(span.text))
            if any(inner.kind is SubstitutionKind.COMMAND for inner in inside):
                return Seen(span)
    return None


@failure_class(
    bad=[
        "for n in 1 2 3; do uv run scripts/notes.py show $n; done",
        "if true; then uv run scripts/notes.py list; fi",
        "[[ -f README.md ]]",
        "! uv run scripts/notes.py list",
        "notes() { uv run scripts/notes.py list; }",
    ],
    good=["uv run scripts/notes.py add 'for x in y; do z; done'", "uv run scripts/notes.py add if"],
    cure=ALONE + ", and decide between calls.",
    seen_in=["control", "negations"],
    slip="for n in 1 2; do {}; done",
)
def control_flow(call: DeniedCall) -> Seen | None:
    """A loop, condition, case or function, or a result negated by `!`.

    It runs commands that depend on what happens on the way: the agent should decide that itself,
    from the result of each call.
    """
    seen = _first((*call.shell.control, *call.shell.negations))
    is_loop = seen is not None and _LOOP.match(seen.span.text)
    return seen._replace(hint="make one call for each value") if seen and is_loop else seen


_LOOP = compiled(r"(?:for|select)[ \t]++(?!\(\()")  # for (( )) has no values


@failure_class(
    bad=[
        "uv run scripts/notes.py list &",
        "uv run scripts/report.py & uv run scripts/notes.py list",
        "coproc uv run scripts/notes.py list",
        "coproc NOTES { uv run scripts/notes.py list; }",
    ],
    good=[
        "uv run scripts/notes.py add 'a & b'",
        "uv run scripts/fetch_context.py http://h/a=1\\&b=2",
    ],
    cure=ALONE + " and wait for its result.",
    construct=Construct.BACKGROUND,
    seen_in=["background", Obstacle.RESERVED],
    slip="{} &",
)
def background(call: DeniedCall) -> Seen | None:
    """A command left running in the background.

    Nothing waits for it, and its output and exit code are lost.
    """
    if call.shell.background:
        return Seen(call.shell.background[0])
    stop = call.stop
    if stop and stop.reason is Obstacle.RESERVED and call.text.startswith("coproc", stop.start):
        return Seen(call.span(stop.start, stop.start + len("coproc")))
    return None


@failure_class(
    bad=[
        "(uv run scripts/notes.py list)",
        "{ uv run scripts/notes.py list; }",
        "time { uv run scripts/notes.py list; }",
    ],
    good=["uv run scripts/notes.py add '(a)'", "uv run scripts/notes.py add '{ a; }'"],
    cure=ALONE + ", without brackets around it.",
    construct=Construct.SUBSHELL,
    seen_in=["subshells"],
    slip="({})",
)
def subshell(call: DeniedCall) -> Seen | None:
    """A command in round or curly brackets.

    A group adds nothing to one command but a second way to read it.
    """
    return _first(call.shell.subshells)


def _first(spans: Iterable[Span]) -> Seen | None:
    span = next(iter(spans), None)
    return Seen(span) if span else None


def _substitution(call: DeniedCall, wanted: SubstitutionKind) -> Seen | None:
    return _first(span for kind, span in call.shell.substitutions if kind is wanted)


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
