"""The contents of a piece of shell, as plain data: the facts that explain a denied command.

Facts never allow anything. Offsets are character offsets into the text that was read.
Named tuples: a text has dozens of them, and a frozen dataclass takes three times as long to make.

In order: `ShellFacts` and its parts; `Source`, a text that is read for them; here-documents in
other words; `Words`, the words of one command, read on demand; what a walk gathers before it is
frozen; expansions in text that a tree holds as plain characters.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, overload

from agenteval.shell.gate import PLAIN_WORD, Place, Span, Word, compiled, new, word_value

if TYPE_CHECKING:
    from tree_sitter import Node


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
        # An error just before or behind it, blanks apart, touches it too.
        start = len(self.text[:start].rstrip(" \t"))
        end = len(self.text) - len(self.text[end:].lstrip(" \t"))
        return any(one.start <= end and start <= one.end for one in self.errors)

    def is_fed(self, argv: Sequence[str], at: int) -> bool:
        """Return True if the command at `at` reads `-` from a pipe, a file or text given to it."""
        if _STDIN.isdisjoint(argv):
            return False
        return self.is_piped(at) or _feed(self.redirects)

    def is_piped(self, at: int) -> bool:
        """Return True if the command at `at` is behind a pipe, or a file or text is its input."""
        behind = [stage.extent for pipeline in self.pipelines for stage in pipeline[1:]]
        if any(_holds(extent, at) for extent in behind):
            return True
        return any(_holds(each.extent, at) and _feed(each.redirects) for each in self.commands)

    def folder(
        self,
        root: str,
        at: int | None,
        moves: Sequence[Command],
        shells: Sequence[Place],
    ) -> str | None:
        """Return the folder of a command that begins at `at`; None if it is unknown.

        `shells` are the commands that run a text in a shell of its own.
        """
        if at is None or len(self.text) > _FOLLOWED:
            return None
        folder = root
        scopes = [*shells, *self._own_shells()]
        for move in moves:
            start, end = move.words.extent
            if move.via and _holds((start, end), at):
                return None
            if at <= start or any(_holds(scope, start) and scope[1] <= at for scope in scopes):
                continue
            if self._is_doubtful(move, at):
                return None
            before, is_or, since = self.text[end:at].rpartition("||")
            # `cd x || a; b`: a runs where the change failed, b wherever that left it.
            runs_if_it_failed = is_or and not _NEXT.search(since)
            if runs_if_it_failed and _JOINT.search(before):
                return None
            if not runs_if_it_failed:
                folder = posixpath.join(folder, move.argv[-1])
        return folder

    def _own_shells(self) -> list[Place]:
        """Return the places that run in a subshell, which a change of folder does not outlive."""
        places = [span[:2] for span in self.subshells if span.text[:1] == "("]
        places += [span[:2] for _, span in self.substitutions]
        for pipeline in self.pipelines:
            places += [stage.extent for stage in pipeline]
        return places

    def _is_doubtful(self, move: Command, at: int) -> bool:
        """Return True if it is unknown whether, or to where, this changes the folder until `at`."""
        start, end = move.words.extent
        if move.words.dynamic or len(move.argv) < 2 or move.argv[-1][:1] in _ELSEWHERE:
            return True
        if self.text[:start].rstrip().endswith(("||", "!")):
            return True
        if any(end <= span.start < at for span in self.background):
            return True
        if move.via and _BEYOND_LISTS.search(self.text[end:at].replace("&&", "")):
            return True  # what a nested shell reads is known by its commands alone
        return any(_holds(span[:2], start) for span in self.control)


def _holds(place: Place, at: int) -> bool:
    return place[0] <= at < place[1]


def _feed(redirects: Sequence[Redirect]) -> bool:
    return any(redirect.kind in _FEEDS for redirect in redirects)


_FOLLOWED = 4096  # characters of a text whose changes are followed, anew for each path in it
_ELSEWHERE = ("-", "+", "~")
_NEXT = re.compile(r"[;\n]")
_JOINT = re.compile(r"(?<![<>])&(?!>)|[;|\n]")
_BEYOND_LISTS = re.compile(r"[()|&]")
_STDIN = frozenset(("-", "/dev/stdin"))
_FEEDS = frozenset((RedirectKind.INPUT, RedirectKind.HEREDOC, RedirectKind.HERESTRING))

# A text that is read for its facts.

COST = 16  # of a span, beside its text
_BUDGET = 30_000 * COST
_HEREDOC = re.compile(
    r"(?<!<)<<(-?)([ \t]*+)(?:(['\"])([^'\"\n\\$`]*+)\3|\\?+([^\s;&|()<>'\"\\$`]++))"
    r"(?=[\s;&|()<>]|\Z)"
)


class Source:
    """A text, and its parse tree, which is made on demand.

    A node's `byte_range` is its place in this text, in characters.

    Spans hold text, and spans inside each other would hold a square of it: each costs `budget`, and
    readers of a source stop when it is used up. `is_cut` is true if the text was parsed in pieces,
    or only its head was: what seems an error may then be none.

    The text may be a piece of a longer one: `base` is then its place there, or `stand_in` the one
    span of the longer text that every part of the piece is shown as. `parsed_as` is the same text
    in words that the parser gets right, each in its place.
    """

    __slots__ = ("_parsed", "base", "budget", "parsed_as", "stand_in", "text")

    def __init__(
        self,
        text: str,
        base: int = 0,
        stand_in: Span | None = None,
        parsed_as: str = "",
    ) -> None:
        self.text = text
        self.parsed_as = parsed_as or text
        self.budget = _BUDGET + 8 * len(text)
        self._parsed: tuple[list[Node], bool] | None = None
        self.base = base
        self.stand_in = stand_in

    @property
    def roots(self) -> "Sequence[Node]":
        """The nodes that cover the text: the root of its tree, or statements from several."""
        return self._parse()[0]

    @property
    def is_cut(self) -> bool:
        return self._parse()[1]

    def _parse(self) -> "tuple[list[Node], bool]":
        if self._parsed is None:
            from agenteval.shell.tree import parse  # noqa: PLC0415 -- start-up: most need no tree

            self._parsed = parse(self.parsed_as)
        return self._parsed

    def place(self, start: int, end: int) -> Place:
        """Return the place of a part of this text in the whole."""
        if self.stand_in is not None:
            return self.stand_in[:2]
        return start + self.base, end + self.base

    def span(self, start: int, end: int) -> Span:
        """A part of this text, as a part of the whole."""
        self.budget -= end - start + COST
        if self.stand_in is not None:
            return self.stand_in
        return new(Span, (start + self.base, end + self.base, self.text[start:end]))

    def text_of(self, node: "Node") -> str:
        start, end = node.byte_range
        return self.text[start:end]

    def nodes(self) -> "Iterator[Node]":
        """Yield every node of its tree in the order of the text, each before those in it."""
        stack = [*reversed(self.roots)]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def part(self, start: int, end: int) -> "Source":
        """A stretch of this text, read again by itself."""
        return Source(self.text[start:end], self.base + start, self.stand_in)


# Here-documents, which the parse tree often gets wrong, in other words.


class Hidden(NamedTuple):
    """A here-document that was put in other words, and its body."""

    start: int
    body: Place
    expanded: bool


def without_heredocs(text: str) -> tuple[str, list[Hidden]]:
    """Replace each here-document with input from a file, and its contents with blanks."""
    hidden: list[Hidden] = []
    at = end = 0
    line = -1
    while match := _HEREDOC.search(text, at):
        head, at = match.span()
        text = _with_other_part(text, (head, at), "<".ljust(at - head, "_"))
        begin = text.find("\n", at)
        if begin < 0:
            continue
        if begin == line:
            begin = end  # behind the body of the one before it on this line
        else:
            line = begin
        delimiter = match[4] or match[5] or ""
        tabs = r"\t*" if match[1] else ""
        last = re.compile(rf"\n{tabs}{re.escape(delimiter)}(?=\n|\Z)").search(text, begin)
        body_end = end = len(text)
        if last:
            body_end, end = last.start() + 1, last.end()
        start = begin + 1
        is_quoted = delimiter != match[0].lstrip("<- \t")
        hidden.append(Hidden(head, (start, max(body_end, start)), not is_quoted))
        text = _with_other_part(text, (start, end), " " * (end - start))
    return text, hidden


def _with_other_part(text: str, place: Place, part: str) -> str:
    return text[: place[0]] + part + text[place[1] :]


# The words of one command.

_SPECIAL = frozenset("'\"\\$`*?[{~<>")  # a word without these is what it says


class Words(Sequence[Word]):
    """The words of a command, read on demand.

    `first` is there at once, and so is where they begin and end. `argv` and `places` (in the whole
    text) are there without making a `Word` of each. Without `own_places`, which are in the source,
    the words are plain ones, and their places are computed on demand.
    """

    __slots__ = (
        "_argv",
        "_dynamic",
        "_end",
        "_own_places",
        "_quoted",
        "_source",
        "_start",
        "first",
    )

    def __init__(
        self,
        source: Source,
        start: int,
        end: int,
        first: str,
        own_places: Sequence[Place] | None = None,
    ) -> None:
        self.first = first  # `argv[0]`; "" without words
        self._source = source
        self._start = start
        self._end = end
        self._own_places = own_places
        self._argv: tuple[str, ...] | None = None

    @classmethod
    def at(cls, source: Source, own_places: Sequence[Place]) -> "Words":
        """The words at these places of a source."""
        if not own_places:
            return cls(source, 0, 0, "", ())
        start, end = own_places[0]
        first = source.text[start:end]
        if not _SPECIAL.isdisjoint(first):
            first = word_value(first)[0]
        return cls(source, start, own_places[-1][1], first, own_places)

    def __bool__(self) -> bool:
        return self._own_places is None or len(self._own_places) > 0

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Word: ...
    @overload
    def __getitem__(self, at: slice) -> "Words": ...
    def __getitem__(self, at: int | slice) -> "Word | Words":
        if isinstance(at, slice):
            return Words.at(self._source, self._places[at])
        number = range(len(self))[at]
        value = self.argv[number]
        span = self._source.span(*self._places[number])
        return Word(value, span, number in self._quoted, number in self._dynamic)

    @property
    def _places(self) -> Sequence[Place]:
        if self._own_places is None:
            words = PLAIN_WORD.finditer(self._source.text, self._start, self._end)
            self._own_places = [word.span() for word in words]
        return self._own_places

    @property
    def argv(self) -> tuple[str, ...]:
        """The words after quote removal."""
        if self._argv is None:
            self._argv = self._read()
        return self._argv

    def _read(self) -> tuple[str, ...]:
        self._quoted: set[int] = set()
        self._dynamic: set[int] = set()
        text = self._source.text
        if self._own_places is None:
            values: list[str] = PLAIN_WORD.findall(text, self._start, self._end)
        else:
            values = [text[start:end] for start, end in self._own_places]
        for number, value in enumerate(values):
            if _SPECIAL.isdisjoint(value):
                continue
            values[number], is_quoted, is_dynamic = word_value(value)
            if is_quoted:
                self._quoted.add(number)
            if is_dynamic:
                self._dynamic.add(number)
        return tuple(values)

    @property
    def dynamic(self) -> set[int]:
        """The numbers of the words that bash still expands."""
        return self._dynamic if self.argv else set()

    @property
    def places(self) -> Sequence[Place]:
        """The place of each word in the whole text."""
        source = self._source
        if source.stand_in is not None:
            return [source.stand_in[:2]] * len(self)
        if not source.base:
            return self._places
        return [(start + source.base, end + source.base) for start, end in self._places]

    def place(self, number: int) -> Place:
        """Return the start and end of a word in the whole text."""
        if number == 0 and self._own_places is None:
            return self._source.place(self._start, self._start + len(self.first))
        return self.places[number]

    @property
    def extent(self) -> Place:
        """The start of the first word and the end of the last one, in the whole text."""
        return self._source.place(self._start, self._end)


# What a walk gathers.


@dataclass(slots=True, eq=False)
class Draft:
    """One stage of a pipeline: a simple command while it is read, or a compound one's place.

    It does not know its level, which knows it: a circle would keep the tree until gc runs.
    """

    source: Source
    start: int
    end: int
    nested: bool
    assigned: int  # where the last assignment ends
    places: list[Place] = field(default_factory=list)  # of its words
    assignments: list[Span] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    _frozen: Command | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.places or self.assignments or self.redirects)

    def freeze(self, via: tuple[str, ...]) -> Command:
        if self._frozen is None:
            self._frozen = Command(
                Words.at(self.source, self.places),
                self.source.place(self.start, self.end),
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
        """Return the facts about the text, without what stands behind wrappers."""
        commands = [draft.freeze(via) for draft in self.drafts if not draft.is_empty]
        pipelines = [[draft.freeze(via) for draft in drafts] for drafts in self.pipelines]
        spans = (getattr(self, name) for name in ShellFacts._fields[3:])
        return ShellFacts(text, commands, pipelines, *spans)


# Expansions where quotes mean nothing, as in a here-document.

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
    """Yield the expansions in a stretch of text where quotes mean nothing, outermost ones only.

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
            at = close + 1
            if opening == "$((":
                yield _Embedded(SubstitutionKind.ARITHMETIC, begin, at)
            else:
                yield _Embedded(SubstitutionKind.COMMAND, begin, at, (begin + 2, close))
        elif opening[0] == "$":
            yield _Embedded(SubstitutionKind.PARAMETER, begin, at)


def _closing(text: str, at: int, end: int) -> int:
    """Return the offset of the parenthesis that closes the one opened before `at`, or -1."""
    open_marks = ["("]
    while open_marks:
        in_quotes = open_marks[-1] == '"'
        marks = _IN_DOUBLE_QUOTES if in_quotes else _IN_CODE
        match = marks.search(text, at, end)
        if match is None:
            return -1
        at = match.end()
        mark = match[0]
        if mark == ")" or (mark == '"' and in_quotes):
            open_marks.pop()
        elif mark in ('"', "(", "$("):
            open_marks.append(mark[-1])
    return at - 1
