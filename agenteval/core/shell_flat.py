r"""Flat shell text: simple commands of plain words with redirects behind them, joined by operators.

Most of what agents send is no more than that. Regular expressions find in it just what the walk
over the parse tree finds (tests/shell/test_flat.py compares them), in a third of the time; a text
with any other trait is left to the tree.
"""

import re

from agenteval.core.facts import Redirect, RedirectKind
from agenteval.core.shell import program_obstacle, unreadable_text
from agenteval.core.shell_draft import Draft, Gathered
from agenteval.core.shell_source import Source
from agenteval.core.shell_values import word_value

_LONGEST = 2048  # characters: the spans of a flat text never use up its room
_PROGRAM = r"[\w./][\w./+:-]*+(?=[ \t\n|&;]|\Z)"
_PLAIN = r"""(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|"(?:[^"\\$`]++|\\[^\n])*+"|\\[^ \t\n])++"""
_WORD = rf"(?!\#|[0-9]++[<>]){_PLAIN}"
_DIRECTION = r"&>>?|>>|>&(?=[0-9](?:[ \t\n|&;]|\Z))|>\|?|<(?![<&>(])"
_EACH_WORD = re.compile(_PLAIN)
_EACH_REDIRECT = re.compile(rf"([0-9]?)({_DIRECTION})[ \t]*+({_WORD})")
# 1: the words of a command, 2: the redirects behind them, 3: an operator, 4: ends of lines.
_COMMAND = re.compile(
    rf"({_PROGRAM}(?:[ \t]++{_WORD})*+)"
    rf"((?:[ \t]++[0-9]?(?:{_DIRECTION})[ \t]*+{_WORD})*+)[ \t]*+"
    r"(\|\|?(?![|&])|&&?(?![&>])|;(?![;&])|)[ \t]*+((?:\n[ \t]*+)*+)"
)


def read_flat(source: Source) -> Gathered | None:
    """What the walk over the tree would gather from a text; None when it is not flat."""
    text = source.text
    if len(text) > _LONGEST or unreadable_text(text):
        return None
    found = Gathered()
    pipeline: list[Draft] = []
    joint, joint_at = "", 0  # the operator, or the end of a line, before the next command
    at = len(text) - len(text.lstrip(" \t\n"))
    while command := _COMMAND.match(text, at):
        if (draft := _draft(source, command, found)) is None:
            return None
        if joint == "|":
            pipeline.append(draft)
            if len(pipeline) == 2:
                found.pipelines.append(pipeline)
        else:
            pipeline = [draft]
            if joint and joint != "&":
                found.chains.append(source.span(joint_at, joint_at + len(joint)))
        joint, lines = command.group(3, 4)
        joint_at, at = command.start(3), command.end()
        if joint == "&":
            found.background.append(source.span(joint_at, joint_at + 1))
        if lines and joint in ("", "&"):
            joint, joint_at = "\n", text.rindex("\n", joint_at, at)
        elif not joint:
            break
    return found if at == len(text) and joint in ("", ";", "&", "\n") else None


def _draft(source: Source, command: re.Match[str], found: Gathered) -> Draft | None:
    """One command with its redirects; None when it begins as something else does."""
    text = source.text
    start, end = command.span(1)
    draft = Draft(source, start, end, nested=False)
    draft.places = [word.span() for word in _EACH_WORD.finditer(text, start, end)]
    if program_obstacle(text[slice(*draft.places[0])], is_dynamic=False):
        return None
    found.drafts.append(draft)
    for redirect in _EACH_REDIRECT.finditer(text, *command.span(2)):
        number, operator = redirect.group(1, 2)
        target = word_value(text, *redirect.span(3))[0]
        kind = RedirectKind.of(number, operator, target)
        draft.redirects.append(Redirect(kind, source.span(*redirect.span()), target))
    found.redirects += draft.redirects
    return draft
