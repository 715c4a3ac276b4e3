"""How alike two tool calls are, and whether the second one means the same: words, not shell.

Nothing here decides what may run, so a plain cut into words does: a quoted operator or a path
counts as the words around it.
"""

import re

from agenteval.core.call import ToolCall

_WORDS = re.compile(r"[^\s'\"`|&;<>(){}\[\]$,:=/\\]+")
_SCRIPT = re.compile(r".+\.[A-Za-z]{1,4}")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def same_call(one: ToolCall, other: ToolCall) -> bool:
    if one.name != other.name:
        return False
    if one.arguments is None or other.arguments is None:
        return one.raw == other.raw
    return one.arguments == other.arguments


def likeness(one: ToolCall, other: ToolCall) -> float:
    """The share of words that two calls have in common: 1.0 when all are, 0.0 when none is."""
    mine, theirs = {one.name, *_words(one)}, {other.name, *_words(other)}
    return len(mine & theirs) / len(mine | theirs)


def same_intent(denied: ToolCall, allowed: ToolCall) -> bool:
    """Whether an allowed call does what the denied one was after.

    It does when its target stands in the denied call: the first word that looks like a file, or
    else its first word, and the subcommand right behind it if there is one. It also does when it
    runs what the denied call took for the name of a tool.
    """
    words = _words(denied)
    target = _target(_words(allowed))
    if target and all(word in words for word in target):
        return True
    return denied.name != allowed.name and denied.name in _stems(_words(allowed))


def _words(call: ToolCall) -> list[str]:
    if call.command is not None:
        return _WORDS.findall(call.command)
    if call.arguments is None:
        return _WORDS.findall(call.raw)
    return _WORDS.findall(" ".join(str(value) for value in call.arguments.values()))


def _target(words: list[str]) -> list[str]:
    start = next((at for at, word in enumerate(words) if _SCRIPT.fullmatch(word)), 0)
    subcommand = [word for word in words[start + 1 : start + 2] if _SUBCOMMAND.fullmatch(word)]
    return [*words[start : start + 1], *subcommand]


def _stems(words: list[str]) -> set[str]:
    return {word.rsplit(".", 1)[0].replace("-", "_") for word in words} | set(words)
