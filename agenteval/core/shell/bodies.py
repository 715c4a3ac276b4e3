"""What holds lists of commands: loops, conditions, cases, groups and functions."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from agenteval.core.shell.draft import Gathered, Level
from agenteval.core.shell.source import Source
from agenteval.core.shell.stages import Stages
from agenteval.core.shell.tree import kinds
from agenteval.core.span import Span

REDIRECTS = kinds("file_redirect", "heredoc_redirect", "herestring_redirect")
_CLOSING = kinds(")")
_BODIES = REDIRECTS | kinds(
    "do_group", "compound_statement", "subshell", "case_item", "test_command"
)
_WORD_WITH_BRACE = re.compile(r"\{[^\s;|&()<>]")
_ENDS_BODY = kinds("then", "else", "elif", "fi", "done")
_NO_COMMAND = kinds("{", "}", "(", ")", "comment")
_WORDS_BEFORE_BODY = kinds(
    "for_statement", "c_style_for_statement", "case_statement", "function_definition"
)


class Bodies(Stages):
    """Visits what stands around commands, and puts what is inside on the stack of what is next."""

    def __init__(self, source: Source, found: Gathered) -> None:
        super().__init__(source, found)
        self.stack: list[tuple[Node, Level | None]] = []

    def push(self, nodes: Sequence[Node], level: Level | None) -> None:
        """Visit these next, first the first. Without a level only substitutions are seen."""
        self.stack.extend([(node, level) for node in reversed(nodes)])

    def restart(self, node: Node, level: Level) -> None:
        if level.stage is None and node.kind_id in _ENDS_BODY:
            self.add_error(*node.byte_range)
        level.restart()

    def compound(self, node: Node, level: Level) -> None:
        """A loop, a condition, a function: its bodies hold commands, its other parts words."""
        self._open(node, level, self.found.control)

    def group(self, node: Node, level: Level) -> None:
        start = node.start_byte
        is_arithmetic = self.text.startswith("((", start)
        if _WORD_WITH_BRACE.match(self.text, start):
            self.add_misread(start, start + 1)
        elif all(child.kind_id in _NO_COMMAND for child in node.children):
            self.add_error(*node.byte_range)
        self._open(node, level, self.found.control if is_arithmetic else self.found.subshells)

    def _open(self, node: Node, level: Level, kind: list[Span]) -> None:
        start, end = node.byte_range
        kind.append(self.source.span(start, end))
        self.stage(level, start, end)
        inside = Level(nested=level.nested)
        children = node.children
        if node.kind_id in _WORDS_BEFORE_BODY:
            self.stack.extend(
                [
                    (child, inside if child.kind_id in _BODIES else None)
                    for child in reversed(children)
                ]
            )
        else:
            self.push(children, inside)

    def case_item(self, node: Node, level: Level) -> None:
        children = node.children
        body = 1 + next((n for n, child in enumerate(children) if child.kind_id in _CLOSING), -1)
        level.restart()
        self.push(children[body:], level)
        self.push(children[:body], None)
