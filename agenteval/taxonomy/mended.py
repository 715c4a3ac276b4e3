"""Facts about shell text that bash can parse and the parse tree cannot.

Each known mistake of the tree is put in other words (`mends`). Those are read in place of the text
only when the tree has nothing left to complain about, and only to explain a denial.
"""

import re

from agenteval.core.shell.fact_reader import read_facts
from agenteval.core.shell.facts import ShellFacts
from agenteval.taxonomy.mends import mended

_EMPTY = re.compile(r"[$<>]\((?:[ \t\n]|#[^\n]*+\n)*+\)")
_LONGEST = 16_384  # of a text that is read twice; agents' commands are shorter


def facts_of(text: str, *, is_readable: bool = False) -> ShellFacts:
    """What stands in a denied text; its `errors` are those that bash has with it too.

    `is_readable` as for `read_facts`.
    """
    shell = read_facts(text, is_readable=is_readable)
    if not shell.errors:
        return shell
    shell = _without_wanted_commands(shell)
    if len(text) > _LONGEST or not shell.errors:
        return shell
    for other in mended(text):
        if other != text:
            again = _without_wanted_commands(read_facts(text, parsed_as=other))
            if not again.errors:
                return _with_lone_negations(again)
    return shell


def _with_lone_negations(shell: ShellFacts) -> ShellFacts:
    """Bash takes a `!` that no command follows, for which a mend puts one."""
    lone = [
        command
        for command in shell.commands
        if command.words.first == "!" and command.words[0].span.text == "!"
    ]
    return shell._replace(
        commands=[command for command in shell.commands if command not in lone],
        negations=[*shell.negations, *(command.words[0].span for command in lone)],
    )


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
