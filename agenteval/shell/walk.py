"""The walk over a parse tree of shell text: one visit for each kind of node.

It keeps its own stack, visits each node once, and trusts the tree for kinds and places, not for
nesting: which commands form a pipeline or a list follows from the order of the operators.

`_Stages` adds to what is gathered; `_Bodies` visits compound commands, which hold lists of
commands; then come redirects with the words and commands that the tree files under them; `Walk`
visits all else.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from tree_sitter import Node

from agenteval.shell.facts import (
    COST,
    Draft,
    Gathered,
    Heredoc,
    Level,
    Redirect,
    RedirectKind,
    Source,
    SubstitutionKind,
    embedded_in,
)
from agenteval.shell.gate import Place, Span, compiled, names, word_value
from agenteval.shell.tree import by_kind, kinds

# The tree takes these for blanks between words; to bash they are part of a word, or nothing.
_GLUE = re.compile(r"(?:\\[\n \t]|[\r\v\f])+")
_ODD = ("\\", "\r", "\v", "\f", "$ ", "$\t")
_AFTER_DOLLAR = re.compile(r"\$[ \t]++")  # to the tree the blanks are part of the name
_TAIL = re.compile(r"[\r\v\f]+")


# What a walk adds to the facts.


class _Stages:
    """A walk's additions to `gathered`: the stages, words, redirects and errors of one source."""

    def __init__(self, source: Source, gathered: Gathered) -> None:
        self.source = source
        self.text = text = source.text
        self.gathered = gathered
        self.is_odd = any(mark in text for mark in _ODD)

    def stage(self, level: Level, start: int, end: int) -> Draft:
        """Begin a new stage, and record what joins it to the one before."""
        draft = Draft(self.source, start, end, level.nested, start)
        if level.joint == "|":
            level.pipeline.append(draft)
            if len(level.pipeline) == 2:
                self.gathered.pipelines.append(level.pipeline)
        else:
            chained_at = self._chained_at(level, start)
            if chained_at >= 0:
                self.add_span(self.gathered.chains, chained_at, chained_at + 1)
            level.pipeline = [draft]
        level.joint, level.joint_at = "", 0
        # The redirects and words that the tree files elsewhere go to the last stage.
        level.stage = draft
        return draft

    def command_stage(self, level: Level, start: int, end: int) -> Draft:
        draft = self.stage(level, start, end)
        self.gathered.drafts.append(draft)
        return draft

    def _chained_at(self, level: Level, start: int) -> int:
        """Return the place of the ; or newline before a stage that begins at `start`, or -1."""
        if level.joint == ";":
            return level.joint_at
        if level.joint not in ("", "&") or level.stage is None:
            return -1
        return self.text.rfind("\n", max(level.stage.start, level.joint_at), start)

    def is_next_line(self, end: int, start: int) -> bool:
        """Return True if a line ends between two parts that the tree joined to one command."""
        gap = self.text[end:start]
        return "\n" in gap and "\n" in gap.replace("\\\n", "")

    def add_span(self, spans: list[Span], start: int, end: int) -> None:
        spans.append(self.source.span(start, end))

    def add_assignment(self, draft: Draft, start: int, end: int) -> None:
        span = self.source.span(start, end)
        draft.assignments.append(span)
        draft.assigned = end
        self.gathered.assignments.append(span)

    def extend_assignment(self, draft: Draft, end: int) -> None:
        """The tree ends a value behind $( ); what follows at once is still part of it."""
        start = draft.assigned - len(draft.assignments[-1].text)
        whole = self.source.span(start, end)
        draft.assignments[-1] = self.gathered.assignments[-1] = whole
        draft.assigned = end

    def add_words(
        self,
        level: Level,
        draft: Draft,
        places: Iterable[Place],
    ) -> None:
        """Give a command its words, corrected where the tree cuts them wrongly."""
        merged: list[Place] = []
        for start, end in places:
            first = self._first_of_line(merged, start)
            if first >= 0:
                self.close_words(draft, merged)
                merged = [(first, end)]
                whole = draft.end
                draft.end = first - 1
                draft = self.command_stage(level, first, whole)
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
        is_first = bool(before) and self.is_next_line(before[-1][1], start)
        return start if is_first else -1

    def _is_glued(self, end: int, start: int) -> bool:
        return end == start or _GLUE.fullmatch(self.text, end, start) is not None

    def close_words(self, draft: Draft, places: list[Place]) -> None:
        if self.is_odd and places and (tail := _TAIL.match(self.text, places[-1][1])):
            places[-1] = (places[-1][0], tail.end())
        if places:
            length = places[-1][1] - places[0][0]
            self.source.budget -= length + COST * len(places)
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


# Compound commands: loops, conditions, cases, groups, functions.

_REDIRECTS = kinds("file_redirect heredoc_redirect herestring_redirect")
_CLOSING = kinds(")")
_BODIES = _REDIRECTS | kinds("do_group compound_statement subshell case_item test_command")
_WORD_WITH_BRACE = re.compile(r"\{[^\s;|&()<>]")
_ENDS_BODY = kinds("then else elif fi done")
_NO_COMMAND = kinds("{ } ( ) comment")
_WORDS_BEFORE_BODY = kinds("for_statement c_style_for_statement case_statement function_definition")


class _Bodies(_Stages):
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
        gathered = self.gathered
        self._open(node, level, gathered.control if is_arithmetic else gathered.subshells)

    def _open(self, node: Node, level: Level, spans: list[Span]) -> None:
        start, end = node.byte_range
        self.add_span(spans, start, end)
        self.stage(level, start, end)
        inside = Level(nested=level.nested)
        # `for x in a; do b; done`: a is no command, and only substitutions in it matter.
        has_words = node.kind_id in _WORDS_BEFORE_BODY
        for child in reversed(node.children):
            is_word = has_words and child.kind_id not in _BODIES
            self.stack.append((child, None if is_word else inside))

    def case_item(self, node: Node, level: Level) -> None:
        children = node.children
        bracket = next((n for n, child in enumerate(children) if child.kind_id in _CLOSING), -1)
        level.restart()
        self.push(children[bracket + 1 :], level)
        self.push(children[: bracket + 1], None)


# Redirects.

_WORDS = kinds(
    "word number string raw_string ansi_c_string translated_string concatenation $"
    " simple_expansion expansion arithmetic_expansion command_substitution process_substitution"
    " brace_expression"
)
_SKIPPED = kinds("<< <<- file_descriptor")
_DESCRIPTOR = kinds("file_descriptor")
_START = kinds("heredoc_start")
_BODY = kinds("heredoc_body")
_END = kinds("heredoc_end")


def _read_file_redirect(source: Source, node: Node) -> tuple[Redirect, list[Place]]:
    """Return the redirect, and the places of words behind its target: they are the command's."""
    text = source.text
    number = operator = ""
    places: list[Place] = []
    for child in node.children:
        if child.kind_id in _DESCRIPTOR:
            number = text[slice(*child.byte_range)]
        elif not operator:
            operator = child.type
        else:
            places.append(child.byte_range)
    start, end = node.byte_range
    raw = "-"
    if places:
        end = places[0][1]
        raw = text[slice(*places[0])]
    is_heredoc = text.startswith("<<", start)  # it was put in other words
    is_herestring = text.startswith("<<<", start)
    if is_heredoc and not is_herestring:
        raw = raw.lstrip("<- \t")
    target = word_value(raw)[0]
    kind = RedirectKind.of(number, operator, target)
    if is_heredoc:
        kind = RedirectKind.HERESTRING if is_herestring else RedirectKind.HEREDOC
    return Redirect(kind, source.span(start, end), target), places[1:]


# The walk.

_MAX_DEPTH = 8  # substitutions in here-documents inside each other
_MAX_EMBEDDED = 200  # of them in one text; each is parsed by itself
_NAME = compiled(r"[A-Za-z_]\w*+(?:\+?=|\[)", re.ASCII)  # the tree takes --x=y for one too
_NO_TARGET = compiled(r"\w*+(?:\{\w++\})?+[<>&|]++(?:[ \t]++|\\\n)*+(?=\n|#)")
_COMMENT = kinds("comment")
_NOT_WORDS = _REDIRECTS | _COMMENT | kinds("subshell")
_ASSIGNMENT = kinds("variable_assignment")
_LINE_END = compiled(r"\n|\Z|[ \t]*+\)")  # in $( ) the bracket may follow at once
_GLUED_START = compiled(r"<<-?[ \t]*+(?:'[^']*'|\"[^\"]*\"|[^;|&()<>'\"])*+[;|&()<>]")
_MARK = compiled(r"[$`(]")  # without one of these a word holds nothing to visit


class Walk(_Bodies):
    """The walk over the nodes of one source."""

    def __init__(
        self,
        source: Source,
        gathered: Gathered,
        *,
        nested: bool = False,
        depth: int = 0,
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
            self.push([child for child in node.children if child.child_count], None)

    def command(self, node: Node, level: Level) -> None:
        draft = self.command_stage(level, *node.byte_range)
        later: list[tuple[Node, Level | None]] = []
        words: list[Place] = []
        last = -1
        text = self.text
        is_live = self._is_live
        is_cut_wrongly = self.is_odd
        has_error = self._has_error
        for child in node.children:
            kind = child.kind_id
            start, end = place = child.byte_range
            if not words and draft.assignments and self.is_next_line(draft.assigned, start):
                draft = self.command_stage(level, start, draft.end)
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
        if is_cut_wrongly or self._has_lines(words):
            self.add_words(level, draft, words)
        else:
            self.close_words(draft, words)

    def _has_lines(self, words: Sequence[Place]) -> bool:
        return len(words) > 1 and self.text.find("\n", words[0][1], words[-1][0]) > 0

    def redirected(self, node: Node, level: Level) -> None:
        children = node.children
        if children[0].kind_id in _REDIRECTS:  # no command: only redirects
            self.command_stage(level, *node.byte_range)
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
            self.add_span(self.gathered.chains, start, end)
        elif mark == "&":
            self.add_span(self.gathered.background, start, end)
        level.joint, level.joint_at = mark, start

    def test(self, node: Node, level: Level) -> None:
        """[[ ]] is syntax; [ ] is a program with words."""
        start, end = node.byte_range
        if self.text.startswith("[[", start):
            self.stage(level, start, end)
            self.add_span(self.gathered.control, start, end)
        else:
            draft = self.command_stage(level, start, end)
            words = _RAW_WORD.finditer(self.text, start, end)
            self.add_words(level, draft, [word.span() for word in words])
        self.push_words(node)

    def assignments(self, node: Node, level: Level) -> None:
        """Visit assignments without a command."""
        nodes = [node] if node.kind_id in _ASSIGNMENT else node.children
        if not all(_NAME.match(self.text, child.start_byte) for child in nodes):
            self.command(node, level)
            return
        draft = self.command_stage(level, *node.byte_range)
        for child in nodes:
            self.add_assignment(draft, *child.byte_range)
        self.push_words(node)

    def substitution(self, node: Node, _level: Level | None) -> None:
        kind = _SUBSTITUTIONS[node.kind_id]
        start, end = node.byte_range
        is_named = end > start + 1 and self.text[start + 1] not in " \t"
        if kind is SubstitutionKind.PARAMETER and self.is_odd and not is_named:
            return
        self.gathered.substitutions.append((kind, self.source.span(start, end)))
        if kind in (SubstitutionKind.COMMAND, SubstitutionKind.PROCESS):
            self.push(node.children, Level(nested=True))
        else:
            self.push_words(node)

    def file_redirect(self, node: Node, level: Level) -> None:
        redirect, words = _read_file_redirect(self.source, node)
        start, end = node.byte_range
        if start == end:  # the parser put it there
            return
        if "\n" in self.text[start:end] and (cut := _NO_TARGET.match(self.text, start)):
            self.add_error(start, cut.end())
        self.add_redirect(redirect, level)
        self.words_after_redirect(words, level)
        self.push_words(node)

    def heredoc(self, node: Node, level: Level) -> None:
        start, end = node.byte_range
        delimiter_place = body = (end, end)
        head_end = end
        words: list[Node] = []  # of the command before it
        commands: list[Node] = []  # behind it on its line
        for child in node.children:
            kind = child.kind_id
            if kind in _START:
                delimiter_place = child.byte_range
                head_end = delimiter_place[1]
            elif kind in _BODY:
                body = child.byte_range
            elif kind in _WORDS:
                words.append(child)
            elif kind in _END:
                if not _LINE_END.match(self.text, child.end_byte):
                    self.add_misread(*child.byte_range)
            elif kind not in _SKIPPED:
                commands.append(child)
        delimiter, is_quoted, _ = word_value(self.text[slice(*delimiter_place)])
        redirect = Redirect(RedirectKind.HEREDOC, self.source.span(start, head_end), delimiter)
        if _GLUED_START.match(redirect.span.text):
            self.gathered.is_glued = True
        self._add_heredoc(node, body, redirect, level, is_expanded=not is_quoted)
        self.words_after_redirect([word.byte_range for word in words], level)
        self.push(commands, level)
        self.push(words, None)
        if not is_quoted:
            self.read_embedded(*body)

    def herestring(self, node: Node, level: Level) -> None:
        start, end = node.byte_range
        words = (child.byte_range for child in node.children if child.kind_id in _WORDS)
        body = next(words, (end, end))
        value, _, is_dynamic = word_value(self.text[slice(*body)])
        redirect = Redirect(RedirectKind.HERESTRING, self.source.span(start, end), value)
        self._add_heredoc(node, body, redirect, level, is_expanded=is_dynamic)
        self.push_words(node)

    def _add_heredoc(
        self,
        node: Node,
        body: Place,
        redirect: Redirect,
        level: Level,
        *,
        is_expanded: bool,
    ) -> None:
        span = self.source.span(*node.byte_range)
        self.gathered.heredocs.append(Heredoc(self.source.span(*body), span, is_expanded))
        self.add_redirect(redirect, level)

    def read_embedded(self, start: int, end: int) -> None:
        """Read the substitutions of a stretch of text that the tree holds as plain characters."""
        for embedded in embedded_in(self.text, start, end):
            span = self.source.span(embedded.start, embedded.end)
            self.gathered.substitutions.append((embedded.kind, span))
            may_go_on = self._depth < _MAX_DEPTH and self.gathered.embedded < _MAX_EMBEDDED
            if embedded.inside and may_go_on:
                # Each is parsed by itself, so their number is bounded as well as their depth.
                self.gathered.embedded += 1
                inner = self.source.part(*embedded.inside)
                Walk(inner, self.gathered, nested=True, depth=self._depth + 1).run()

    def negation(self, node: Node, _level: Level) -> None:
        start, end = node.byte_range
        if self.text[end : end + 1] in "\"'$`":  # part of the word behind it
            self._glued = end
        else:
            self.add_span(self.gathered.negations, start, end)

    def _add_missing(self, node: Node) -> None:
        """Record an error for what the parser had to insert.

        For a closing quote, the error covers all that the quote would close.
        """
        start, end = node.byte_range
        parent = node.parent
        if parent and node.type == '"':
            start = parent.start_byte
        self.add_error(start, end)

    def error(self, node: Node, level: Level | None) -> None:
        self.add_error(*node.byte_range)
        self.push(node.children, level)


_RAW_WORD = compiled(
    r"""(?:[^ \t\n'"\\$`]++|'[^']*+'|"(?:[^"\\]++|\\(?s:.))*+"|\\(?s:.)|\$\([^)]*+\)"""
    r"""|\$\{[^}]*+\}|`[^`]*+`|(?s:.)(?<![ \t\n]))++"""
)
_KINDS_OF_SUBSTITUTION = {
    "arithmetic_expansion": SubstitutionKind.ARITHMETIC,
    "command_substitution": SubstitutionKind.COMMAND,
    "expansion": SubstitutionKind.PARAMETER,
    "process_substitution": SubstitutionKind.PROCESS,
    "simple_expansion": SubstitutionKind.PARAMETER,
}
_SUBSTITUTIONS = by_kind(_KINDS_OF_SUBSTITUTION)
_FIND: dict[str, Callable[[Walk, Node, Level | None], None]] = {
    "ERROR": Walk.error,
    **dict.fromkeys(_KINDS_OF_SUBSTITUTION, Walk.substitution),
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
_VISIT |= dict.fromkeys(names("| |& && || ; &"), Walk.operator)
_VISIT |= dict.fromkeys(names("then do else elif fi done esac ;; ;& ;;&"), Walk.restart)
_COMPOUND = names(
    "if_statement while_statement for_statement c_style_for_statement case_statement"
    " function_definition"
)
_VISIT |= dict.fromkeys(_COMPOUND, Walk.compound)
_ANYWHERE = by_kind(_FIND)
_IN_LISTS = by_kind({**_FIND, **_VISIT})
