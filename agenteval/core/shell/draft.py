"""The parts of shell text that a walk gathers, before they are frozen into `ShellFacts`."""

from collections.abc import Iterator
from typing import NamedTuple

from agenteval.core.shell.facts import Command, Heredoc, Redirect, ShellFacts, SubstitutionKind
from agenteval.core.shell.source import Source
from agenteval.core.shell.word_list import Words
from agenteval.core.shell.words import compiled
from agenteval.core.span import Place, Span


class Draft:
    """One stage of a pipeline: a simple command while it is read, or a compound one's place."""

    __slots__ = (
        "_frozen",
        "_source",
        "assigned",
        "assignments",
        "end",
        "nested",
        "places",
        "redirects",
        "start",
    )

    # It does not know its level, which knows it: a circle would keep the tree until gc runs.
    def __init__(self, source: Source, start: int, end: int, *, nested: bool) -> None:
        self._source = source
        self._frozen: Command | None = None
        self.nested = nested
        self.start, self.end = start, end
        self.places: list[Place] = []  # of its words
        self.assignments: list[Span] = []
        self.assigned = start  # where the last assignment ends
        self.redirects: list[Redirect] = []

    @property
    def is_empty(self) -> bool:
        return not (self.places or self.assignments or self.redirects)

    def freeze(self, via: tuple[str, ...]) -> Command:
        if self._frozen is None:
            self._frozen = Command(
                Words.at(self._source, self.places),
                self._source.place(self.start, self.end),
                tuple(self.assignments),
                tuple(self.redirects),
                via,
                self.nested,
            )
        return self._frozen


class Level:
    """One list of commands: a whole text, a body, the inside of a substitution."""

    __slots__ = ("joint", "joint_at", "nested", "pipeline", "stage")

    def __init__(self, *, nested: bool) -> None:
        self.nested = nested
        self.restart()

    def restart(self) -> None:
        self.joint = ""  # the operator since the last stage
        self.joint_at = 0
        self.stage: Draft | None = None
        self.pipeline: list[Draft] = []


class Gathered:
    """Everything found so far, each kind in source order."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.pipelines: list[list[Draft]] = []
        self.chains: list[Span] = []
        self.redirects: list[Redirect] = []
        self.heredocs: list[Heredoc] = []
        self.substitutions: list[tuple[SubstitutionKind, Span]] = []
        self.assignments: list[Span] = []
        self.background: list[Span] = []
        self.subshells: list[Span] = []
        self.control: list[Span] = []
        self.negations: list[Span] = []
        self.errors: list[Span] = []
        # Places in the whole text of what is more than plain characters to the parser only.
        self.misread: list[Place] = []
        self.is_glued = False  # a here-document's delimiter and the operator behind it
        self.embedded = 0  # substitutions that were parsed by themselves

    def freeze(self, text: str, via: tuple[str, ...]) -> ShellFacts:
        """The facts about the text, without what stands behind wrappers."""
        return ShellFacts(  # by place, which takes half as long as by name
            text,
            [draft.freeze(via) for draft in self.drafts if not draft.is_empty],
            [[draft.freeze(via) for draft in drafts] for drafts in self.pipelines],
            self.chains,
            self.redirects,
            self.heredocs,
            self.substitutions,
            self.assignments,
            self.background,
            self.subshells,
            self.control,
            self.negations,
            self.errors,
        )


_LIVE = compiled(r"\\(?s:.)|\$\(\(|\$\(|\$\{[^}\n]*+\}?|\$[A-Za-z_]\w*+|\$[0-9@*#?$!-]|`")
_IN_CODE = compiled(r"""\\(?s:.)|'[^']*+'|["()]""")
_IN_DOUBLE_QUOTES = compiled(r'\\(?s:.)|"|\$\(')
_BACKTICK_END = compiled(r"(?:[^\\`]++|\\(?s:.))*+`")


class _Embedded(NamedTuple):
    """One expansion, and where the commands inside it stand, if it has any."""

    kind: SubstitutionKind
    start: int
    end: int
    inside: tuple[int, int] | None = None


def embedded_in(text: str, start: int, end: int) -> Iterator[_Embedded]:
    """The expansions in a stretch of text where quotes mean nothing, outermost ones only.

    Ends at the first one that does not end: what follows it is all inside.
    """
    at = start
    while found := _LIVE.search(text, at, end):
        begin, at = found.span()
        opening = found[0]
        if opening == "`":
            closing = _BACKTICK_END.match(text, at, end)
            if closing is None:
                return
            inside = (at, closing.end() - 1)
            at = closing.end()
            yield _Embedded(SubstitutionKind.COMMAND, begin, at, inside)
        elif opening.startswith("$("):
            close = _closing(text, begin + 2, end)
            if close < 0:
                return
            inside, at = (begin + 2, close), close + 1
            if opening == "$((":
                yield _Embedded(SubstitutionKind.ARITHMETIC, begin, at)
            else:
                yield _Embedded(SubstitutionKind.COMMAND, begin, at, inside)
        elif opening[0] == "$":
            yield _Embedded(SubstitutionKind.PARAMETER, begin, at)


def _closing(text: str, at: int, end: int) -> int:
    """Return the offset of the parenthesis that closes the one opened before `at`, or -1."""
    open_marks = ["("]
    while open_marks:
        in_quotes = open_marks[-1] == '"'
        match = (_IN_DOUBLE_QUOTES if in_quotes else _IN_CODE).search(text, at, end)
        if match is None:
            return -1
        at = match.end()
        mark = match[0]
        if mark == ")" or (mark == '"' and in_quotes):
            open_marks.pop()
        elif mark in ('"', "(", "$("):
            open_marks.append("(" if mark != '"' else mark)
    return at - 1
