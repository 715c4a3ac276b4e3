"""The facts about a shell text: what explains why a call was denied."""

from collections.abc import Iterator

from agenteval.core.shell.draft import Gathered
from agenteval.core.shell.facts import Command, ShellFacts, Span, Words
from agenteval.core.shell.flat import read_flat
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.shell.source import Source
from agenteval.core.shell.wrappers import is_wrapper, program_name, unwrap

MAX_WRAPPED = 8  # wrappers and nested shells inside each other that are seen through


def read_facts(text: str) -> ShellFacts:
    """Everything the taxonomy may ask about a text, read by tree-sitter-bash. Never raises.

    Flat text is read without it, in a third of the time.
    """
    return _Reader(text).facts(Source(text), ())


def _walked(source: Source) -> Gathered:
    from agenteval.core.shell.walk import Walk  # noqa: PLC0415 -- start-up: most need no tree

    found = Gathered()
    Walk(source, found).run()
    return found


class _Reader:
    def __init__(self, whole: str) -> None:
        self._whole = whole

    def facts(self, source: Source, via: tuple[str, ...]) -> ShellFacts:
        """The facts about a text, which may be one that a nested shell gets to read."""
        found = read_flat(source) or _walked(source)
        errors = found.errors
        if errors and (source.is_cut or isinstance(read_leaves(source.text), Leaves)):
            errors = []  # our doing, or the tree is wrong: the splitter accounts for everything
        inner: list[ShellFacts] = []
        commands: list[Command] = []
        for draft in found.drafts:
            if not draft.is_empty:
                command = draft.freeze(via)
                commands.append(command)
                if command.words and is_wrapper(command.program):
                    commands.extend(self._inside(command, inner))
        return ShellFacts(  # by place, which takes half as long as by name
            source.text,
            commands,
            [tuple([d.freeze(via) for d in drafts]) for drafts in found.pipelines],
            found.chains,
            found.redirects,
            found.heredocs,
            found.substitutions,
            found.assignments,
            found.background,
            found.subshells,
            found.control,
            found.negations,
            errors,
            inner,
        )

    def _inside(self, outer: Command, inner: list[ShellFacts]) -> Iterator[Command]:
        if len(outer.via) == MAX_WRAPPED:
            return
        via = (*outer.via, program_name(outer.program))
        for begin, stop, is_text in unwrap(outer.argv):
            words = outer.words[begin:stop]
            if is_text:
                facts = self.facts(self._nested_source(words), via)
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
        places = words.places
        start, end = places[0][0], places[-1][1]
        return Span(start, end, self._whole[start:end])
