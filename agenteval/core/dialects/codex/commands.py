r"""The commands of a text that Codex asks its rules about, seen by running 0.169.0.

Codex hands a text to `bash -lc`. Where it is plain words only, joined by && || ; | or newlines,
each of its commands is asked about. Any other text is one command: /bin/bash with two arguments.
"""

import re
from collections.abc import Sequence

from tree_sitter import Node

from agenteval.core.shell.source import Source

Argv = tuple[str, ...]

_KNOWN = frozenset(("program", "list", "pipeline", "command", "command_name", "concatenation"))
_KNOWN |= {"word", "number", "string", "string_content", "raw_string"}
_JOINTS = frozenset(("&&", "||", ";", "|", "\n", '"', "'"))
_EXPANDED = re.compile(r"\A=|[{}*?\[\]\\~^#$`]")  # by bash or by zsh
_ESCAPE = re.compile(r'\\[$`"\\\n]')


class _NotPlainError(Exception):
    """There is more to a text than plain words; never leaves this module."""


def commands(text: str) -> tuple[Argv, ...]:
    """The argv of each; none of a text that is too long or too deep to be read here."""
    source = Source(text)
    if source.is_cut:
        return ()
    try:
        return _plain_commands(source)
    except _NotPlainError:
        return (("/bin/bash", "-lc", text),)


def _plain_commands(source: Source) -> tuple[Argv, ...]:
    found: list[Argv] = []
    stack = [*source.roots]
    is_readable = not any(root.has_error for root in stack)
    while is_readable and stack:
        node = stack.pop()
        is_readable = node.type in (_KNOWN if node.is_named else _JOINTS)
        if node.type == "command":
            found.append(_argv(source, node.named_children))
        stack.extend(node.children)
    if not (is_readable and found):
        raise _NotPlainError
    return tuple(found)


def _argv(source: Source, words: Sequence[Node]) -> Argv:
    program = words[0].named_children[:1] if words else []
    if [node.type for node in program] != ["word"]:
        raise _NotPlainError
    return tuple(_value(source, word) for word in (*program, *words[1:]))


def _value(source: Source, word: Node) -> str:
    """What bash makes of a word by leaving its quotes away, if that is all it does."""
    start, end = word.byte_range
    text = source.text[start:end]
    match word.type:
        case "concatenation":
            value = "".join(_value(source, part) for part in word.named_children)
            is_plain = value != ""
        case "raw_string":
            value, is_plain = text[1:-1], True
        case "string":
            value, is_plain = text[1:-1], not _ESCAPE.search(text)
        case _:
            value, is_plain = text, not (_EXPANDED.search(text) or word.named_children)
    if not is_plain:
        raise _NotPlainError
    return value
