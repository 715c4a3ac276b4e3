"""Failure classes of the command itself: what it runs, with which words."""

import re

from agenteval.core.policy.mismatch import Miss
from agenteval.core.shell.facts import SubstitutionKind
from agenteval.core.shell.simple_command import LONGEST, Obstacle, length_in_bytes
from agenteval.core.span import inside
from agenteval.taxonomy.denied import DeniedCall, missed
from agenteval.taxonomy.failure_class import ArticleRow, Seen, failure_class

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
    rest = call.text[stop.start :] if stop else ""
    hint = _unclosed(call.text, stop.start) if stop and stop.reason is Obstacle.HEREDOC else ""
    return Seen(call.span(stop.start, len(call.text)) if stop and rest else call.whole, hint)


_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)([\w.-]+)\1")


def _unclosed(text: str, end: int) -> str:
    for found in _HERE_DOCUMENT.finditer(text, 0, end):
        if not re.search(rf"^\t*{re.escape(found[2])}$", text[found.end() :], re.MULTILINE):
            return f"no line is {found[2]} alone, where the here-document would end"
    return ""
