"""Redirects in a parse tree, and the words and commands that the tree files under them."""

from dataclasses import dataclass, field

from tree_sitter import Node

from agenteval.core.shell.facts import Heredoc, Redirect, RedirectKind
from agenteval.core.shell.source import Source
from agenteval.core.shell.tree import kinds
from agenteval.core.shell.words import word_value
from agenteval.core.span import Place

_WORDS = kinds("word", "number", "string", "raw_string", "ansi_c_string", "translated_string")
_WORDS |= kinds("concatenation", "simple_expansion", "expansion", "arithmetic_expansion", "$")
_WORDS |= kinds("command_substitution", "process_substitution", "brace_expression")
_SKIPPED = kinds("<<", "<<-", "file_descriptor")
_DESCRIPTOR = kinds("file_descriptor")
_START = kinds("heredoc_start")
_BODY = kinds("heredoc_body")
_END = kinds("heredoc_end")


def read_file_redirect(source: Source, node: Node) -> tuple[Redirect, list[Place]]:
    """The redirect, and the places of words behind its target that belong to the command."""
    number = operator = ""
    places: list[Place] = []
    for child in node.children:
        if child.kind_id in _DESCRIPTOR:
            number = source.text[slice(*child.byte_range)]
        elif not operator:
            operator = child.type
        else:
            places.append(child.byte_range)
    start, end = node.byte_range
    if places:
        end = places[0][1]
    raw = source.text[slice(*places[0])] if places else "-"
    if source.text.startswith("<<<", start):  # put in other words
        kind, target = RedirectKind.HERESTRING, word_value(raw)[0]
    elif source.text.startswith("<<", start):
        kind, target = RedirectKind.HEREDOC, word_value(raw.lstrip("<- \t"))[0]
    else:
        target = word_value(raw)[0]
        kind = RedirectKind.of(number, operator, target)
    return Redirect(kind, source.span(start, end), target), places[1:]


@dataclass(slots=True)
class HeredocParts:
    """A here-document or here-string taken apart.

    `words` belong to the command before it, `commands` follow on its line; in `body`, which is
    None for a here-string, bash expands. `end` is where the tree saw the delimiter again.
    """

    heredoc: Heredoc
    redirect: Redirect
    words: list[Node] = field(default_factory=list)
    commands: list[Node] = field(default_factory=list)
    body: Place | None = None
    end: Place | None = None


def read_heredoc(source: Source, node: Node) -> HeredocParts:
    start, end = node.byte_range
    head_end = end
    body = (end, end)
    start_place = (end, end)
    words: list[Node] = []
    commands: list[Node] = []
    end_place = None
    for child in node.children:
        kind = child.kind_id
        if kind in _START:
            start_place = child.byte_range
            head_end = start_place[1]
        elif kind in _BODY:
            body = child.byte_range
        elif kind in _END:
            end_place = child.byte_range
        elif kind in _WORDS:
            words.append(child)
        elif kind not in _SKIPPED:
            commands.append(child)
    delimiter, is_quoted, _ = word_value(source.text[slice(*start_place)])
    heredoc = Heredoc(source.span(*body), source.span(start, end), not is_quoted)
    redirect = Redirect(RedirectKind.HEREDOC, source.span(start, head_end), delimiter)
    in_body = None if is_quoted else body
    return HeredocParts(heredoc, redirect, words, commands, in_body, end_place)


def read_herestring(source: Source, node: Node) -> HeredocParts:
    start, end = node.byte_range
    body = next((c.byte_range for c in node.children if c.kind_id in _WORDS), (end, end))
    value, _, dynamic = word_value(source.text[slice(*body)])
    span = source.span(start, end)
    heredoc = Heredoc(source.span(*body), span, dynamic)
    return HeredocParts(heredoc, Redirect(RedirectKind.HERESTRING, span, value))
