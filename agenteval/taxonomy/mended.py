"""Facts about shell text that bash can parse and the parse tree cannot, and about stray words.

Each known mistake of the tree is put in other words of the same length. Those are read in place
of the text only when the tree has nothing left to complain about, and only to explain a denial.
"""

import re
from collections.abc import Callable

from agenteval.core.shell.fact_reader import read_facts
from agenteval.core.shell.facts import ShellFacts, Span

# Reserved words that only go on with, or end, what another one has begun.
_INNER = frozenset(("do", "done", "elif", "else", "esac", "fi", "in", "then", "}"))
# The tree takes what stands so before a compound command for a program, and its words for more.
_BEFORE_COMPOUND = re.compile(
    r"(?<![^\s;&|({])(?:(?:!|time(?:[ \t]++-p)?(?:[ \t]++--)?|coproc(?:[ \t]++\w++)?)[ \t]++){1,3}"
    r"(?=(?:\{|\[\[|if|for|while|until|case|select)[ \t\n])"
)
_LONGEST = 16_384  # of a text that is read twice; agents' commands are shorter
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w++)\1")


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


_MENDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BEFORE_COMPOUND, _blank),
    (re.compile(r"\b(done|esac|fi)[ \t](?=[ \t]*+\})"), r"\1;"),
    (re.compile("<>"), ">>"),
    (re.compile(r"\{\w++\}(?=[<>])"), lambda found: "9" * len(found[0])),
    (
        re.compile(r"\$\[((?:[^\[\]\n]*+\[[^\[\]\n]*+\])++[^\[\]\n]*+)\]"),
        lambda found: f"$[{found[1].replace('[', '(').replace(']', ')')}]",
    ),
    (re.compile(r"\[(!?)\]"), r"[\1_"),
    (
        re.compile(r"\bfor[ \t]*+\(\([^()\n]*+\)\)"),
        lambda found: re.sub(r"(?<=[(;])[^(;]++(?=[;)])", _ones, found[0]),
    ),
    (re.compile(r";&(?=\s*+esac\b)"), ";;"),
    (
        re.compile(r"((?:\A|[;&|(\n])[ \t]*+)\{([^\s{},'\"\\$`]*+,[^\s{}'\"\\$`]*+)\}"),
        lambda found: f"{found[1]}_{found[2].replace(',', '_')}_",
    ),
    (re.compile(r"(?<!\\)((?:\\\\)*+)\\\Z"), r"\1_"),
)


def _ones(found: re.Match[str]) -> str:
    return "1" * len(found[0])


def facts_of(text: str) -> ShellFacts:
    """What stands in a denied text. `errors` are those that bash has with it too."""
    shell = _without_wanted_commands(read_facts(text))
    if len(text) > _LONGEST or not (shell.errors or strays(shell)):
        return shell
    mended = text
    for mistake, other in _MENDS:
        mended = mistake.sub(other, mended)
    mended = _closed(mended)
    if mended == text:
        return shell
    again = _without_wanted_commands(read_facts(mended))
    return shell if again.errors or strays(again) else again


def strays(shell: ShellFacts) -> list[Span]:
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
    """Without the command that the tree wants after `A=1 >f`; bash needs none."""
    if all(span.text for span in shell.errors):
        return shell
    ends = {
        command.redirects[-1].span.end
        for command in shell.commands
        if command.assignments and command.redirects and not command.words
    }
    errors = [span for span in shell.errors if span.text or span.start not in ends]
    return shell._replace(errors=errors)


def _closed(text: str) -> str:
    """With an end for each here-document that goes on to the end of the text: bash only warns."""
    lines = {line.lstrip("\t") for line in text.split("\n")}
    open_ones = [found[2] for found in _HEREDOC.finditer(text) if found[2] not in lines]
    return "\n".join((text, *open_ones)) if open_ones else text
