"""The parts of a command that Claude Code wants a rule for, or that they can't be told apart.

Bash's quotes, comments and operators are known here. Where it would need more than these to say
what runs (substitutions, brackets, here-documents, a quote left open), the text is unclear.
"""

import re

# In double quotes too; `${ rm x;}` runs a command, and a quote inside ends where bash alone knows.
_PARAMETER = r"\$\{[\w\#!?@*-][^'\"`$\\{}()]*\}"
_TOKEN = re.compile(
    rf"""
    (?P<unclear> \\.\# | (?<![ \t])\\\n )   # is it a comment, and what do the two halves make?
    | \\. | '[^']*' | \$\$ | \$'(?:[^'\\]|\\.)*+'
    | \$?"(?:[^"\\`$] | \\. | {_PARAMETER} | \$(?![(\[{{\\]) )*+"
    | {_PARAMETER} | [<>]& | &> | >\| | <<<
    | (?P<joint> && | \|\| | \|& | [;|&\n] | (?<![^ \t\n;&|<>])\#[^\n]* )
    | (?P<unreadable> << | [()`'"\\] | \$[\[{{] )
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


def parts(text: str) -> frozenset[str] | None:
    """The commands between operators, without comments and what only wraps them.

    None for a text that is unclear.
    """
    found, at = set[str](), 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "joint":
            found.add(text[at : token.start()])
            at = token.end()
        elif token.lastgroup:
            return None
    found.add(text[at:])
    return frozenset(map(_unwrapped, found)) - {""}


def _unwrapped(part: str) -> str:
    part = part.strip(" \t")
    at = 0
    while wrapper := _WRAPPER.match(part, at):
        at = wrapper.end()
    return part[at:]
