"""Failure classes of shell structure around a command: pipes, chains, groups and the like."""

from collections.abc import Iterable
from itertools import pairwise

from agenteval.core.shell.draft import embedded_in
from agenteval.core.shell.facts import RedirectKind, SubstitutionKind
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import FILTERS, base_name
from agenteval.core.shell.simple_command import Obstacle
from agenteval.core.shell.words import compiled
from agenteval.core.span import Span, new, outside
from agenteval.taxonomy.denied import ALONE, DeniedCall, fed
from agenteval.taxonomy.failure_class import ArticleRow, Seen, failure_class


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
