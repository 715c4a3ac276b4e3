r"""Flat shell text: simple commands of plain words with redirects behind them, joined by operators.

Most of what agents send is no more than that. Regular expressions find in it just what the walk
over the parse tree finds (tests/shell/test_flat.py compares them), in a third of the time; a text
with any other trait is left to the tree.
"""

import re
from collections.abc import Iterator

from agenteval.core.shell.draft import Draft, Gathered
from agenteval.core.shell.facts import Heredoc, Redirect, RedirectKind
from agenteval.core.shell.gate import program_obstacle, unreadable_text
from agenteval.core.shell.source import Source
from agenteval.core.shell.values import word_value

_LONGEST = 16_384  # characters: the spans of a flat text never use up its room
_PROGRAM = r"[\w./][\w./+:-]*+(?=[ \t\n|&;]|\Z)"
_PLAIN = r"""(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|"(?:[^"\\$`]++|\\[^\n])*+"|\\[^ \t\n])++"""
_WORD = rf"(?!\#|[0-9]++[<>]){_PLAIN}"
_DIRECTION = r"&>>?|>>|>&(?=[0-9](?:[ \t\n|&;]|\Z))|>\|?|<(?![<&>(])"
_EACH_WORD = re.compile(_PLAIN)
_EACH_REDIRECT = re.compile(rf"([0-9]?)({_DIRECTION})[ \t]*+({_WORD})")
_REDIRECTS = rf"(?:[ \t]++[0-9]?(?:{_DIRECTION})[ \t]*+{_WORD})*+"
_COMMAND = re.compile(
    rf"(?P<words>{_PROGRAM}(?:[ \t]++{_WORD})*+)(?P<redirects>{_REDIRECTS})"
    r"(?:[ \t]++(?P<heredoc><<[ \t]*+(?P<quote>['\"]?)(?P<delimiter>\w++)(?P=quote))(?=[ \t\n]))?"
    rf"(?P<more>{_REDIRECTS})[ \t]*+(?P<joint>\|\|?(?![|&])|&&?(?![&>])|;(?![;&])|)[ \t]*+"
)
_LINES = re.compile(r"(?:\n[ \t]*+)*+")
_EXPANDS = re.compile(r"[$`\\]")


def read_flat(source: Source) -> Gathered | None:
    """What the walk over the tree would gather from a text; None when it is not flat."""
    text = source.text
    if len(text) > _LONGEST or unreadable_text(text):
        return None
    reader = _Reader(source)
    return reader.found if reader.reads() else None


class _Reader:
    """Reads command by command; `joint` is the operator, or the end of a line, before the next."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.found = Gathered()
        self.at = len(self.text) - len(self.text.lstrip(" \t\n"))
        self.joint = ""
        self.joint_at = 0
        self.pipeline: list[Draft] = []

    def reads(self) -> bool:
        """Whether all of the text is flat; what stands in it is then `found`."""
        while command := _COMMAND.match(self.text, self.at):
            start, end = command.span("words")
            draft = Draft(self.source, start, end, nested=False)
            draft.places = [word.span() for word in _EACH_WORD.finditer(self.text, start, end)]
            if program_obstacle(self.text[slice(*draft.places[0])], is_dynamic=False):
                return False
            self.found.drafts.append(draft)
            self._join(draft)
            self.joint, self.joint_at = command["joint"], command.start("joint")
            self.at = command.end()
            draft.redirects += self._redirects(*command.span("redirects"))
            if command["heredoc"] and not self._heredoc(command, draft):
                return False
            draft.redirects += self._redirects(*command.span("more"))
            self.found.redirects += draft.redirects
            if not self._goes_on():
                break
        return self.at == len(self.text) and self.joint in ("", ";", "&", "\n")

    def _join(self, draft: Draft) -> None:
        if self.joint == "|":
            self.pipeline.append(draft)
            if len(self.pipeline) == 2:
                self.found.pipelines.append(self.pipeline)
            return
        self.pipeline = [draft]
        if self.joint not in ("", "&"):
            span = self.source.span(self.joint_at, self.joint_at + len(self.joint))
            self.found.chains.append(span)

    def _redirects(self, start: int, end: int) -> Iterator[Redirect]:
        for found in _EACH_REDIRECT.finditer(self.text, start, end):
            number, operator = found.group(1, 2)
            target = word_value(self.text, *found.span(3))[0]
            kind = RedirectKind.of(number, operator, target)
            yield Redirect(kind, self.source.span(*found.span()), target)

    def _heredoc(self, command: re.Match[str], draft: Draft) -> bool:
        """Step over a here-document in which nothing is expanded; False for any other."""
        head, delimiter, quoted = command.span("heredoc"), command["delimiter"], command["quote"]
        begin = self.at + 1
        end = f"{self.text}\n".find(f"\n{delimiter}\n", begin) + 1
        expands = not quoted and _EXPANDS.search(self.text, begin, end)
        if not end or expands or not self.text.startswith("\n", self.at):
            return False
        self.joint_at = self.at = end + len(delimiter)
        span = self.source.span(head[0], self.at)
        self.found.heredocs.append(Heredoc(self.source.span(begin, end), span, not quoted))
        draft.redirects.append(Redirect(RedirectKind.HEREDOC, self.source.span(*head), delimiter))
        return True

    def _goes_on(self) -> bool:
        """Step over the ends of lines; whether a next command may follow."""
        if self.joint == "&":
            self.found.background.append(self.source.span(self.joint_at, self.joint_at + 1))
        lines = _LINES.match(self.text, self.at)
        if lines and lines[0] and self.joint in ("", "&"):
            self.joint, self.joint_at = "\n", self.text.rindex("\n", *lines.span())
        self.at = lines.end() if lines else self.at
        return bool(self.joint)
