"""The facts about a shell text: what explains why a call was denied."""

from collections.abc import Iterator

from agenteval.core.shell.facts import Command, ShellFacts, Span, Words
from agenteval.core.shell.flat import read_flat
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.shell.source import Source
from agenteval.core.shell.wrappers import is_wrapper, program_name, unwrap

MAX_WRAPPED = 8  # wrappers and nested shells inside each other that are seen through


def read_facts(text: str, *, parsed_as: str = "") -> ShellFacts:
    """Everything the taxonomy may ask about a text, read by tree-sitter-bash. Never raises.

    Flat text is read without it, in a third of the time. `parsed_as` is the text in words that
    the parser gets right, each in its place.
    """
    source = Source(text, parsed_as=parsed_as)
    facts = None if parsed_as else read_flat(source)
    return _with_inner(facts or _walked(source, ()), text)


def _walked(source: Source, via: tuple[str, ...]) -> ShellFacts:
    from agenteval.core.shell.readings import gathered  # noqa: PLC0415 -- start-up: most need no tree

    found = gathered(source)
    facts = found.freeze(source.text, via)
    if facts.errors and (source.is_cut or isinstance(read_leaves(source.text), Leaves)):
        # Our doing, or the tree is wrong: the splitter accounts for everything.
        return facts._replace(errors=())
    return facts


def _with_inner(facts: ShellFacts, whole: str) -> ShellFacts:
    """With what stands behind wrappers, in a text or in one that a nested shell gets to read."""
    for command in facts.commands:
        if is_wrapper(command.words.first):
            return _Unwrapper(whole).facts(facts)
    return facts


class _Unwrapper:
    def __init__(self, whole: str) -> None:
        self._whole = whole

    def facts(self, facts: ShellFacts) -> ShellFacts:
        inner: list[ShellFacts] = []
        commands: list[Command] = []
        for command in facts.commands:
            commands.append(command)
            if is_wrapper(command.program):
                commands.extend(self._inside(command, inner))
        return facts._replace(commands=commands, inner=inner)

    def _inside(self, outer: Command, inner: list[ShellFacts]) -> Iterator[Command]:
        if len(outer.via) == MAX_WRAPPED:
            return
        via = (*outer.via, program_name(outer.program))
        for begin, stop, is_text in unwrap(outer.argv):
            words = outer.words[begin:stop]
            if is_text:
                source = self._nested_source(words)
                facts = read_flat(source, via) or _walked(source, via)
                facts = _with_inner(facts, self._whole)
                inner.append(facts)
                yield from facts.commands
            else:
                command = Command(words, self._extent(words), via=via, nested=outer.nested)
                yield command
                yield from self._inside(command, inner)

    def _nested_source(self, words: Words) -> Source:
        """The text a nested shell reads, placed where the whole text holds it as it is."""
        text = " ".join(words.argv)
        extent = self._extent(words)
        at = self._whole.find(text, extent.start, extent.end)
        return Source(text, at) if at >= 0 else Source(text, 0, extent)

    def _extent(self, words: Words) -> Span:
        start, end = words.extent
        return Span(start, end, self._whole[start:end])
