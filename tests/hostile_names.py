"""Names that would leave their line or cell, and who would obey what stands behind them."""

import random
import re
from collections.abc import Iterator

NAME = "x\n::add-mask::y\r::warning::z\u2028 ::error::w\t##[group]g ##vso[task.x]v ##teamcity[m]"
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
PIECES = (
    *LINE_ENDS,
    *"\t \0\x1b\x07\x7f\x9b\u200b\u202e\ufeff\ufe0f\xad\ud800\udcff\ufffe\uffff",
    *"=+-@|`*_~#<>[](){}!&;:'\"\\/.,$%^?\uff1d\uff0b\uff0d\uff20",
    "a",
    "name",
    "7",
    "-0.5",
    "\U0001f600",
    "::add-mask::x",
    "::error file=a,line=1::x",
    "::stop-commands::t",
    "##[error]x",
    "##vso[task.setvariable variable=a]b",
    "##teamcity[testStarted name='a']",
    "\x1b]0;title\x07",
    "\x1b[2K\x1b[1A",
    "section_start:1:a\r\x1b[0K",
    '=HYPERLINK("http://198.51.100.7")',
    "=cmd|' /C calc'!A0",
    "<script>window.struck=1</script>",
    "<img src=x onerror=window.struck=1>",
    "</td></tr></table>",
    "![i](http://198.51.100.7/i)",
    "[l](http://198.51.100.7)",
    "[r]: http://198.51.100.7",
    "http://198.51.100.7/",
    "www.example.org",
    "@everyone",
    "| --- |",
    "```",
    "# head",
    "]]>",
    "<!--",
    "&#60;&lt;",
    "%0A::error::x",
    "$(touch struck)",
    "`touch struck`",
    "'; touch struck; '",
    "\\\n",
    "../../../struck",
    "-rf",
    ".hidden",
    "CON",
    "nul.txt",
    "# EOF",
    '"} 1\n',
)


def hostile_names(count: int, seed: int = 37) -> Iterator[str]:
    """So many names of one to eight pieces; a half of them begin with a letter."""
    chance = random.Random(seed)
    for at in range(count):
        name = "".join(chance.choices(PIECES, k=chance.randint(1, 8)))
        yield f"m{name}" if at % 2 else name


# As actions/runner registers them (ActionCommandManager, CommandExtensions of the worker).
_GITHUB = {
    *("internal-set-repo-path", "set-env", "set-output", "save-state", "add-mask", "add-path"),
    *("add-matcher", "remove-matcher", "debug", "warning", "error", "notice", "echo", "group"),
    *("endgroup", "stop-commands"),
}
# A comparison of .NET passes over what has no weight in its language.
_WEIGHTLESS = re.compile(
    "[\0-\x08\x0e-\x1f\x7f-\x84\xad\u034f\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_DOT_NET_BLANKS = "".join(one for one in map(chr, range(0x3001)) if one.isspace())


def obeyed(log: str) -> list[str]:
    """The lines that GitHub's runner, Azure's agent or TeamCity would obey, whatever the command.

    A runner ends a line at a line feed and at a carriage return.
    """
    return [line for line in re.split("[\r\n]", log) if _is_obeyed(_WEIGHTLESS.sub("", line))]


def _is_obeyed(line: str) -> bool:
    trimmed = line.lstrip(_DOT_NET_BLANKS)
    name, two_colons, _ = trimmed[2:].partition("::")
    command = name.partition(" ")[0].lower()
    if trimmed.startswith("::") and (two_colons or command in _GITHUB):
        return True
    return bool(re.search(r"##(?:\[|vso\[|teamcity\[)", line, re.IGNORECASE))


def moves(text: str) -> list[str]:
    """The characters that a terminal obeys, or that nobody sees."""
    return [hex(ord(one)) for one in text if not one.isprintable() and one not in "\n\t"]
