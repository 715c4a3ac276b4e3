"""Failure classes of the command itself: what a model made up, what it runs, with which words."""

import re

from agenteval.classes.failure_class import ArticleRow, DeniedCall, Seen, failure_class, missed
from agenteval.policy.mismatch import Miss
from agenteval.shell.facts import SubstitutionKind
from agenteval.shell.gate import LONGEST, Obstacle, inside, length_in_bytes


@failure_class(
    bad=["read notes/2026-01-12.md", "write notes/x.md 'buy milk'", "todo 'buy milk'", "read x"],
    good=["uv run scripts/notes.py add 'read notes/2026-01-12.md'"],
    seen_in=["tool"],
    slip="read README.md",
)
def tool_as_command(call: DeniedCall) -> Seen | None:
    """A tool called as if it were a command.

    The tool is there, and bash knows no such program: what it was to do never began.
    """
    for part in call.parts:
        if call.calls_tool(part):
            name = part.program.lower()
            return Seen(call.word(part, 0), f"{name} is a tool: call it by itself")
    return None


@failure_class(
    bad=[
        "python scripts/notes.py list",
        "uv run -q scripts/notes.py list",
        "uv run python scripts/notes.py list",
        "./scripts/notes.py list",
        "uv run scripts/db_query --sql 'select 1'",
        "python3 scripts/notes list",
    ],
    good=["uv run ./scripts/notes.py list", "python3 scripts/report.py"],
    seen_in=[Miss.RUNNER],
)
def wrong_runner(call: DeniedCall) -> Seen | None:
    """A listed script called in another way than the rule for it says.

    Another interpreter, an option before the script, its path alone, or its name without `.py`.
    """
    part, (_, at, hint, _, _) = call.misses[Miss.RUNNER]
    start, _ = part.words.extent
    _, end = part.words.place(at)
    return Seen(call.span(start, end), hint)


@failure_class(
    bad=["uv run notes/check.py", "python3 ./notes/check.py --all"],
    good=["uv run scripts/notes.py add notes/check.py"],
    seen_in=["own"],
    after=["notes/check.py"],
    article=ArticleRow.SCRIPT,
)
def self_written_script(call: DeniedCall) -> Seen | None:
    """A script that the model wrote itself, earlier in this trial.

    It is there, and no rule can know what it does.
    """
    return missed(call, Miss.SCRIPT, fault="was written by you, and is not listed")


@failure_class(
    bad=[
        "uv run scripts/youtube_fetcher.py --limit 5",
        "uv run notes.py list",
        "bash scripts/go.sh",
    ],
    good=[
        "uv run scripts/notes.py list",
        "uv run scripts/notes.py show scripts/youtube_fetcher.py",
    ],
    seen_in=["nowhere"],
    article=ArticleRow.SCRIPT,
)
def hallucinated_script(call: DeniedCall) -> Seen | None:
    """A script that does not exist.

    The model made its name up, or left out its folder. Seen only where the files of the world are
    known; elsewhere such a call is an unlisted script.
    """
    return missed(call, Miss.SCRIPT, fault="does not exist")


@failure_class(
    bad=[
        "uv run scripts/food_management.py list",
        "bash scripts/backup.sh",
        "uv run scripts/../../evil.py",
        "python3 /tmp/x.py",
    ],
    good=["uv run ./scripts/notes.py list", "uv run ../workspace/scripts/notes.py list"],
    seen_in=["there"],
    article=ArticleRow.SCRIPT,
)
def unlisted_script(call: DeniedCall) -> Seen | None:
    """A script that is not on the allow list, though it is, or may be, there.

    Plausible names are no permission: what the script does was never agreed on.
    """
    return missed(call, Miss.SCRIPT)


@failure_class(
    bad=[
        "uv run scripts/opencode_manager.py run --no-agent step_evaluator go",
        "uv run scripts/notes.py list --verbose",
        "uv run scripts/notes.py add x --command search-videos",
    ],
    good=[
        "uv run scripts/opencode_manager.py run --no-attach --agent step_evaluator go",
        "uv run scripts/notes.py list --lim 5",
        "uv run scripts/notes.py add -- --verbose",
    ],
    seen_in=[Miss.OPTION],
)
def hallucinated_flag(call: DeniedCall) -> Seen | None:
    """An option that the script does not have.

    The script is listed and its real options are known; this one was made up.
    """
    return missed(call, Miss.OPTION)


@failure_class(
    bad=["uv run scripts/notes.py lst", "uv run scripts/ralf.py update-stage 1 done"],
    good=["uv run scripts/notes.py list", "uv run scripts/notes.py add lst"],
    seen_in=[Miss.COMMAND],
)
def hallucinated_sub_command(call: DeniedCall) -> Seen | None:
    """A sub-command that the script does not have.

    The script is listed and its real sub-commands are known; this one was made up.
    """
    return missed(call, Miss.COMMAND)


@failure_class(
    bad=[
        "uv run scripts/context_cache.py --command search-videos --key x",
        "uv run scripts/db_query.py --sql 'select 1' --format xml",
        "uv run scripts/ralf.py update-stage-status 1 finished",
    ],
    good=["uv run scripts/context_cache.py --command search --key search-videos"],
    seen_in=[Miss.VALUE],
)
def hallucinated_value(call: DeniedCall) -> Seen | None:
    """A value that is none of those an option or argument takes.

    The values to choose from are known; this plain word was made up beside them.
    """
    return missed(call, Miss.VALUE)


_COMPUTED = (SubstitutionKind.PARAMETER, SubstitutionKind.ARITHMETIC)


@failure_class(
    bad=[
        "uv run scripts/db_query.py",
        "uv run scripts/notes.py list --limit ten",
        "uv run scripts/notes.py add buy milk",
        "uv run scripts/notes.py show $NOTE",
        "uv run scripts/echo.py $HOME",
        "uv run scripts/notes.py add $'a\\nb'",
        'uv run scripts/notes.py add $"x"',
        "uv run scripts/notes.py add a\\",
        "git push",
        "sha256sum data/../.env",
    ],
    good=[
        "uv run scripts/db_query.py --sql='select 1' --format json",
        "uv run scripts/notes.py add 'buy milk'",
        "uv run scripts/notes.py add '$HOME'",
        "sha256sum data/papers.csv data/videos.json",
    ],
    cure="Write every value out, in single quotes: no variables.",
    seen_in=[Miss.WORDS, *_COMPUTED, Obstacle.EXPANSION, Obstacle.BACKSLASH],
    slip="{} $MORE",
)
def bad_arguments(call: DeniedCall) -> Seen | None:
    """A listed command with words that it does not take.

    Something required is missing, a value is of the wrong kind, quotes are missing around a value
    with blanks, or bash would still have to work a word out.
    """
    if call.stop and call.stop.reason is Obstacle.LENGTH:
        return None  # only its head was read: its words are not known
    if seen := missed(call, Miss.WORDS):
        return seen
    spans = [span for kind, span in call.shell.substitutions if kind in _COMPUTED]
    if spans and call.misses:  # what stands in the words of a strange program is not the matter
        may_name = call.policy.bash.may_name
        known = [part.words.extent for part in call.parts if may_name(part.program)]
        spans = inside(spans, known) if known else []
    return Seen(spans[0]) if spans else _unplain(call)


_UNREAD = re.compile(r"\$(?:['\"]|[^\x00-\x7f])|\\\Z")


def _unplain(call: DeniedCall) -> Seen | None:
    """A word of a listed command, to the end of the text, whose quoting no rule can read."""
    if call.stop and call.alone and _UNREAD.match(call.text, call.stop.start):
        return Seen(call.span(call.stop.start, len(call.text)))
    return None


@failure_class(
    bad=[
        "ls -la scripts/",
        "curl -s 'https://example.org/?q=1'",
        "rm -rf notes",
        "context-cache get",
    ],
    good=["git status", "uv run scripts/notes.py search 'ls -la'", "'git' \"status\""],
    seen_in=[Miss.PROGRAM],
    slip="ls -la scripts/",
    article=ArticleRow.BINARY,
)
def bare_binary(call: DeniedCall) -> Seen | None:
    """A program that is not on the allow list.

    Facets say what it could have done: `network`, `destructive` or `read-only`; `no-op` is echo,
    true and the like, which do nothing of their own.
    """
    return missed(call, Miss.PROGRAM)


@failure_class(
    bad=["uv run scripts/echo.py {a,b}"],
    good=["uv run scripts/echo.py '{a,b}'", "uv run scripts/echo.py {a}"],
    cure="Run `{alone}` with every word written out in plain or single-quoted text.",
    rest=True,
)
def other_shell(call: DeniedCall) -> Seen | None:
    """Any other text that is not one listed command.

    No class before this one explains it. What the gate can't read in one way only is denied.
    """
    stop = call.stop
    if call.call.command is None:
        return Seen(call.whole, f"no rule allows this call of {call.call.name}")
    if stop and stop.reason is Obstacle.LENGTH:
        length = length_in_bytes(call.text)
        return Seen(call.whole, f"{length} bytes of text; bash takes at most {LONGEST}")
    start = stop.start if stop else len(call.text)
    is_heredoc = stop is not None and stop.reason is Obstacle.HEREDOC
    hint = _unclosed(call.text, start) if is_heredoc else ""
    rest = call.span(start, len(call.text))
    return Seen(rest if rest.text else call.whole, hint)


_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)([\w.-]+)\1")


def _unclosed(text: str, end: int) -> str:
    for found in _HERE_DOCUMENT.finditer(text, 0, end):
        if not re.search(rf"^\t*{re.escape(found[2])}$", text[found.end() :], re.MULTILINE):
            return f"no line is {found[2]} alone, where the here-document would end"
    return ""
