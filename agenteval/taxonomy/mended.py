"""Facts about shell text that bash can parse and the parse tree cannot, and about stray words.

Each known mistake of the tree is put in other words (`mends`). Those are read in place of the text
only when the tree has nothing left to complain about, and only to explain a denial.
"""

import re

from agenteval.core.shell.fact_reader import read_facts
from agenteval.core.shell.facts import ShellFacts, Span
from agenteval.taxonomy.mends import mended

# Reserved words that only go on with, or end, what another one has begun.
_INNER = frozenset(("do", "done", "elif", "else", "esac", "fi", "in", "then", "}"))
_NO_PROGRAMS = _INNER | {"!"}
_EMPTY = re.compile(r"[$<>]\((?:[ \t\n]|#[^\n]*+\n)*+\)")
_LONGEST = 16_384  # of a text that is read twice; agents' commands are shorter


def facts_of(text: str) -> ShellFacts:
    """What stands in a denied text.

    `errors` are those that bash has with it too, and the reserved words where none may stand.
    """
    shell = _facts_of(text)
    if len(text) > _LONGEST or not shell.errors:
        return shell
    for other in mended(text):
        if other != text:
            again = _facts_of(text, other)
            if not again.errors:
                return again
    return shell


def _facts_of(text: str, parsed_as: str = "") -> ShellFacts:
    shell = read_facts(text, parsed_as=parsed_as)
    if shell.errors:
        shell = _without_wanted_commands(shell)
    if not _NO_PROGRAMS.isdisjoint([command.words.first for command in shell.commands]):
        shell = _with_lone_negations(shell)
        shell = shell._replace(errors=[*shell.errors, *_strays(shell)])
    return shell


def _with_lone_negations(shell: ShellFacts) -> ShellFacts:
    """Bash takes a `!` that no command follows, for which a mend puts one."""
    lone = [
        command
        for command in shell.commands
        if command.argv == ("!",) and command.words[0].span.text == "!"
    ]
    return shell._replace(
        commands=[command for command in shell.commands if command not in lone],
        negations=[*shell.negations, *(command.words[0].span for command in lone)],
    )


def _strays(shell: ShellFacts) -> list[Span]:
    """The reserved words that stand where a command begins and have nothing to end there."""
    return [
        command.words[0].span
        for command in shell.commands
        if command.program in _INNER
        and command.words[0].span.text in _INNER  # not quoted
        and not (command.via or command.assignments)
        and all(redirect.span.start > command.words[0].span.start for redirect in command.redirects)
    ]


def _without_wanted_commands(shell: ShellFacts) -> ShellFacts:
    """Without the command that the tree wants after `A=1 >f` and in `$( )`; bash needs none."""
    if all(span.text for span in shell.errors):
        return shell
    ends = {
        command.redirects[-1].span.end
        for command in shell.commands
        if command.assignments and command.redirects and not command.words
    }
    for _, span in shell.substitutions:
        if _EMPTY.fullmatch(span.text):
            ends.update(range(span.start, span.end))
    errors = [span for span in shell.errors if span.text or span.start not in ends]
    return shell._replace(errors=errors)
