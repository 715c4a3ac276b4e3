"""The walk over a parse tree of shell text: one visit for each kind of node.

It keeps its own stack, sees each node once, and trusts the tree for kinds and places, not for
nesting: which commands form a pipeline or a list follows from the order of the operators.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from tree_sitter import Node

from agenteval.core.facts import Redirect, RedirectKind, Span, SubstitutionKind, Word
from agenteval.core.shell_draft import Draft, Gathered, Level
from agenteval.core.shell_embedded import embedded_in
from agenteval.core.shell_redirects import (
    HeredocParts,
    read_file_redirect,
    read_heredoc,
    read_herestring,
)
from agenteval.core.shell_tree import Source
from agenteval.core.shell_values import word_value

_MAX_DEPTH = 8  # substitutions in here-documents inside each other
_MAX_EMBEDDED = 200  # of them in one text; each is parsed by itself
_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
# The tree takes these for blanks between words; to bash they are part of a word, or nothing.
_GLUE = re.compile(r"(?:\\\n|[\r\v\f])+")
_TAIL = re.compile(r"[\r\v\f]+")
_NOT_WORDS = {*_REDIRECTS, "subshell", "variable_assignment"}
_SPECIAL = frozenset("'\"\\$`*?[{~<>")  # a word without these is what it says
_MARK = re.compile(r"[$`(]")  # without one of these a word holds nothing to visit


class Walk:
    """Visits a source and adds what it finds to `found`."""

    def __init__(
        self, source: Source, found: Gathered, *, nested: bool = False, depth: int = 0
    ) -> None:
        self.source = source
        self.text = source.text
        self.found = found
        self._depth = depth
        self._level = Level(nested=nested)
        self._stack: list[tuple[Node, Level | None]] = []
        text = source.text
        self._is_odd = "\\\n" in text or "\r" in text or "\v" in text or "\f" in text
        self._is_live = "$" in text or "`" in text or "(" in text

    def run(self) -> None:
        stack = self._stack
        stack.append((self.source.root, self._level))
        source = self.source
        while stack and source.room > 0:
            node, level = stack.pop()
            if visit := _VISITS.get(node.type):
                visit(self, node, level)
            elif node.child_count:
                stack.extend([(child, level) for child in reversed(node.children)])

    def push(self, nodes: Sequence[Node], level: Level | None) -> None:
        """Visit these next, first the first. Without a level only substitutions are seen."""
        self._stack.extend([(node, level) for node in reversed(nodes)])

    def stage(self, level: Level, start: int, end: int) -> Draft:
        """Begin a new stage, and note what joins it to the one before."""
        draft = Draft(self.source, level, start, end)
        if level.joint == "|":
            level.pipeline.append(draft)
            if len(level.pipeline) == 2:
                self.found.pipelines.append(level.pipeline)
        else:
            if level.joint == ";":
                self.found.chains.append(self.source.span(level.joint_at, level.joint_at + 1))
            elif level.joint in ("", "&") and level.stage is not None:
                newline = self.text.rfind("\n", max(level.stage.start, level.joint_at), start)
                if newline >= 0:
                    self.found.chains.append(self.source.span(newline, newline + 1))
            level.pipeline = [draft]
        level.joint, level.joint_at = "", 0
        level.stage = draft
        return draft

    def command(self, node: Node, level: Level | None) -> None:
        if level is None:
            self.push(node.children, None)
            return
        start, end = self.source.place(node)
        draft = self.stage(level, start, end)
        self.found.drafts.append(draft)
        later: list[tuple[Node, Level | None]] = []
        words: list[tuple[int, int]] = []
        last = -1
        is_cut_wrongly = self._is_odd
        for child in node.children:
            kind = child.type
            start, end = self.source.place(child)
            if draft.assignments and not words and self._is_next_line(draft, start):
                draft = self.stage(level, start, draft.end)
                self.found.drafts.append(draft)
            if kind in _NOT_WORDS and not (kind == "variable_assignment" and words):
                if kind == "variable_assignment":
                    self._assignment(draft, (start, end))
                    later.append((child, None))
                else:
                    later.append((child, level))
                continue
            if start == end:  # the parser put it there because something must stand there
                continue
            words.append((start, end))
            is_cut_wrongly = is_cut_wrongly or start == last or self.text[start] == "\n"
            last = end
            if self._is_live and _MARK.search(self.text, start, end):
                later.append((child, None))
        self._stack.extend(reversed(later))
        if is_cut_wrongly:
            self.add_words(draft, words)
        else:
            self._close_words(draft, words)

    def _is_next_line(self, draft: Draft, start: int) -> bool:
        """Whether the tree took assignments alone for the beginning of the next line's command."""
        gap = self.text[draft.assigned : start]
        return "\n" in gap and "\n" in gap.replace("\\\n", "")

    def _assignment(self, draft: Draft, place: tuple[int, int]) -> None:
        span = self.source.span(*place)
        draft.assignments.append(span)
        draft.assigned = place[1]
        self.found.assignments.append(span)

    def add_words(self, draft: Draft, places: Iterable[tuple[int, int]]) -> None:
        """Give a command its words, mended where the tree cuts them wrongly."""
        merged: list[tuple[int, int]] = []
        for start, end in places:
            if self.text.startswith("\n", start):  # before \\ the tree takes it for a character
                self._close_words(draft, merged)
                merged = [(start + 1, end)]
                draft.end, whole = merged[-1][0] - 1, draft.end
                draft = self.stage(draft.level, start + 1, whole)
                self.found.drafts.append(draft)
            elif merged and self._is_glued(merged[-1][1], start):
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        self._close_words(draft, merged)

    def _is_glued(self, end: int, start: int) -> bool:
        if end == start:
            return True
        return self._is_odd and _GLUE.fullmatch(self.text, end, start) is not None

    def _close_words(self, draft: Draft, places: list[tuple[int, int]]) -> None:
        if self._is_odd and places and (tail := _TAIL.match(self.text, places[-1][1])):
            places[-1] = (places[-1][0], tail.end())
        text = self.text
        span = self.source.span
        for start, end in places:
            if _SPECIAL.isdisjoint(raw := text[start:end]):
                draft.words.append(Word(raw, span(start, end)))
            else:
                value, quoted, dynamic = word_value(text, start, end)
                draft.words.append(Word(value, span(start, end), quoted, dynamic))

    def redirected(self, node: Node, level: Level | None) -> None:
        children = node.children
        if level is not None and children[0].type in _REDIRECTS:  # no command: only redirects
            self.found.drafts.append(self.stage(level, *self.source.place(node)))
        self.push(children, level)

    def add_redirect(self, redirect: Redirect, level: Level) -> None:
        self.found.redirects.append(redirect)
        if level.stage is not None:
            level.stage.redirects.append(redirect)

    def operator(self, node: Node, level: Level | None) -> None:
        if level is None:
            return
        start, end = self.source.place(node)
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

    def restart(self, _node: Node, level: Level | None) -> None:
        if level is not None:
            level.restart()

    def compound(self, node: Node, level: Level | None) -> None:
        """A loop, a condition, a function: its bodies hold commands, its other parts words."""
        self._open(node, level, self.found.control)

    def group(self, node: Node, level: Level | None) -> None:
        is_arithmetic = self.text.startswith("((", self.source.place(node)[0])
        self._open(node, level, self.found.control if is_arithmetic else self.found.subshells)

    def _open(self, node: Node, level: Level | None, kind: list[Span]) -> None:
        start, end = self.source.place(node)
        kind.append(self.source.span(start, end))
        if level is not None:
            self.stage(level, start, end)
        inside = Level(nested=level is None or level.nested)
        children = node.children
        if node.type in _WORDS_BEFORE_BODY:
            self._stack.extend(
                [(child, inside if child.type in _BODIES else None) for child in reversed(children)]
            )
        else:
            self.push(children, inside)

    def case_item(self, node: Node, level: Level | None) -> None:
        children = node.children
        body = 1 + next((n for n, child in enumerate(children) if child.type == ")"), -1)
        if level is not None:
            level.restart()
        self.push(children[body:], level)
        self.push(children[:body], None)

    def test(self, node: Node, level: Level | None) -> None:
        """[[ ]] and (( )) are syntax; [ ] is a program with words."""
        start, end = self.source.place(node)
        if self.text.startswith(("[[", "(("), start):
            self.found.control.append(self.source.span(start, end))
            if level is not None:
                self.stage(level, start, end)
        elif level is not None:
            draft = self.stage(level, start, end)
            self.found.drafts.append(draft)
            self.add_words(
                draft, [word.span() for word in _RAW_WORD.finditer(self.text, start, end)]
            )
        self.push(node.children, None)

    def assignments(self, node: Node, level: Level | None) -> None:
        """Assignments without a command."""
        if level is not None:
            draft = self.stage(level, *self.source.place(node))
            self.found.drafts.append(draft)
            each = [node] if node.type == "variable_assignment" else node.children
            for child in each:
                self._assignment(draft, self.source.place(child))
        self.push(node.children, None)

    def command_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.COMMAND, node, Level(nested=True))

    def process_substitution(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.PROCESS, node, Level(nested=True))

    def arithmetic(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.ARITHMETIC, node, None)

    def parameter(self, node: Node, _level: Level | None) -> None:
        self._substitution(SubstitutionKind.PARAMETER, node, None)

    def _substitution(self, kind: SubstitutionKind, node: Node, inside: Level | None) -> None:
        self.found.substitutions.append((kind, self.source.span(*self.source.place(node))))
        self.push(node.children, inside)

    def file_redirect(self, node: Node, level: Level | None) -> None:
        if level is not None:
            redirect, words = read_file_redirect(self.source, node)
            self.add_redirect(redirect, level)
            self._words_after_redirect(words, level)
        self.push(node.children, None)

    def heredoc(self, node: Node, level: Level | None) -> None:
        if level is None:
            self.push(node.children, None)
            return
        parts = read_heredoc(self.source, node)
        self._add_heredoc(parts, level)
        self._words_after_redirect([self.source.place(word) for word in parts.words], level)
        self.push(parts.commands, level)
        self.push(parts.words, None)
        if parts.body:
            self._read_embedded(*parts.body)

    def herestring(self, node: Node, level: Level | None) -> None:
        if level is not None:
            self._add_heredoc(read_herestring(self.source, node), level)
        self.push(node.children, None)

    def _add_heredoc(self, parts: HeredocParts, level: Level) -> None:
        self.found.heredocs.append(parts.heredoc)
        self.add_redirect(parts.redirect, level)

    def _words_after_redirect(self, places: list[tuple[int, int]], level: Level) -> None:
        """In `ls >f -l` the tree gives -l to the redirect."""
        if places and level.stage is not None:
            self.add_words(level.stage, places)

    def _read_embedded(self, start: int, end: int) -> None:
        """Read the substitutions of a stretch of text that the tree holds as plain characters."""
        for found in embedded_in(self.text, start, end):
            span = self.source.span(found.start, found.end)
            self.found.substitutions.append((found.kind, span))
            if found.inside and self._depth < _MAX_DEPTH and self.found.embedded < _MAX_EMBEDDED:
                self.found.embedded += 1
                inner = self.source.part(*found.inside)
                Walk(inner, self.found, nested=True, depth=self._depth + 1).run()

    def negation(self, node: Node, level: Level | None) -> None:
        if level is not None:
            self.found.negations.append(self.source.span(*self.source.place(node)))

    def error(self, node: Node, level: Level | None) -> None:
        self.found.errors.append(self.source.span(*self.source.place(node)))
        self.push(node.children, level)


_BODIES = {"do_group", "compound_statement", "subshell", "case_item", "test_command", *_REDIRECTS}
_WORDS_BEFORE_BODY = {"for_statement", "c_style_for_statement", "case_statement"}
_WORDS_BEFORE_BODY |= {"function_definition"}
_RAW_WORD = re.compile(
    r"""(?:[^ \t\n'"\\$`]++|'[^']*+'|"(?:[^"\\]++|\\(?s:.))*+"|\\(?s:.)|\$\([^)]*+\)"""
    r"""|\$\{[^}]*+\}|`[^`]*+`|(?s:.)(?<![ \t\n]))++"""
)
_Visit = Callable[[Walk, Node, Level | None], None]
_VISITS: dict[str, _Visit] = {
    "!": Walk.negation,
    "ERROR": Walk.error,
    "arithmetic_expansion": Walk.arithmetic,
    "case_item": Walk.case_item,
    "command": Walk.command,
    "command_substitution": Walk.command_substitution,
    "compound_statement": Walk.group,
    "declaration_command": Walk.command,
    "expansion": Walk.parameter,
    "file_redirect": Walk.file_redirect,
    "heredoc_redirect": Walk.heredoc,
    "herestring_redirect": Walk.herestring,
    "process_substitution": Walk.process_substitution,
    "redirected_statement": Walk.redirected,
    "simple_expansion": Walk.parameter,
    "subshell": Walk.group,
    "test_command": Walk.test,
    "unset_command": Walk.command,
    "variable_assignment": Walk.assignments,
    "variable_assignments": Walk.assignments,
}
_VISITS |= dict.fromkeys(
    ("if_statement", "while_statement", "for_statement", "c_style_for_statement"), Walk.compound
)
_VISITS |= dict.fromkeys(("case_statement", "function_definition"), Walk.compound)
_VISITS |= dict.fromkeys(("|", "|&", "&&", "||", ";", "&"), Walk.operator)
_VISITS |= dict.fromkeys(("then", "do", "else", "elif", "fi", "done", "esac"), Walk.restart)
_VISITS |= dict.fromkeys((";;", ";&", ";;&"), Walk.restart)
