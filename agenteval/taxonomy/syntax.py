"""Failure classes of text that bash cannot read, or that can be read in two ways."""

import re

from agenteval.core.shell.simple_command import Obstacle
from agenteval.core.span import Span
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.registry import Seen, failure_class

# Where a reader can stop before a bracket that is out of place.
_BRACKET_AT = (Obstacle.EMPTY, Obstacle.HEREDOC, Obstacle.DEPTH, Obstacle.LENGTH)


@failure_class(
    bad=[
        "uv run scripts/notes.py add 'an open quote",
        "uv run scripts/notes.py list )",
        "uv run scripts/notes.py add a)b",
        "uv run scripts/notes.py (list)",
        "uv run scripts/notes.py list <",
        'uv run scripts/notes.py add "a"b"',
        "uv run scripts/notes.py list; fi",
        "uv run scripts/notes.py list;;",
        "uv run scripts/notes.py show <note>",
    ],
    good=['uv run scripts/notes.py add "it\'s ("', "uv run scripts/notes.py add 'a &&'"],
    cure="Close every quote and bracket, and send one whole command.",
    seen_in=["errors", Obstacle.QUOTE, *"();", *_BRACKET_AT],
    slip='{} "',
)
def shell_syntax_error(call: DeniedCall) -> Seen | None:
    """Text that bash cannot parse.

    A quote or bracket stays open, an operator has nothing to join, or a word such as `fi` ends
    what nothing began. Often the JSON around the
    command was escaped once too much or too little.
    """
    if call.shell.errors:
        return _error(call, call.shell.errors[0])
    stop = call.stop
    if stop and (stop.reason is Obstacle.QUOTE or _has_no_meaning(call, stop.start)):
        return Seen(call.span(stop.start, len(call.text)))
    return None


_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>\n|;&()'\"]*+>")
_BEFORE_END = re.compile(r"(?:[|&;<>]++|[^\s|&;<>]++)\s*\Z")


def _error(call: DeniedCall, error: Span) -> Seen:
    """What shows an error: a placeholder around it, and for one at an end what stands before."""
    start, end, text = error
    for found in _PLACEHOLDER.finditer(call.text, max(start - _NEAR, 0), end + _NEAR):
        if found.start() <= end and start <= found.end() and end - start < len(found[0]) + _NEAR:
            hint = f"write a value in place of `{found[0]}`: bash takes < and > for redirects"
            return Seen(call.span(*found.span()), hint)
    if text:
        return Seen(error)
    opened = call.text.rfind("(", 0, end)
    if opened > call.text.rfind(")", 0, end):
        return Seen(call.span(opened, end))
    before = _BEFORE_END.search(call.text[max(end - _NEAR, 0) : end])
    return Seen(call.span(end - len(before[0]), end) if before else call.whole)


_NEAR = 32  # characters


def _has_no_meaning(call: DeniedCall, at: int) -> bool:
    """Whether bash has no use for what stopped a reader: one that knows no `case` or function."""
    text = call.text
    mark = text[at : at + 1]
    if mark == ")":  # of $(<f) it is only the end
        groups = (*(span for _, span in call.shell.substitutions), *call.shell.subshells)
        return all(span.end != at + 1 for span in groups)
    if mark == ";":
        return text.startswith((";;", ";&"), at)
    if mark != "(" or not _BRACKET.match(text, at):
        return False
    before = text[:at].rstrip(" \t")[-1:]
    return bool(before) and before not in _BEFORE_BRACKET


_BEFORE_BRACKET = frozenset("\n|&;(){}=<>$")
_BRACKET = re.compile(r"\((?![ \t]*\))")


@failure_class(
    bad=["uv run scripts/notes.py list\r", "uv run scripts/notes.py show a\vb"],
    good=["uv run scripts/notes.py show 'a\tb'", "uv run scripts/notes.py add 'naïve — 日本'"],
    cure="Write the command in plain printable characters.",
    seen_in=["objection", Obstacle.CONTROL],
    slip="{}\r",
)
def ambiguous_shell(call: DeniedCall) -> Seen | None:
    """Text that two readers of shell read differently.

    A control character or half a surrogate pair counts as a blank here and as part of a word
    there, or a second reader sees other commands than the gate. What has two readings never runs.
    """
    if call.objection:
        return Seen(call.whole, call.objection)
    return Seen(call.span(call.stop.start, call.stop.start + 1)) if call.stop else None
