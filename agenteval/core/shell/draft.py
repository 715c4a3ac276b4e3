"""What a walk over shell text gathers before it is frozen into `ShellFacts`."""

from agenteval.core.shell.facts import Command, Heredoc, Redirect, ShellFacts, SubstitutionKind
from agenteval.core.shell.source import Source
from agenteval.core.shell.word_list import Words
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
        self.start = start
        self.end = end
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
