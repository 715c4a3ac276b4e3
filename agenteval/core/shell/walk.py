"""The walk over a parse tree of shell text: one visit for each kind of node.

It keeps its own stack, sees each node once, and trusts the tree for kinds and places, not for
nesting: which commands form a pipeline or a list follows from the order of the operators.
"""

import re
from collections.abc import Callable, Sequence

from tree_sitter import Node

from agenteval.core.shell.draft import Gathered, Level
from agenteval.core.shell.embedded import embedded_in
from agenteval.core.shell.facts import Redirect, RedirectKind, SubstitutionKind
from agenteval.core.shell.redirects import (
    HeredocParts,
    read_file_redirect,
    read_heredoc,
    read_herestring,
)
from agenteval.core.shell.source import Source
from agenteval.core.shell.stages import Stages
from agenteval.core.shell.tree import by_kind, kinds
from agenteval.core.span import Place, Span

_MAX_DEPTH = 8  # substitutions in here-documents inside each other
_MAX_EMBEDDED = 200  # of them in one text; each is parsed by itself
_REDIRECTS = kinds("file_redirect", "heredoc_redirect", "herestring_redirect")
_NOT_WORDS = _REDIRECTS | kinds("subshell")
_ASSIGNMENT = kinds("variable_assignment")
_CLOSING = kinds(")")
_MARK = re.compile(r"[$`(]")  # without one of these a word holds nothing to visit


class Walk(Stages):
    """Visits the nodes of a source."""

    def __init__(
        self, source: Source, found: Gathered, *, nested: bool = False, depth: int = 0
    ) -> None:
        super().__init__(source, found)
        self._depth = depth
        self._level = Level(nested=nested)
        self._stack: list[tuple[Node, Level | None]] = []
        self._has_error = any(root.has_error for root in source.roots)
        self._is_live = "$" in self.text or "`" in self.text or "(" in self.text

    def run(self) -> None:
        stack = self._stack
        self.push(self.source.roots, self._level)
        source = self.source
        has_error = self._has_error
        while stack and source.room > 0:
            node, level = stack.pop()
            if has_error and node.is_missing:
                self.add_error(*node.byte_range)
            if level is None:
                if find := _ANYWHERE.get(node.kind_id):
                    find(self, node, None)
                else:
                    self.push_words(node)
            elif visit := _IN_LISTS.get(node.kind_id):
                visit(self, node, level)
            else:
                stack.extend([(child, level) for child in reversed(node.children)])

    def push(self, nodes: Sequence[Node], level: Level | None) -> None:
        """Visit these next, first the first. Without a level only substitutions are seen."""
        self._stack.extend([(node, level) for node in reversed(nodes)])

    def push_words(self, node: Node) -> None:
        """Visit what is inside next, for substitutions only: most parts of words hold none."""
        if self._has_error:  # anywhere, even where a word should be
            self.push(node.children, None)
        elif self._is_live:
            found = [(child, None) for child in reversed(node.children) if child.child_count]
            self._stack.extend(found)

    def command(self, node: Node, level: Level) -> None:
        draft = self.stage(level, *node.byte_range)
        self.found.drafts.append(draft)
        later: list[tuple[Node, Level | None]] = []
        words: list[Place] = []
        last = -1
        text, is_live, is_cut_wrongly = self.text, self._is_live, self.is_odd
        for child in node.children:
            kind = child.kind_id
            start, end = place = child.byte_range
            if not words and draft.assignments and self.is_next_line(draft, start):
                draft = self.stage(level, start, draft.end)
                self.found.drafts.append(draft)
            if kind in _NOT_WORDS:
                later.append((child, level))
            elif not words and kind in _ASSIGNMENT:
                self.add_assignment(draft, start, end)
                later.append((child, None))
            elif start == end:  # the parser put it there, as something must stand there
                self.add_error(start, end)
            else:
                words.append(place)
                is_cut_wrongly = is_cut_wrongly or start == last
                last = end
                if is_live and _MARK.search(text, start, end):
                    later.append((child, None))
        self._stack.extend(reversed(later))
        if is_cut_wrongly:
            self.add_words(level, draft, words)
        else:
            self.close_words(draft, words)

    def redirected(self, node: Node, level: Level) -> None:
        children = node.children
        if children[0].kind_id in _REDIRECTS:  # no command: only redirects
            self.found.drafts.append(self.stage(level, *node.byte_range))
        self.push(children, level)

    def operator(self, node: Node, level: Level) -> None:
        start, end = node.byte_range
        mark = node.type
        if mark in ("|", "|&"):
            level.joint = "|"
            if mark == "|&":
                span = self.source.span(start, end)
                self.add_redirect(Redirect(RedirectKind.STDERR, span, "1"), level)
            return
        if mark in ("&&", "||"):
            self.found.chains.append(self.source.span(start, end))
        elif mark == "&":
            self.found.background.append(self.source.span(start, end))
        level.joint, level.joint_at = mark, start

    def restart(self, _node: Node, level: Level) -> None:
        level.restart()

    def compound(self, node: Node, level: Level) -> None:
        """A loop, a condition, a function: its bodies hold commands, its other parts words."""
        self._open(node, level, self.found.control)

    def group(self, node: Node, level: Level) -> None:
        is_arithmetic = self.text.startswith("((", node.byte_range[0])
        self._open(node, level, self.found.control if is_arithmetic else self.found.subshells)

    def _open(self, node: Node, level: Level, kind: list[Span]) -> None:
        start, end = node.byte_range
        kind.append(self.source.span(start, end))
        self.stage(level, start, end)
        inside = Level(nested=level.nested)
        children = node.children
        if node.kind_id in _WORDS_BEFORE_BODY:
            self._stack.extend(
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

    def test(self, node: Node, level: Level) -> None:
        """[[ ]] is syntax; [ ] is a program with words."""
        start, end = node.byte_range
        draft = self.stage(level, start, end)
        if self.text.startswith("[[", start):
            self.found.control.append(self.source.span(start, end))
        else:
            self.found.drafts.append(draft)
            words = _RAW_WORD.finditer(self.text, start, end)
            self.add_words(level, draft, [word.span() for word in words])
        self.push_words(node)

    def assignments(self, node: Node, level: Level) -> None:
        """Assignments without a command."""
        draft = self.stage(level, *node.byte_range)
        self.found.drafts.append(draft)
        each = [node] if node.kind_id in _ASSIGNMENT else node.children
        for child in each:
            self.add_assignment(draft, *child.byte_range)
        self.push_words(node)

    def command_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.COMMAND, node, Level(nested=True))

    def process_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.PROCESS, node, Level(nested=True))

    def arithmetic(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.ARITHMETIC, node, None)

    def parameter(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.PARAMETER, node, None)

    def _substitution(self, kind: SubstitutionKind, node: Node, inside: Level | None) -> None:
        self.found.substitutions.append((kind, self.source.span(*node.byte_range)))
        if inside is None:
            self.push_words(node)
        else:
            self.push(node.children, inside)

    def file_redirect(self, node: Node, level: Level) -> None:
        redirect, words = read_file_redirect(self.source, node)
        self.add_redirect(redirect, level)
        self.words_after_redirect(words, level)
        self.push_words(node)

    def heredoc(self, node: Node, level: Level) -> None:
        parts = read_heredoc(self.source, node)
        self._add_heredoc(parts, level)
        self.words_after_redirect([word.byte_range for word in parts.words], level)
        self.push(parts.commands, level)
        self.push(parts.words, None)
        if parts.body:
            self._read_embedded(*parts.body)

    def herestring(self, node: Node, level: Level) -> None:
        self._add_heredoc(read_herestring(self.source, node), level)
        self.push_words(node)

    def _add_heredoc(self, parts: HeredocParts, level: Level) -> None:
        self.found.heredocs.append(parts.heredoc)
        self.add_redirect(parts.redirect, level)

    def _read_embedded(self, start: int, end: int) -> None:
        """Read the substitutions of a stretch of text that the tree holds as plain characters."""
        for found in embedded_in(self.text, start, end):
            span = self.source.span(found.start, found.end)
            self.found.substitutions.append((found.kind, span))
            if found.inside and self._depth < _MAX_DEPTH and self.found.embedded < _MAX_EMBEDDED:
                self.found.embedded += 1
                inner = self.source.part(*found.inside)
                Walk(inner, self.found, nested=True, depth=self._depth + 1).run()

    def negation(self, node: Node, _level: Level) -> None:
        self.found.negations.append(self.source.span(*node.byte_range))

    def error(self, node: Node, level: Level | None) -> None:
        self.add_error(*node.byte_range)
        self.push(node.children, level)


_BODIES = _REDIRECTS | kinds(
    "do_group", "compound_statement", "subshell", "case_item", "test_command"
)
_WORDS_BEFORE_BODY = kinds(
    "for_statement", "c_style_for_statement", "case_statement", "function_definition"
)
_RAW_WORD = re.compile(
    r"""(?:[^ \t\n'"\\$`]++|'[^']*+'|"(?:[^"\\]++|\\(?s:.))*+"|\\(?s:.)|\$\([^)]*+\)"""
    r"""|\$\{[^}]*+\}|`[^`]*+`|(?s:.)(?<![ \t\n]))++"""
)
_FIND: dict[str, Callable[[Walk, Node, Level | None], None]] = {
    "ERROR": Walk.error,
    "arithmetic_expansion": Walk.arithmetic,
    "command_substitution": Walk.command_substitution,
    "expansion": Walk.parameter,
    "process_substitution": Walk.process_substitution,
    "simple_expansion": Walk.parameter,
}
_VISIT: dict[str, Callable[[Walk, Node, Level], None]] = {
    "!": Walk.negation,
    "case_item": Walk.case_item,
    "command": Walk.command,
    "compound_statement": Walk.group,
    "declaration_command": Walk.command,
    "file_redirect": Walk.file_redirect,
    "heredoc_redirect": Walk.heredoc,
    "herestring_redirect": Walk.herestring,
    "redirected_statement": Walk.redirected,
    "subshell": Walk.group,
    "test_command": Walk.test,
    "unset_command": Walk.command,
    "variable_assignment": Walk.assignments,
    "variable_assignments": Walk.assignments,
}
_VISIT |= dict.fromkeys(("|", "|&", "&&", "||", ";", "&"), Walk.operator)
_VISIT |= dict.fromkeys(("then", "do", "else", "elif", "fi", "done", "esac"), Walk.restart)
_VISIT |= dict.fromkeys((";;", ";&", ";;&"), Walk.restart)
_VISIT |= dict.fromkeys(("if_statement", "while_statement", "for_statement"), Walk.compound)
_VISIT |= dict.fromkeys(
    ("c_style_for_statement", "case_statement", "function_definition"), Walk.compound
)
_ANYWHERE = by_kind(_FIND)
_IN_LISTS = by_kind({**_FIND, **_VISIT})
