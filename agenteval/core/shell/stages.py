"""Stages, words and redirects as a walk adds them, mended where the parse tree is known wrong."""

import re
from collections.abc import Iterable, Sequence

from agenteval.core.shell.draft import Draft, Gathered, Level
from agenteval.core.shell.facts import Redirect
from agenteval.core.shell.source import COST, Source
from agenteval.core.span import Place

# The tree takes these for blanks between words; to bash they are part of a word, or nothing.
_GLUE = re.compile(r"(?:\\[\n \t]|[\r\v\f])+")
_ODD = ("\\", "\r", "\v", "\f", "$ ", "$\t")
_AFTER_DOLLAR = re.compile(r"\$[ \t]++")  # to the tree the blanks are part of the name
_TAIL = re.compile(r"[\r\v\f]+")


class Stages:
    """Adds to `found` what stands in one source."""

    def __init__(self, source: Source, found: Gathered) -> None:
        self.source = source
        self.text = text = source.text
        self.found = found
        self.is_odd = any(mark in text for mark in _ODD)

    def stage(self, level: Level, start: int, end: int) -> Draft:
        """Begin a new stage, and note what joins it to the one before."""
        draft = Draft(self.source, start, end, nested=level.nested)
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

    def is_next_line(self, draft: Draft, start: int) -> bool:
        """Whether the tree took assignments alone for the beginning of the next line's command."""
        gap = self.text[draft.assigned : start]
        return "\n" in gap and "\n" in gap.replace("\\\n", "")

    def add_assignment(self, draft: Draft, start: int, end: int) -> None:
        span = self.source.span(start, end)
        draft.assignments.append(span)
        draft.assigned = end
        self.found.assignments.append(span)

    def extend_assignment(self, draft: Draft, end: int) -> None:
        """The tree ends a value behind $( ); what follows at once is still part of it."""
        whole = self.source.span(draft.assigned - len(draft.assignments[-1].text), end)
        draft.assignments[-1] = self.found.assignments[-1] = whole
        draft.assigned = end

    def add_words(self, level: Level, draft: Draft, places: Iterable[Place]) -> None:
        """Give a command its words, mended where the tree cuts them wrongly."""
        merged: list[Place] = []
        for start, end in places:
            first = self._first_of_line(merged, start)
            if first >= 0:
                self.close_words(draft, merged)
                merged = [(first, end)]
                draft.end, whole = first - 1, draft.end
                draft = self.stage(level, first, whole)
                self.found.drafts.append(draft)
            elif merged and self._is_glued(merged[-1][1], start):
                merged[-1] = (merged[-1][0], end)
            elif name := _AFTER_DOLLAR.match(self.text, start, end):
                merged += (start, start + 1), (name.end(), end)
            else:
                merged.append((start, end))
        self.close_words(draft, merged)

    def _first_of_line(self, before: Sequence[Place], start: int) -> int:
        """Where a word begins that the tree took for one more of the line before; -1 for others."""
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
            self.source.room -= places[-1][1] - places[0][0] + COST * len(places)
            draft.places += places

    def add_redirect(self, redirect: Redirect, level: Level) -> None:
        self.found.redirects.append(redirect)
        if level.stage is not None:
            level.stage.redirects.append(redirect)

    def add_misread(self, start: int, end: int) -> None:
        base = self.source.base
        self.found.misread.append((start + base, end + base))

    def add_error(self, start: int, end: int) -> None:
        span = self.source.span(start, end)
        errors = self.found.errors
        if not errors or errors[-1].end < span.end:  # errors inside an error are the same one
            errors.append(span)

    def words_after_redirect(self, places: list[Place], level: Level) -> None:
        """In `ls >f -l` the tree gives -l to the redirect."""
        if places and level.stage is not None:
            self.add_words(level, level.stage, places)
