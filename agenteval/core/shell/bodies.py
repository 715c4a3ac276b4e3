"""Compound commands, which hold lists of commands: loops, conditions, cases, groups, functions."""

import re
from collections.abc import Iterable, Sequence

from tree_sitter import Node

from agenteval.core.shell.draft import Draft, Gathered, Level
from agenteval.core.shell.facts import Redirect
from agenteval.core.shell.source import COST, Source
from agenteval.core.shell.tree import kinds
from agenteval.core.span import Place, Span

# The tree takes these for blanks between words; to bash they are part of a word, or nothing.
_GLUE = re.compile(r"(?:\\[\n \t]|[\r\v\f])+")
_ODD = ("\\", "\r", "\v", "\f", "$ ", "$\t")
_AFTER_DOLLAR = re.compile(r"\$[ \t]++")  # to the tree the blanks are part of the name
_TAIL = re.compile(r"[\r\v\f]+")


class _Stages:
    """A walk's additions to `gathered`: the stages, words, redirects and errors of one source."""

    def __init__(self, source: Source, gathered: Gathered) -> None:
        self.source = source
        self.text = text = source.text
        self.gathered = gathered
        self.is_odd = any(mark in text for mark in _ODD)

    def stage(self, level: Level, start: int, end: int) -> Draft:
        """Begin a new stage, and record what joins it to the one before."""
        draft = Draft(self.source, start, end, nested=level.nested)
        if level.joint == "|":
            level.pipeline.append(draft)
            if len(level.pipeline) == 2:
                self.gathered.pipelines.append(level.pipeline)
        else:
            if level.joint == ";":
                self.gathered.chains.append(self.source.span(level.joint_at, level.joint_at + 1))
            elif level.joint in ("", "&") and level.stage is not None:
                newline = self.text.rfind("\n", max(level.stage.start, level.joint_at), start)
                if newline >= 0:
                    self.gathered.chains.append(self.source.span(newline, newline + 1))
            level.pipeline = [draft]
        level.joint, level.joint_at = "", 0
        level.stage = draft
        return draft

    def is_next_line(self, draft: Draft, start: int) -> bool:
        """Return True if the tree joined a line of assignments to the next line's command."""
        gap = self.text[draft.assigned : start]
        return "\n" in gap and "\n" in gap.replace("\\\n", "")

    def add_assignment(self, draft: Draft, start: int, end: int) -> None:
        span = self.source.span(start, end)
        draft.assignments.append(span)
        draft.assigned = end
        self.gathered.assignments.append(span)

    def extend_assignment(self, draft: Draft, end: int) -> None:
        """The tree ends a value behind $( ); what follows at once is still part of it."""
        whole = self.source.span(draft.assigned - len(draft.assignments[-1].text), end)
        draft.assignments[-1] = self.gathered.assignments[-1] = whole
        draft.assigned = end

    def add_words(self, level: Level, draft: Draft, places: Iterable[Place]) -> None:
        """Give a command its words, corrected where the tree cuts them wrongly."""
        merged: list[Place] = []
        for start, end in places:
            first = self._first_of_line(merged, start)
            if first >= 0:
                self.close_words(draft, merged)
                merged = [(first, end)]
                draft.end, whole = first - 1, draft.end
                draft = self.stage(level, first, whole)
                self.gathered.drafts.append(draft)
            elif merged and self._is_glued(merged[-1][1], start):
                merged[-1] = (merged[-1][0], end)
            elif name := _AFTER_DOLLAR.match(self.text, start, end):
                merged += (start, start + 1), (name.end(), end)
            else:
                merged.append((start, end))
        self.close_words(draft, merged)

    def _first_of_line(self, before: Sequence[Place], start: int) -> int:
        """Return the start of a word that the tree gave to the line before; -1 for others."""
        if self.text.startswith("\n", start):  # before \\ the tree takes it for a character
            return start + 1
        gap = self.text[before[-1][1] : start] if before else ""
        return start if "\n" in gap and "\n" in gap.replace("\\\n", "") else -1

    def _is_glued(self, end: int, start: int) -> bool:
        return end == start or _GLUE.fullmatch(self.text, end, start) is not None

    def close_words(self, draft: Draft, places: list[Place]) -> None:
        if self.is_odd and places and (tail := _TAIL.match(self.text, places[-1][1])):
            places[-1] = (places[-1][0], tail.end())
        if places:
            self.source.budget -= places[-1][1] - places[0][0] + COST * len(places)
            draft.places += places

    def add_redirect(self, redirect: Redirect, level: Level) -> None:
        self.gathered.redirects.append(redirect)
        if level.stage is not None:
            level.stage.redirects.append(redirect)

    def add_misread(self, start: int, end: int) -> None:
        base = self.source.base
        self.gathered.misread.append((start + base, end + base))

    def add_error(self, start: int, end: int) -> None:
        span = self.source.span(start, end)
        errors = self.gathered.errors
        if not errors or errors[-1].end < span.end:  # errors inside an error are the same one
            errors.append(span)

    def words_after_redirect(self, places: list[Place], level: Level) -> None:
        """Give a command the words after its redirect.

        In `ls >f -l` the tree gives -l to the redirect.
        """
        if places and level.stage is not None:
            self.add_words(level, level.stage, places)


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


class Bodies(_Stages):
    """A walk's visits to what stands around commands.

    The contents go on the stack of next nodes.
    """

    def __init__(self, source: Source, gathered: Gathered) -> None:
        super().__init__(source, gathered)
        self.stack: list[tuple[Node, Level | None]] = []

    def push(self, nodes: Sequence[Node], level: Level | None) -> None:
        """Visit these nodes next, in their order. Without a level only substitutions are read."""
        self.stack.extend([(node, level) for node in reversed(nodes)])

    def restart(self, node: Node, level: Level) -> None:
        if level.stage is None and node.kind_id in _ENDS_BODY:
            self.add_error(*node.byte_range)
        level.restart()

    def compound(self, node: Node, level: Level) -> None:
        """A loop, a condition, a function: its bodies hold commands, its other parts words."""
        self._open(node, level, self.gathered.control)

    def group(self, node: Node, level: Level) -> None:
        start = node.start_byte
        is_arithmetic = self.text.startswith("((", start)
        if _WORD_WITH_BRACE.match(self.text, start):
            self.add_misread(start, start + 1)
        elif all(child.kind_id in _NO_COMMAND for child in node.children):
            self.add_error(*node.byte_range)
        self._open(node, level, self.gathered.control if is_arithmetic else self.gathered.subshells)

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
