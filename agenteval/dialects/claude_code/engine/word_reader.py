"""One word of a command as Claude Code reads it, and what its commands are made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

from agenteval.core.shell.source import Source
from agenteval.core.shell.words import expansion, unquote

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


class UnclearError(Exception):
    """The text holds something that is not looked into; `is_final` when no exact rule helps."""

    def __init__(self, *, is_final: bool = False) -> None:
        super().__init__()
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class WordReader:
    """The reader of the words of a text.

    `places` are the variables that are known; `outputs`, what commands printed, may stand in "..."
    next to other text. The substitutions that a word holds are added to `substitutions`.
    """

    source: Source
    places: Mapping[str, str]
    outputs: set[str]
    substitutions: list[Node]

    def text(self, node: Node) -> str:
        start, end = node.byte_range
        return self.source.text[start:end]

    def word(self, node: Node) -> Word:
        raw = self.text(node)
        varies = False
        for part in node.named_children if node.type == "concatenation" else (node,):
            if part.type == "string":
                varies |= self._string(part)
            else:
                self._plain(part)
        value, outside = unquote(raw)
        if expansion(outside) == "braces" or _HIDING_LINE.search(value):
            raise UnclearError
        if _LONE_DOLLAR.search(outside):
            raise UnclearError
        value = value or raw.strip("\"'")  # where a substitution is left in it
        for name, place in self.places.items():
            value = value.replace(name, place)
        return Word(raw, value, any(mark in outside for mark in "*?["), varies)

    def _string(self, node: Node) -> bool:
        """Return True if a "..." varies; with other text it may hold what a command prints."""
        parts = node.named_children
        is_mixed = any(part.type == "string_content" for part in parts)
        varies = False
        if self.source.text[max(node.start_byte - 1, 0)] == "$":  # $"..."
            raise UnclearError
        for number, part in enumerate(parts):
            if part.type == "command_substitution" and self._is_text(part):
                continue
            if is_mixed and part.type == "command_substitution":
                if number and self.text(part)[0] == "`":
                    raise UnclearError
                self.substitutions.append(part)
            elif is_mixed and part.type == "simple_expansion":
                varies |= self._parameter(part)
            else:
                self._plain(part)
        return varies

    def _parameter(self, node: Node) -> bool:
        text = self.text(node).strip()
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
            and self.text(parts[0]) == "cat"
            and self.is_plain_heredoc(parts[1])
        )

    def is_plain_heredoc(self, node: Node) -> bool:
        """Return True if its delimiter is quoted and nothing stands behind that."""
        start, *others = node.named_children
        is_quoted = self.text(start)[:1] in {"'", '"', "\\"}
        return is_quoted and all(child.type in _HEREDOC_PARTS for child in others)

    def _plain(self, node: Node) -> None:
        """Raise UnclearError for anything that bash expands but a home and numbers."""
        text = self.text(node)
        if node.type == "simple_expansion":
            is_plain = text.strip() == "$HOME"
        elif node.type == "arithmetic_expansion":
            is_plain = _ARITHMETIC.fullmatch(text) is not None
        else:
            is_plain = node.type in _PLAIN_PARTS
        if not is_plain:
            raise UnclearError
