"""The parts of a command that Claude Code wants a rule for, or that they can't be told apart.

Bash's quotes, comments, operators and redirects are known here. Where it would need more than these
to say what runs or which file is written (substitutions, brackets, here-documents, a quote left
open, a variable behind >), the text is unclear.
"""

import re
from dataclasses import dataclass

from agenteval.core.shell.words import unquote

# In double quotes too; `${ rm x;}` runs a command, and a quote inside ends where bash alone knows.
_PARAMETER = r"\$\{[\w\#!?@*-][^'\"`$\\{}()]*\}"
_TARGET = r"""(?:[^ \t\n;&|<>()'"`\\$*?\[\]{}~!\#]++|'[^']*+'|"[^"\\`$]*+")++"""
_TOKEN = re.compile(
    rf"""
    (?P<unclear> \\.\# | (?<![ \t])\\\n )   # is it a comment, and what do the two halves make?
    | \\. | '[^']*' | \$\$ | \$'(?:[^'\\]|\\.)*+'
    | \$?"(?:[^"\\`$] | \\. | {_PARAMETER} | \$(?![(\[{{\\]) )*+"
    | {_PARAMETER} | <<<
    | (?P<redirect>
        (?:(?<![^ \t\n;&|<>])[0-9]++)?+ (?:&>>? | >[>|&]? | <[>&]?(?!<))
        [ \t]*+ (?P<target> {_TARGET} ) (?=[ \t\n;&|<>]|\Z)
      )
    | (?P<joint> && | \|\| | \|& | [;|&\n] | (?<![^ \t\n;&|<>])\#[^\n]* )
    | (?P<unreadable> [<>()`'"\\] | \$[\[{{] )
    """,
    re.DOTALL | re.VERBOSE,
)
# Values that are plain: of a quoted one it would have to be known where it ends.
_WRAPPER = re.compile(
    r"""
    (?: timeout (?:[ \t]+(?:(?:-[ks]|--kill-after|--signal)[ \t]+[\w.+-]+ | -[\w=.+-]+))*+
        [ \t]+ [\d.]+[smhd]?
    | time (?:[ \t]+-p)?+
    | nice (?:[ \t]+(?:-n[ \t]*[+-]?\d+ | --adjustment(?:=|[ \t]+)[+-]?\d+ | --?\d+))*+
    | nohup
    | stdbuf (?:[ \t]+(?:(?:-[ioe]|--(?:input|output|error))[ \t]+\w+ | -[\w=-]+))++
    ) [ \t]+
    """,
    re.ASCII | re.VERBOSE,
)


# These copy what is open already.
_DESCRIPTOR = re.compile(r"[0-9]*[<>]&[ \t]*(?:[0-9]+-?|-)")


@dataclass(frozen=True, slots=True)
class Part:
    """A command as it is written and without its redirects; the files that those read and write."""

    text: str
    bare: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


_NOTHING = Part("", "")
_MOST_REDIRECTS = 1000  # of one command; more of them only keep the reader busy


def parts(text: str) -> frozenset[Part] | None:
    """The commands between operators, without comments and what only wraps them.

    None for a text that is unclear.
    """
    found: dict[str, tuple[int, list[re.Match[str]]]] = {}
    at, redirects = 0, list[re.Match[str]]()
    for token in _TOKEN.finditer(text):
        if token["redirect"] and len(redirects) < _MOST_REDIRECTS:
            redirects.append(token)
        elif token.lastgroup == "joint":
            found.setdefault(text[at : token.start()], (at, redirects))
            at, redirects = token.end(), []
        elif token.lastgroup or token["redirect"]:
            return None
    found.setdefault(text[at:], (at, redirects))
    return frozenset(_part(text, raw, *rest) for raw, rest in found.items()) - {_NOTHING}


def _part(text: str, raw: str, start: int, redirects: list[re.Match[str]]) -> Part:
    bare: list[str] = []
    reads, writes = set[str](), set[str]()
    at = start
    for redirect in redirects:
        bare.append(text[at : redirect.start()])
        at = redirect.end()
        if not _DESCRIPTOR.fullmatch(redirect[0]):
            operator = text[redirect.start() : redirect.start("target")]
            (writes if ">" in operator else reads).add(unquote(redirect["target"])[0])
    bare.append(text[at : start + len(raw)])
    writes.discard("/dev/null")
    return Part(_unwrapped(raw), _unwrapped("".join(bare)), frozenset(reads), frozenset(writes))


def _unwrapped(part: str) -> str:
    part = part.strip(" \t")
    at = 0
    while wrapper := _WRAPPER.match(part, at):
        at = wrapper.end()
    return part[at:]
