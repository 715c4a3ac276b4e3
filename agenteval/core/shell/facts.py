"""What stands in a piece of shell, as plain data: the facts that explain a denied command.

Facts never allow anything. Offsets are character offsets into the text that was read.
Named tuples: a text has dozens of them, and a frozen dataclass takes three times as long to make.
"""

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
    """Everything the taxonomy may ask about one command text."""

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
        """Whether an error touches what stands there: who knows what it would be without."""
        if not self.errors:
            return False
        start, end = place
        start = len(self.text[:start].rstrip(" \t"))
        end = len(self.text) - len(self.text[end:].lstrip(" \t"))
        return any(one.start <= end and start <= one.end for one in self.errors)

    def is_fed(self, at: int) -> bool:
        """Whether what begins there may read from a pipe, a file or a text given to it."""
        stages = (stage.extent for line in self.pipelines for stage in line[1:])
        is_piped = any(start <= at < end for start, end in stages)
        return is_piped or any(redirect.kind in _FEEDS for redirect in self.redirects)


_FEEDS = frozenset((RedirectKind.INPUT, RedirectKind.HEREDOC, RedirectKind.HERESTRING))
