"""The contents of a piece of shell, as plain data: the facts that explain a denied command.

Facts never allow anything. Offsets are character offsets into the text that was read.
Named tuples: a text has dozens of them, and a frozen dataclass takes three times as long to make.
"""

import posixpath
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from agenteval.core.span import Place, Span

if TYPE_CHECKING:  # the policy knows redirects, and nothing of how words are read
    from agenteval.core.shell.word_list import Words


class RedirectKind(StrEnum):
    STDERR = "stderr"  # anything that moves file descriptor 2: 2>&1, 2>/dev/null, &>f, |&
    FILE = "file"  # writes a file: >, >>, >|, 1>
    INPUT = "input"  # <, <&
    HEREDOC = "heredoc"
    HERESTRING = "herestring"

    @classmethod
    def of(cls, number: str, operator: str, target: str) -> "RedirectKind":
        """The kind of `2> target` and the like."""
        if operator.startswith("<") and operator != "<>" and (number, operator) != ("2", "<&"):
            return cls.INPUT
        both = operator == ">&" and not number and not target.isdigit()
        if number == "2" or operator.startswith("&>") or both:
            return cls.STDERR
        if operator == ">&" and target == "2":
            return cls.STDERR
        return cls.FILE


class SubstitutionKind(StrEnum):
    COMMAND = "command"
    PROCESS = "process"
    ARITHMETIC = "arithmetic"
    PARAMETER = "parameter"


class Redirect(NamedTuple):
    kind: RedirectKind
    span: Span
    target: str = ""


class Heredoc(NamedTuple):
    """A here-document or here-string; `expanded` when bash expands its body."""

    body: Span
    span: Span
    expanded: bool


class Command(NamedTuple):
    """One simple command anywhere in the text.

    `via` names the wrappers it was reached through, outermost first: `timeout 5 bash -c 'rm x'`
    yields commands with via (), ("timeout",) and ("timeout", "bash"). `nested` when it stands
    inside a substitution.
    """

    words: "Words"
    extent: Place
    assignments: tuple[Span, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()
    nested: bool = False

    @property
    def program(self) -> str:
        return self.words.first

    @property
    def argv(self) -> tuple[str, ...]:
        return self.words.argv


class ShellFacts(NamedTuple):
    """The facts that the taxonomy uses of one command text."""

    text: str
    commands: Sequence[Command] = ()
    pipelines: Sequence[Sequence[Command]] = ()  # of two commands or more
    chains: Sequence[Span] = ()  # one for each operator: && || ; newline
    redirects: Sequence[Redirect] = ()
    heredocs: Sequence[Heredoc] = ()
    substitutions: Sequence[tuple[SubstitutionKind, Span]] = ()
    assignments: Sequence[Span] = ()  # X=1 before a command, or alone
    background: Sequence[Span] = ()  # one for each &
    subshells: Sequence[Span] = ()  # ( ... ) and { ...; }
    control: Sequence[Span] = ()  # if, for, while, until, case, select, function, [[ ]], (( ))
    negations: Sequence[Span] = ()  # one for each ! before a command
    errors: Sequence[Span] = ()  # where the text does not parse

    def is_cut(self, place: Place) -> bool:
        """Return True if an error touches the place, so that its true reading is unknown."""
        if not self.errors:
            return False
        start, end = place
        start = len(self.text[:start].rstrip(" \t"))
        end = len(self.text) - len(self.text[end:].lstrip(" \t"))
        return any(one.start <= end and start <= one.end for one in self.errors)

    def is_fed(self, argv: Sequence[str], at: int) -> bool:
        """Return True if the command at `at` reads `-` from a pipe, a file or text given to it."""
        is_fed = self.is_piped(at) or any(each.kind in _FEEDS for each in self.redirects)
        return is_fed and not _STDIN.isdisjoint(argv)

    def is_piped(self, at: int) -> bool:
        """Return True if the command at `at` is behind a pipe, or a file or text is its input."""
        stages = (stage.extent for line in self.pipelines for stage in line[1:])
        own = (each.redirects for each in self.commands if each.extent[0] <= at < each.extent[1])
        return any(start <= at < end for start, end in stages) or any(
            each.kind in _FEEDS for redirects in own for each in redirects
        )

    def folder(
        self, root: str, at: int | None, moves: Sequence[Command], shells: Sequence[Place]
    ) -> str | None:
        """Return the folder of a command that begins at `at`; None if it is unknown.

        `shells` are the commands that run a text in a shell of its own.
        """
        if at is None or len(self.text) > _FOLLOWED:
            return None
        folder, scopes = root, [*shells, *self._own_shells()]
        for move in moves:
            start, end = move.words.extent
            if move.via and start <= at < end:
                return None
            if at <= start or any(a <= start < b <= at for a, b in scopes):
                continue
            if self._is_doubtful(move, at):
                return None
            before, is_or, since = self.text[end:at].rpartition("||")
            if is_or and not _NEXT.search(since):  # it runs where the change failed
                if _JOINT.search(before):
                    return None
                continue
            folder = posixpath.join(folder, move.argv[-1])
        return folder

    def _own_shells(self) -> list[Place]:
        """Return the places that run in a subshell, which a change of folder does not outlive."""
        groups = [span[:2] for span in self.subshells if span.text[:1] == "("]
        groups += [span[:2] for _, span in self.substitutions]
        return groups + [stage.extent for line in self.pipelines for stage in line]

    def _is_doubtful(self, move: Command, at: int) -> bool:
        """Return True if it is unknown whether, or to where, this changes the folder until `at`."""
        start, end = move.words.extent
        if move.words.dynamic or len(move.argv) < 2 or move.argv[-1][:1] in _ELSEWHERE:
            return True
        if self.text[:start].rstrip().endswith(("||", "!")):
            return True
        if any(end <= each.start < at for each in self.background):
            return True
        if move.via and _BEYOND_LISTS.search(self.text[end:at].replace("&&", "")):
            return True  # what a nested shell reads is known by its commands alone
        return any(each.start <= start < each.end for each in self.control)


_FOLLOWED = 4096  # characters of a text whose changes are followed, anew for each path in it
_ELSEWHERE = ("-", "+", "~")
_NEXT, _JOINT = re.compile(r"[;\n]"), re.compile(r"(?<![<>])&(?!>)|[;|\n]")
_BEYOND_LISTS = re.compile(r"[()|&]")
_STDIN = frozenset(("-", "/dev/stdin"))
_FEEDS = frozenset((RedirectKind.INPUT, RedirectKind.HEREDOC, RedirectKind.HERESTRING))
