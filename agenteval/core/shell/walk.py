"""The walk over a parse tree of shell text: one visit for each kind of node.

It keeps its own stack, visits each node once, and trusts the tree for kinds and places, not for
nesting: which commands form a pipeline or a list follows from the order of the operators.
"""

import re
from collections.abc import Callable

from tree_sitter import Node

from agenteval.core.shell.bodies import REDIRECTS, Bodies
from agenteval.core.shell.draft import Gathered, Level, embedded_in
from agenteval.core.shell.facts import Redirect, RedirectKind, SubstitutionKind
from agenteval.core.shell.source import Source
from agenteval.core.shell.tree import by_kind, kinds
from agenteval.core.shell.tree_redirects import (
    HeredocParts,
    read_file_redirect,
    read_heredoc,
    read_herestring,
)
from agenteval.core.shell.words import compiled
from agenteval.core.span import Place

_MAX_DEPTH = 8  # substitutions in here-documents inside each other
_MAX_EMBEDDED = 200  # of them in one text; each is parsed by itself
_NAME = compiled(r"[A-Za-z_]\w*+(?:\+?=|\[)", re.ASCII)  # the tree takes --x=y for one too
_NO_TARGET = compiled(r"\w*+(?:\{\w++\})?+[<>&|]++(?:[ \t]++|\\\n)*+(?=\n|#)")
_COMMENT = kinds("comment")
_NOT_WORDS = REDIRECTS | _COMMENT | kinds("subshell")
_ASSIGNMENT = kinds("variable_assignment")
_LINE_END = compiled(r"\n|\Z|[ \t]*+\)")  # in $( ) the bracket may follow at once
_GLUED_START = compiled(r"<<-?[ \t]*+(?:'[^']*'|\"[^\"]*\"|[^;|&()<>'\"])*+[;|&()<>]")
_MARK = compiled(r"[$`(]")  # without one of these a word holds nothing to visit


class Walk(Bodies):
    """The walk over the nodes of one source."""

    def __init__(
        self, source: Source, gathered: Gathered, *, nested: bool = False, depth: int = 0
    ) -> None:
        super().__init__(source, gathered)
        self._depth = depth
        self._glued = -1
        self._level = Level(nested=nested)
        self._has_error = any(root.has_error for root in source.roots)
        self._is_live = "$" in self.text or "`" in self.text or "(" in self.text

    def run(self) -> None:
        stack = self.stack
        self.push(self.source.roots, self._level)
        source = self.source
        has_error = self._has_error
        while stack and source.budget > 0:
            node, level = stack.pop()
            if has_error and node.is_missing:
                self._add_missing(node)
            if level is None:
                if find := _ANYWHERE.get(node.kind_id):
                    find(self, node, None)
                else:
                    self.push_words(node)
            elif visit := _IN_LISTS.get(node.kind_id):
                visit(self, node, level)
            else:
                stack.extend([(child, level) for child in reversed(node.children)])

    def push_words(self, node: Node) -> None:
        """Visit what is inside next, for substitutions only: most parts of words hold none."""
        if self._has_error:  # anywhere, even where a word should be
            self.push(node.children, None)
        elif self._is_live:
            found = [(child, None) for child in reversed(node.children) if child.child_count]
            self.stack.extend(found)

    def command(self, node: Node, level: Level) -> None:
        draft = self.stage(level, *node.byte_range)
        self.gathered.drafts.append(draft)
        later: list[tuple[Node, Level | None]] = []
        words: list[Place] = []
        last = -1
        text, is_live, is_cut_wrongly = self.text, self._is_live, self.is_odd
        has_error = self._has_error
        for child in node.children:
            kind = child.kind_id
            start, end = place = child.byte_range
            if not words and draft.assignments and self.is_next_line(draft, start):
                draft = self.stage(level, start, draft.end)
                self.gathered.drafts.append(draft)
            if kind in _NOT_WORDS:
                if kind not in _COMMENT:
                    later.append((child, level))
            elif not words and kind in _ASSIGNMENT and _NAME.match(text, start):
                self.add_assignment(draft, start, end)
                later.append((child, None))
            elif not words and start == draft.assigned and draft.assignments:
                self.extend_assignment(draft, end)
                later.append((child, None))
            elif start == end:  # the parser put it there, as something must stand there
                self.add_error(start, end)
            else:
                words.append((start - 1, end) if start == self._glued else place)
                is_cut_wrongly = is_cut_wrongly or start == last
                last = end
                if has_error or (is_live and _MARK.search(text, start, end)):
                    later.append((child, None))
        self.stack.extend(reversed(later))
        if is_cut_wrongly or (len(words) > 1 and text.find("\n", words[0][1], words[-1][0]) > 0):
            self.add_words(level, draft, words)
        else:
            self.close_words(draft, words)

    def redirected(self, node: Node, level: Level) -> None:
        children = node.children
        if children[0].kind_id in REDIRECTS:  # no command: only redirects
            self.gathered.drafts.append(self.stage(level, *node.byte_range))
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
            self.gathered.chains.append(self.source.span(start, end))
        elif mark == "&":
            self.gathered.background.append(self.source.span(start, end))
        level.joint, level.joint_at = mark, start

    def test(self, node: Node, level: Level) -> None:
        """[[ ]] is syntax; [ ] is a program with words."""
        start, end = node.byte_range
        draft = self.stage(level, start, end)
        if self.text.startswith("[[", start):
            self.gathered.control.append(self.source.span(start, end))
        else:
            self.gathered.drafts.append(draft)
            words = _RAW_WORD.finditer(self.text, start, end)
            self.add_words(level, draft, [word.span() for word in words])
        self.push_words(node)

    def assignments(self, node: Node, level: Level) -> None:
        """Assignments without a command."""
        nodes = [node] if node.kind_id in _ASSIGNMENT else node.children
        if not all(_NAME.match(self.text, child.start_byte) for child in nodes):
            self.command(node, level)
            return
        draft = self.stage(level, *node.byte_range)
        self.gathered.drafts.append(draft)
        for child in nodes:
            self.add_assignment(draft, *child.byte_range)
        self.push_words(node)

    def command_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.COMMAND, node, Level(nested=True))

    def process_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.PROCESS, node, Level(nested=True))

    def arithmetic(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.ARITHMETIC, node, None)

    def parameter(self, node: Node, _level: Level | None) -> None:
        if self.is_odd and self.text[node.start_byte + 1 : node.end_byte][:1] in ("", " ", "\t"):
            return
        self._substitution(SubstitutionKind.PARAMETER, node, None)

    def _substitution(self, kind: SubstitutionKind, node: Node, inside: Level | None) -> None:
        self.gathered.substitutions.append((kind, self.source.span(*node.byte_range)))
        if inside is None:
            self.push_words(node)
        else:
            self.push(node.children, inside)

    def file_redirect(self, node: Node, level: Level) -> None:
        redirect, words = read_file_redirect(self.source, node)
        start, end = node.byte_range
        if start == end:  # the parser put it there
            return
        if "\n" in self.text[start:end] and (cut := _NO_TARGET.match(self.text, start)):
            self.add_error(start, cut.end())
        self.add_redirect(redirect, level)
        self.words_after_redirect(words, level)
        self.push_words(node)

    def heredoc(self, node: Node, level: Level) -> None:
        parts = read_heredoc(self.source, node)
        if parts.end and not _LINE_END.match(self.text, parts.end[1]):
            self.add_misread(*parts.end)
        if _GLUED_START.match(parts.redirect.span.text):
            self.gathered.is_glued = True
        self._add_heredoc(parts, level)
        self.words_after_redirect([word.byte_range for word in parts.words], level)
        self.push(parts.commands, level)
        self.push(parts.words, None)
        if parts.body:
            self.read_embedded(*parts.body)

    def herestring(self, node: Node, level: Level) -> None:
        self._add_heredoc(read_herestring(self.source, node), level)
        self.push_words(node)

    def _add_heredoc(self, parts: HeredocParts, level: Level) -> None:
        self.gathered.heredocs.append(parts.heredoc)
        self.add_redirect(parts.redirect, level)

    def read_embedded(self, start: int, end: int) -> None:
        """Read the substitutions of a stretch of text that the tree holds as plain characters."""
        for embedded in embedded_in(self.text, start, end):
            span = self.source.span(embedded.start, embedded.end)
            self.gathered.substitutions.append((embedded.kind, span))
            if (
                embedded.inside
                and self._depth < _MAX_DEPTH
                and self.gathered.embedded < _MAX_EMBEDDED
            ):
                self.gathered.embedded += 1
                inner = self.source.part(*embedded.inside)
                Walk(inner, self.gathered, nested=True, depth=self._depth + 1).run()

    def negation(self, node: Node, _level: Level) -> None:
        start, end = node.byte_range
        if self.text[end : end + 1] in "\"'$`":  # part of the word behind it
            self._glued = end
        else:
            self.gathered.negations.append(self.source.span(start, end))

    def _add_missing(self, node: Node) -> None:
        """Record an error for what the parser had to insert.

        For a closing quote, the error covers all that the quote would close.
        """
        start, end = node.byte_range
        parent = node.parent
        self.add_error(parent.start_byte if parent and node.type == '"' else start, end)

    def error(self, node: Node, level: Level | None) -> None:
        self.add_error(*node.byte_range)
        self.push(node.children, level)


_RAW_WORD = compiled(
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
