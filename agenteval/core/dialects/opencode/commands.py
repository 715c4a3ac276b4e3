"""The commands of a text as OpenCode finds them, and the paths for which it looks among the words.

Seen by running 1.0.152, 1.1.65 and 1.18.33; where the last two differ, this follows the last. What
it reads off the disk can't be known here: a path that may be a file or a folder is taken as both.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from agenteval.core.dialects.paths import absolute, expanded, inside
from agenteval.core.shell.source import Source

# About these no rule for bash is asked, only where they lead.
MOVES = frozenset(("cd", "chdir", "popd", "pushd", "push-location", "set-location"))
_OLD_TOUCHES = frozenset(("cd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown"))
_ITEMS = frozenset(f"{verb}-item" for verb in ("copy", "move", "remove", "new", "rename"))
_CONTENTS = frozenset(("cat", "get-content", "set-content", "add-content"))
_TOUCHES = _OLD_TOUCHES | MOVES | _ITEMS | _CONTENTS
_WORDS = frozenset(("command_name", "word", "string", "raw_string", "concatenation"))
# A `((i++))` or `((!x))`: to grammar 0.25.0, which OpenCode has, a test and no command.
_TEST = re.compile(r"\(\([\s(-]*(?:!|[\w${}]+(?:\+\+|--))")
_GLOB = re.compile(r"[?*\[].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """One command node: its text with its redirects, and its words as written."""

    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def needs_rule(self) -> bool:
        return bool(self.words) and self.program not in MOVES

    def folders_outside(self, start: str, root: str, home: str) -> Iterator[str]:
        """The folders outside the project that its paths need open, counted from `start`."""
        if self.program in _TOUCHES:
            for word in self._operands():
                path = _GLOB.sub("", expanded(_unquoted(word), home))
                if path and not any(mark in path for mark in "$`"):
                    yield from _outside(path, start, root, is_folder=self.program in MOVES)

    def old_folders_outside(self, root: str, home: str) -> Iterator[str]:
        """The same in 1.0: words with their quotes, counted from the project."""
        if self.program in _OLD_TOUCHES:
            for word in self._operands():
                yield from _outside(expanded(word, home), root, root, is_folder=True)

    def _operands(self) -> Iterator[str]:
        marks = ("-", "+") if self.program == "chmod" else ("-",)
        return (word for word in self.words[1:] if not word.startswith(marks))


def segments(source: Source) -> Iterator[Segment]:
    """Every command of a text, those inside others too."""
    stack: list[Node] = [*source.roots]
    while stack:
        node = stack.pop()
        if _is_command(source, node):
            parent = node.parent
            whole = parent if parent and parent.type == "redirected_statement" else node
            yield Segment(_text(source, whole).strip(), _words(source, node))
        stack.extend(reversed(node.children))


def _words(source: Source, node: Node) -> tuple[str, ...]:
    if node.type == "compound_statement":
        return (_text(source, node),)
    return tuple(_text(source, child) for child in node.children if child.type in _WORDS)


def _is_command(source: Source, node: Node) -> bool:
    """Whether OpenCode's grammar takes it for one, as it does most of what is in `(( ))`."""
    if node.type == "compound_statement" and node.children[0].type == "((":
        return not _TEST.match(_text(source, node))
    return node.type == "command"


def _text(source: Source, node: Node) -> str:
    start, end = node.byte_range
    return source.text[start:end]


def _unquoted(word: str) -> str:
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if is_quoted else word


def _outside(path: str, start: str, root: str, *, is_folder: bool) -> Iterator[str]:
    whole = absolute(path, start)
    if inside(whole, root) is None:
        yield whole
        if not is_folder:
            yield posixpath.dirname(whole)
