"""Known mistakes of the parse tree, put in other words of the same length.

Only where they stand counts: what is shown is always the text as the model wrote it.
"""

import re
from collections.abc import Callable, Iterator

from agenteval.core.shell.heredocs import without_heredocs

# The tree takes what stands so before a compound command for a program, and its words for more.
_BEFORE_COMPOUND = re.compile(
    r"(?<![^\s;&|({])(?:(?:!|time(?:[ \t]++-p)?(?:[ \t]++--)?|coproc(?:[ \t]++\w++)?)[ \t]++){1,3}"
    r"(?=(?:\{|\[\[|if|for|while|until|case|select)[ \t\n])"
)
# A function's body needs no brackets around it where it is a compound command.
_BEFORE_BODY = re.compile(
    r"(?<![^\s;&|({])(?:function[ \t]++[\w.:-]++(?:[ \t]*+\([ \t]*+\))?+"
    r"|[\w.:-]++[ \t]*+\([ \t]*+\))\s++(?=(?:for|while|until|case|select)[ \t\n(])"
)
_PATTERNS = re.compile(r"[?*+@!]\([^()'\"`]*+\)")  # in [[ ]] bash takes them without extglob
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
    (_BEFORE_BODY, _blank),
    (re.compile(r"\{(\([^(){}]*+\))\}"), r" \1 "),
    (
        re.compile(
            r"(\b(?:done|esac|fi)|[\n;&][ \t]*+\}|\)|\]\])[ \t]"
            r"(?=(?:[ \t]|\\\n)*+(?:\}|\b(?:do|done|elif|else|esac|fi|then)\b))"
        ),
        r"\1;",
    ),
    (re.compile("<>"), ">>"),
    (re.compile(r"\{\w++\}(?=[<>])"), lambda found: "9" * len(found[0])),
    (
        re.compile(r"\$\[((?:[^\[\]\n]*+\[[^\[\]\n]*+\])++[^\[\]\n]*+)\]"),
        lambda found: f"$[{found[1].replace('[', '(').replace(']', ')')}]",
    ),
    (re.compile(r"\$\(\([ \t]*+\)\)"), lambda found: f"${{{'_' * (len(found[0]) - 3)}}}"),
    (re.compile(r"\b(?:[0-9]++#|0[xX])\$(?:\w++|\{\w++\})"), _ones),
    (re.compile(r"\[(!?)\]"), r"[\1_"),
    (
        re.compile(r"\bfor[ \t]*+\(\([^()\n]*+\)\)"),
        lambda found: re.sub(r"(?<=[(;])[^(;]++(?=[;)])", _ones, found[0]),
    ),
    (re.compile(r";&(?=\s*+esac\b)"), ";;"),
    (re.compile(_START + r"[\[{](?=[^\s\[{(])"), r"\1_"),
    (re.compile(_START + r"\[(?=[ \t])"), r"\1_"),
    (re.compile(_START + r"\}(?=[^\s;|&()<>])"), r"\1_"),
    (re.compile(_START + r"!(?=[ \t]*+(?:[;\n]|\Z))"), r"\1:"),
    (re.compile(r"`(?:[^`\\]++|\\(?s:.))*+`"), _not_blank),
    (re.compile(r"\[\[[ \t][^\n]*?[ \t]\]\]"), _without_patterns),
    (
        re.compile(r"(\$\{\w++)\[([^]{}'\"`\n]++)\]"),
        lambda found: f"{found[1]}[{'_' * len(found[2])}]",
    ),
    (re.compile(r"\$(?=[^\x00-\x7f])"), "_"),
    (re.compile(r"(?<!\\)\$(?=[`\\])"), "_"),
    (re.compile(r"\$\{[^{}'`$\n]++\}"), lambda found: f"${{{'_' * (len(found[0]) - 3)}}}"),
    (re.compile(r"(?<!\\)((?:\\\\)*+)\\[$`]"), r"\1__"),
    (re.compile(r"(?<!\\)((?:\\\\)*+)\\\Z"), r"\1_"),
)


def mended(text: str) -> Iterator[str]:
    """The text in other words, in the order in which they are worth a try."""
    other = text
    for mistake, cure in _MENDS:
        other = mistake.sub(cure, other)
    yield other
    yield without_heredocs(other)[0]
