"""The commands of a text as Claude Code finds them, and whether it can tell them apart at all.

Seen by running 2.1.330, which walks a tree of the same grammar: where a node is none of those that
it knows, the text is unclear, and no rule but one for the whole text allows it.

One word of a command as Claude Code reads it, and what its commands are made of.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from agenteval.shell.facts import Source
from agenteval.shell.gate import expansion, unquote

_PLAIN_PARTS = frozenset(("word", "number", "raw_string", "string_content", "heredoc_start"))
_HEREDOC_PARTS = frozenset(("heredoc_body", "heredoc_end"))
_ARITHMETIC = re.compile(r"\$\(\((?:0[xX][0-9a-fA-F]+|[0-9#\s()+*/%<>=!&|^~\\-])*\)\)")
_HIDING_LINE = re.compile(r"\n[ \t]*#")
_SPECIAL = re.compile(r"\$[?$!#]")  # what bash itself sets
_LONE_DOLLAR = re.compile(r"\$(?:\Z|\0)")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written and what it stands for; `globs` where bash still looks for files.

    `varies` where a parameter such as `$?` is left in it.
    """

    raw: str
    text: str
    globs: bool = False
    varies: bool = False


Words = Sequence[Word]


@dataclass(frozen=True, slots=True)
class FileRedirect:
    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        return ">" in self.operator


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its text without the redirects behind it, assignments, and words."""

    text: str
    words: tuple[Word, ...] = ()
    assignments: tuple[str, ...] = ()
    redirects: tuple[FileRedirect, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class _UnclearError(Exception):
    """The text holds something that is not looked into; `is_final` when no exact rule helps."""

    def __init__(self, *, is_final: bool = False) -> None:
        super().__init__()
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class _WordReader:
    """The reader of the words of a text.

    `places` are the variables that are known; `outputs`, what commands printed, may stand in "..."
    next to other text. The substitutions that a word holds are added to `substitutions`.
    """

    source: Source
    places: Mapping[str, str]
    outputs: set[str]
    substitutions: list[Node]

    def word(self, node: Node) -> Word:
        raw = self.source.text_of(node)
        varies = False
        parts = node.named_children if node.type == "concatenation" else [node]
        for part in parts:
            if part.type == "string":
                varies |= self._string(part)
            else:
                self._plain(part)
        value, outside = unquote(raw)
        is_hiding = _HIDING_LINE.search(value) or _LONE_DOLLAR.search(outside)
        if expansion(outside) == "braces" or is_hiding:
            raise _UnclearError
        # Where a substitution is left in it.
        value = value or raw.strip("\"'")
        for name, place in self.places.items():
            value = value.replace(name, place)
        globs = any(mark in outside for mark in "*?[")
        return Word(raw, value, globs, varies)

    def _string(self, node: Node) -> bool:
        """Return True if a "..." varies; with other text it may hold what a command prints."""
        parts = node.named_children
        is_mixed = any(part.type == "string_content" for part in parts)
        varies = False
        if self.source.text[max(node.start_byte - 1, 0)] == "$":  # $"..."
            raise _UnclearError
        for number, part in enumerate(parts):
            if part.type == "command_substitution" and self._is_text(part):
                continue
            if is_mixed and part.type == "command_substitution":
                if number and self.source.text_of(part)[0] == "`":
                    raise _UnclearError
                self.substitutions.append(part)
            elif is_mixed and part.type == "simple_expansion":
                varies |= self._parameter(part)
            else:
                self._plain(part)
        return varies

    def _parameter(self, node: Node) -> bool:
        text = self.source.text_of(node).strip()
        if _SPECIAL.fullmatch(text):
            return True
        if text.removeprefix("$") not in self.outputs:
            self._plain(node)
        return False

    def _is_text(self, node: Node) -> bool:
        """Return True if it is `$(cat <<'EOF' ...)`, which stands for the here-document's text."""
        if len(node.named_children) != 1:
            return False
        parts = node.named_children[0].named_children
        return (
            [part.type for part in parts] == ["command", "heredoc_redirect"]
            and self.source.text_of(parts[0]) == "cat"
            and self.is_plain_heredoc(parts[1])
        )

    def is_plain_heredoc(self, node: Node) -> bool:
        """Return True if its delimiter is quoted and nothing stands behind that."""
        start, *others = node.named_children
        is_quoted = self.source.text_of(start)[:1] in {"'", '"', "\\"}
        return is_quoted and all(child.type in _HEREDOC_PARTS for child in others)

    def _plain(self, node: Node) -> None:
        """Raise _UnclearError for anything that bash expands but a home and numbers."""
        text = self.source.text_of(node)
        if node.type == "simple_expansion":
            is_plain = text.strip() == "$HOME"
        elif node.type == "arithmetic_expansion":
            is_plain = _ARITHMETIC.fullmatch(text) is not None
        else:
            is_plain = node.type in _PLAIN_PARTS
        if not is_plain:
            raise _UnclearError


# What holds commands, and is clear where they all are.
_LOOPS = frozenset(("if_statement", "elif_clause", "else_clause", "while_statement", "do_group"))
_CHAINS = frozenset(("program", "list", "pipeline", "negated_command"))
_STATEMENTS = frozenset(("if_statement", "while_statement", "for_statement"))
_REDIRECTS = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect"))
# Where one blank would be taken for another, or for none.
_UNSURE_TEXT = re.compile(
    r"\\[ \t]|[^ \t\n]\\\n|[\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]"
)
_DUPLICATE = re.compile(r"[0-9]*[<>]&[0-9]+")
# No text that sets these is looked into.
_UNSAFE_NAMES = re.compile(
    r"(?:PATH|HOME|IFS|LD_\w+|BASH_ENV|ENV|CDPATH|SHELL|PWD|TMPDIR|OLDPWD)\+?=|\w+\["
)
_TEST_PARTS = frozenset(("test_operator", "extglob_pattern", "regex"))
# Statements inside each other that are read.
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """`commands` are those in sight; `hidden` all others, for rules that deny."""

    commands: tuple[Command, ...]
    hidden: tuple[Command, ...]
    is_clear: bool = True
    # Whether a rule for the whole text can allow it.
    may_be_exact: bool = True


def read(text: str, home: str, root: str) -> Reading:
    source = Source(text)
    places = {"$HOME": home, "$PWD": root}
    reader = _Reader(_WordReader(source, places, {"PWD"}, []))
    hidden = tuple(_everything(source))
    if source.is_cut or _UNSURE_TEXT.search(text):
        return Reading((), hidden, is_clear=False)
    try:
        for node in source.roots:
            # A quote that is not closed among them.
            if node.has_error:
                raise _UnclearError  # noqa: TRY301 -- as any other
            reader.statement(node)
    except _UnclearError as error:
        return Reading((), hidden, is_clear=False, may_be_exact=not error.is_final)
    in_sight = {command.text for command in reader.commands}
    others = tuple(command for command in hidden if command.text not in in_sight)
    return Reading(tuple(reader.commands), others)


class _Reader:
    def __init__(self, words: _WordReader) -> None:
        self.words = words
        self.commands: list[Command] = []
        # Of loops and substitutions, in which no pipeline is told apart.
        self.depth = 0
        # Of statements inside each other.
        self.level = 0

    def statement(self, node: Node) -> None:
        """Read what it is a chain of, in order; a chain of && is a tree as deep as it is long."""
        if self.level == _DEEPEST:
            raise _UnclearError
        self.level += 1
        stack = [node]
        while stack:
            node = stack.pop()
            if node.type in _CHAINS:
                if node.type == "pipeline" and self.depth:
                    raise _UnclearError
                stack.extend(reversed(node.children))
            else:
                self._link(node)
        self.level -= 1

    def _link(self, node: Node) -> None:
        if node.type in _LOOPS:
            self.depth += 1
            for child in node.children:
                self.statement(child)
            self.depth -= 1
        elif not node.is_named:
            if node.type == "&" or node.is_missing:
                raise _UnclearError(is_final=node.type == "&")
        elif read := _READERS.get(node.type):
            read(self, node)
            while self.words.substitutions:
                self._inside(self.words.substitutions.pop())
        elif node.type != "comment":
            raise _UnclearError(is_final=node.type == "subshell")

    def _inside(self, node: Node) -> None:
        """The one statement of a substitution."""
        in_background = any(child.type == "&" for child in node.children)
        if in_background or len(node.named_children) != 1:
            raise _UnclearError
        self.depth += 1
        self.statement(node.named_children[0])
        self.depth -= 1

    def command(self, node: Node) -> None:
        words: list[Word] = []
        assignments: list[str] = []
        redirects: list[FileRedirect] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                assignments.append(self._assigned(child))
            elif child.type in _REDIRECTS:
                redirects.extend(self._redirect(child))
            else:
                word = child.children[0] if child.type == "command_name" else child
                words.append(self.words.word(word))
        command = Command(
            self.words.source.text_of(node),
            tuple(words),
            tuple(assignments),
            tuple(redirects),
        )
        self.commands.append(command)

    def redirected(self, node: Node) -> None:
        others = list(node.named_children)
        if others[0].type in _STATEMENTS:
            raise _UnclearError
        if others[0].type in _REDIRECTS:
            self.commands.append(Command(""))
        else:
            self.statement(others.pop(0))
        redirects = [redirect for child in others for redirect in self._redirect(child)]
        last = self.commands.pop()
        self.commands.append(replace(last, redirects=(*last.redirects, *redirects)))

    def _redirect(self, node: Node) -> Iterator[FileRedirect]:
        if node.type == "heredoc_redirect":
            if not self.words.is_plain_heredoc(node):
                raise _UnclearError
            return
        raw = self.words.source.text_of(node)
        if _DUPLICATE.fullmatch(raw):
            return
        named = [child for child in node.named_children if child.type != "file_descriptor"]
        if len(named) != 1:
            raise _UnclearError
        word = self.words.word(named[0])
        if node.type == "file_redirect":
            yield FileRedirect(raw[: named[0].start_byte - node.start_byte].strip(), word)

    def loop(self, node: Node) -> None:
        _, *values, body = node.named_children
        for value in values:
            if value.type == "command_substitution":
                self._inside(value)
            else:
                self.words.word(value)
        self.statement(body)

    def test(self, node: Node) -> None:
        stack = [*node.named_children]
        while stack:
            child = stack.pop()
            if child.type.endswith("_expression"):
                stack.extend(child.named_children)
            elif child.type not in _TEST_PARTS:
                self.words.word(child)
        text = self.words.source.text_of(node)
        self.commands.append(Command(text, (Word("test", "test"),)))

    def assignment(self, node: Node) -> None:
        text = self.words.source.text_of(node)
        self.commands.append(Command(text, (), (self._assigned(node),)))

    def declaration(self, node: Node) -> None:
        text = self.words.source.text_of(node)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assigned(child, looks_inside=False)
        words = tuple(Word(word, word) for word in text.split())
        self.commands.append(Command(text, words))

    def _assigned(self, node: Node, *, looks_inside: bool = True) -> str:
        text = self.words.source.text_of(node)
        name, _, value = text.partition("=")
        if _UNSAFE_NAMES.match(text) or value.startswith("~"):
            raise _UnclearError
        for part in node.named_children[1:]:
            if part.type == "command_substitution" and looks_inside:
                self._inside(part)
                self.words.outputs.add(name)
            else:
                self.words.word(part)
        return text


_READERS = {
    "command": _Reader.command,
    "redirected_statement": _Reader.redirected,
    "for_statement": _Reader.loop,
    "test_command": _Reader.test,
    "variable_assignment": _Reader.assignment,
    "declaration_command": _Reader.declaration,
    "unset_command": _Reader.declaration,
}


def _everything(source: Source) -> Iterator[Command]:
    """Yield each command node of the text, and its words as far as they can be read."""
    skipped = _REDIRECTS | {"variable_assignment"}
    for node in source.nodes():
        if node.type != "command":
            continue
        children = [child for child in node.named_children if child.type not in skipped]
        raws = [source.text_of(child) for child in children]
        words = tuple(Word(raw, unquote(raw)[0] or raw) for raw in raws)
        yield Command(source.text_of(node), words)
