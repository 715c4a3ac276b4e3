"""The facts about a shell text: what explains why a call was denied."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from agenteval.core.shell.facts import Command, ShellFacts
from agenteval.core.shell.flat import read_flat
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.shell.source import Source
from agenteval.core.shell.word_list import Words
from agenteval.core.shell.wrappers import is_wrapper, program_name, unwrap
from agenteval.core.span import Span, new

if TYPE_CHECKING:
    from agenteval.core.shell.draft import Gathered

# Reserved words that only go on with, or end, what another one has begun.
_INNER = frozenset(("do", "done", "elif", "else", "esac", "fi", "in", "then", "}"))
MAX_WRAPPED = 8  # wrappers and nested shells inside each other that are seen through


def read_facts(text: str, *, is_readable: bool = False, parsed_as: str = "") -> ShellFacts:
    """Everything the taxonomy may ask about a text, read by tree-sitter-bash. Never raises.

    Flat text is read without it, in a third of the time. `is_readable` when the gate has found no
    control character in it. `parsed_as` is the text in words that the parser gets right, each in
    its place.
    """
    source = Source(text, parsed_as=parsed_as)
    facts = None if parsed_as else read_flat(source, is_readable=is_readable)
    return _with_inner(facts or _walked(source, ()), text)


@cache
def _gathered() -> "Callable[[Source], Gathered]":
    from agenteval.core.shell.readings import gathered  # noqa: PLC0415 -- most need no tree

    return gathered


def _walked(source: Source, via: tuple[str, ...]) -> ShellFacts:
    found = _gathered()(source)
    facts = found.freeze(source.text, via)
    if facts.errors and (source.is_cut or isinstance(read_leaves(source.text), Leaves)):
        # Our doing, or the tree is wrong: the splitter accounts for everything.
        facts = facts._replace(errors=())
    if not via and (strays := _strays(facts)):
        facts = facts._replace(errors=[*facts.errors, *strays])
    return facts


def _strays(facts: ShellFacts) -> list[Span]:
    """The reserved words that stand where a command begins and have nothing to end there."""
    return [
        command.words[0].span
        for command in facts.commands
        if command.words.first in _INNER
        and command.words[0].span.text in _INNER  # not quoted
        and not command.assignments
        and all(redirect.span.start > command.words[0].span.start for redirect in command.redirects)
    ]


def _with_inner(facts: ShellFacts, whole: str) -> ShellFacts:
    """With what stands behind wrappers, in a text or in one that a nested shell gets to read."""
    for command in facts.commands:
        if is_wrapper(command.words.first):
            return _unwrapped(facts, whole)
    return facts


def _unwrapped(facts: ShellFacts, whole: str) -> ShellFacts:
    inner: list[ShellFacts] = []
    commands: list[Command] = []
    for command in facts.commands:
        commands.append(command)
        if is_wrapper(command.words.first):
            commands += _inside(command, inner, whole)
    if len(commands) == len(facts.commands):
        return facts
    return new(ShellFacts, (facts.text, commands, *facts[2:-1], inner))


def _inside(outer: Command, inner: list[ShellFacts], whole: str) -> Iterator[Command]:
    if len(outer.via) == MAX_WRAPPED:
        return
    argv = outer.words.argv
    via = (*outer.via, program_name(argv[0]))
    for begin, stop, is_text in unwrap(argv):
        words = outer.words[begin:stop]
        if is_text:
            source = _nested_source(words, whole)
            facts = read_flat(source, via) or _walked(source, via)
            facts = _with_inner(facts, whole)
            inner.append(facts)
            yield from facts.commands
        else:
            command = new(Command, (words, words.extent, (), (), via, outer.nested))
            yield command
            if is_wrapper(words.first):
                yield from _inside(command, inner, whole)


def _nested_source(words: Words, whole: str) -> Source:
    """The text a nested shell reads, placed where the whole text holds it as it is."""
    text = " ".join(words.argv)
    start, end = words.extent
    at = whole.find(text, start, end)
    return Source(text, at) if at >= 0 else Source(text, 0, Span(start, end, whole[start:end]))
