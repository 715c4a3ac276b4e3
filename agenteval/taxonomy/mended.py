"""Facts about shell text that bash can parse and the parse tree cannot.

Each known mistake of the tree is put in other words (`mends`). Those are read in place of the text
only when the tree has nothing left to complain about, and only to explain a denial.
"""

import re
from collections.abc import Callable, Iterator

from agenteval.core.shell.fact_reader import read_facts
from agenteval.core.shell.facts import ShellFacts
from agenteval.core.shell.source import without_heredocs
from agenteval.core.shell.words import compiled

# The tree takes what stands so before a compound command for a program, and its words for more.
_BEFORE_COMPOUND = compiled(
    r"(?<![^\s;&|({])(?:(?:!|time(?:[ \t]++-p)?(?:[ \t]++--)?|coproc(?:[ \t]++\w++)?)[ \t]++){1,3}"
    r"(?=(?:\{|\[\[|if|for|while|until|case|select)[ \t\n])"
)
# A function's body needs no brackets around it where it is a compound command.
_BEFORE_BODY = compiled(
    r"(?<![^\s;&|({])(?:function[ \t]++[\w.:-]++(?:[ \t]*+\([ \t]*+\))?+"
    r"|[\w.:-]++[ \t]*+\([ \t]*+\))\s++(?=(?:for|while|until|case|select)[ \t\n(])"
)
_PATTERNS = compiled(r"[?*+@!]\([^()'\"`]*+\)")  # in [[ ]] bash takes them without extglob
_START = r"((?:\A|[;&|(\n]|\b(?:do|elif|else|if|then|until|while)\b|!)[ \t]*+)"  # of a command


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _not_blank(found: re.Match[str]) -> str:
    inside = found[0][1:-1]
    return found[0] if inside.strip() else f'"{inside}"'


def _without_patterns(found: re.Match[str]) -> str:
    return _PATTERNS.sub(lambda pattern: "_" * len(pattern[0]), found[0])


def _ones(found: re.Match[str]) -> str:
    return "1" * len(found[0])


_MENDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BEFORE_COMPOUND, _blank),
    (compiled(r"(?<=[\w\s])\bin(?=[ \t]*+[;\n])"), _blank),
    (compiled(r"\(\(([^()]*+)\)([ \t]++)\)"), r" (\1)\2 "),
    (compiled(r"(?<=[\w)])([-+])\1(?=[ \t]*+[\w$(])"), r"+0"),
    (compiled(r"(?<=[ \t])#[^\n'\"`]*+(?=\n|\Z)"), _blank),
    (_BEFORE_BODY, _blank),
    (compiled(r"\{(\([^(){}]*+\))\}"), r" \1 "),
    (
        compiled(
            r"(\b(?:done|esac|fi)|[\n;&][ \t]*+\}|\)|\]\])[ \t]"
            r"(?=(?:[ \t]|\\\n)*+(?:\}|\b(?:do|done|elif|else|esac|fi|then)\b))"
        ),
        r"\1;",
    ),
    (compiled("<>"), ">>"),
    (compiled(r"\{\w++\}(?=[<>])"), lambda found: "9" * len(found[0])),
    (
        compiled(r"\$\[((?:[^\[\]\n]*+\[[^\[\]\n]*+\])++[^\[\]\n]*+)\]"),
        lambda found: f"$[{found[1].replace('[', '(').replace(']', ')')}]",
    ),
    (compiled(r"\$\(\([ \t]*+\)\)"), lambda found: f"${{{'_' * (len(found[0]) - 3)}}}"),
    (compiled(r"\b(?:[0-9]++#|0[xX])\$(?:\w++|\{\w++\})"), _ones),
    (compiled(r"\[(!?)\]"), r"[\1_"),
    (
        compiled(r"\bfor[ \t]*+\(\([^()\n]*+\)\)"),
        lambda found: re.sub(r"(?<=[(;])[^(;]++(?=[;)])", _ones, found[0]),
    ),
    (compiled(r";&(?=\s*+esac\b)"), ";;"),
    (compiled(_START + r"[\[{](?=[^\s\[{(])"), r"\1_"),
    (compiled(_START + r"(\w++)\[(\w*+)\](?=[\s;|&]|\Z)"), r"\1\2_\3_"),
    (compiled(_START + r"\[(?=[ \t])"), r"\1_"),
    (compiled(_START + r"\}(?=[^\s;|&()<>])"), r"\1_"),
    (compiled(_START + r"!(?=[ \t]*+(?:[;\n]|\Z))"), r"\1:"),
    (compiled(r"`(?:[^`\\]++|\\(?s:.))*+`"), _not_blank),
    (compiled(r"\[\[[ \t][^\n]*?[ \t]\]\]"), _without_patterns),
    (
        compiled(r"(\$\{\w++)\[([^]{}'\"`\n]++)\]"),
        lambda found: f"{found[1]}[{'_' * len(found[2])}]",
    ),
    (compiled(r"\$(?=[^\x00-\x7f])"), "_"),
    (compiled(r"(?<!\\)\$(?=[`\\])"), "_"),
    (compiled(r"\$\{[^{}'`$\n]++\}"), lambda found: f"${{{'_' * (len(found[0]) - 3)}}}"),
    (compiled(r"(?<!\\)((?:\\\\)*+)\\[$`]"), r"\1__"),
    (compiled(r"(?<!\\)((?:\\\\)*+)\\\Z"), r"\1_"),
)


def mended(text: str) -> Iterator[str]:
    """The text in other words, in the order in which they are worth a try."""
    other = text
    for mistake, cure in _MENDS:
        other = mistake.sub(cure, other)
    yield other
    yield without_heredocs(other)[0]


_EMPTY = compiled(r"[$<>]\((?:[ \t\n]|#[^\n]*+\n)*+\)")
_LONGEST = 16_384  # of a text that is read twice; agents' commands are shorter


def facts_of(text: str, *, is_readable: bool = False) -> ShellFacts:
    """Return the facts of a denied text; its `errors` are those that bash has with it too.

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
    """Return the facts with each lone `!` as a negation.

    Bash takes a `!` that no command follows, and a mend puts a command there.
    """
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
