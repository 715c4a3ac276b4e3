"""Known mistakes of the parse tree, put in other words of the same length.

Only where they stand counts: what is shown is always the text as the model wrote it.
"""

import re
from collections.abc import Callable, Iterator

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
_HEREDOC = re.compile(
    r"(?<!<)<<(-?)([ \t]*+)(?:(['\"])([^'\"\n\\$`]*+)\3|([^\s;&|()<>'\"\\$`]++))(?=[\s;&|()<>]|\Z)"
)
_ROOM = len("<<<_")
_OPERATOR = re.compile(r"[;|&()<>]")


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _ones(found: re.Match[str]) -> str:
    return "1" * len(found[0])


_MENDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BEFORE_COMPOUND, _blank),
    (_BEFORE_BODY, _blank),
    (re.compile(r"\{(\([^(){}]*+\))\}"), r" \1 "),
    (re.compile(r"(\b(?:done|esac|fi)|[)}]|\]\])[ \t](?=[ \t]*+\})"), r"\1;"),
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
    (
        re.compile(r"((?:\A|[;&|(\n])[ \t]*+)\{([^\s{},'\"\\$`]*+,[^\s{}'\"\\$`]*+)\}"),
        lambda found: f"{found[1]}_{found[2].replace(',', '_')}_",
    ),
    (re.compile(r"((?:\A|[;&|(\n])[ \t]*+)\[(?=[^\s\[])"), r"\1_"),
    (re.compile("``"), '""'),
    (re.compile(r"\$(?=[^\x00-\x7f])"), "_"),
    (re.compile(r"\$\{\w++:?[-=+?][^{}'\"`\n]*+\}"), lambda found: _OPERATOR.sub("_", found[0])),
    (re.compile(r"(?<!\\)((?:\\\\)*+)\\[$`]"), r"\1__"),
    (re.compile(r"(?<!\\)((?:\\\\)*+)\\\Z"), r"\1_"),
)


def mended(text: str) -> Iterator[str]:
    """The text in other words, in the order in which they are worth a try."""
    other = text
    for mistake, cure in _MENDS:
        other = mistake.sub(cure, other)
    yield _closed(other)
    yield _without_heredocs(other)


def _closed(text: str) -> str:
    """With an end for each here-document that goes on to the end of the text: bash only warns."""
    lines = {line.lstrip("\t") for line in text.split("\n")}
    words = [found[4] or found[5] for found in _HEREDOC.finditer(text)]
    open_ones = [word for word in words if word and word not in lines]
    return "\n".join((text, *open_ones)) if open_ones else text


def _without_heredocs(text: str) -> str:
    """Here-strings in place of here-documents, and blanks in place of what these hold."""
    at = 0
    while found := _HEREDOC.search(text, at):
        tabs, word = r"\t*" if found[1] else "", found[4] or found[5] or ""
        at = found.end()
        if len(found[0]) < _ROOM:
            continue
        text = text[: found.start()] + "<<<".ljust(len(found[0]), "_") + text[at:]
        begin = text.find("\n", at)
        if begin >= 0:
            last = re.compile(rf"\n{tabs}{re.escape(word)}(?=\n|\Z)").search(text, begin)
            end = last.end() if last else len(text)
            text = text[: begin + 1] + " " * (end - begin - 1) + text[end:]
    return text
