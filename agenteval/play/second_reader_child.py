"""The program behind `second_reader`: reads shell texts with bashlex, in a process of its own.

Run as `python -I second_reader_child.py`, it imports of agenteval only the matching of texts. On
stdin and stdout it speaks JSON, a value a line: a text comes in,
`{"commands": [[word, ...], ...]}` or `{"failed": why}` goes out; one empty object goes out first,
when it is ready.
"""

import json
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any, BinaryIO

import bashlex

from agenteval.shell.gate import compiled

MEMORY = 1 << 30  # bytes of address space
# What bashlex raises on text that it can not read; anything else ends this process.
_FAILURES = (
    bashlex.errors.ParsingError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    _send(answers, {})
    for line in requests:
        _send(answers, _answer(json.loads(line)))


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _answer(text: str) -> dict[str, Any]:
    try:
        trees = bashlex.parse(text)
    except _FAILURES as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    commands: list[list[str]] = []
    for tree in trees:
        commands += _commands(tree, text)
    return {"commands": commands}


def _commands(tree: Any, text: str) -> Iterator[list[str]]:
    """Yield the words of every simple command below a node, at any depth."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        # bashlex finds `x` in -e'a `x` b', where all is quoted.
        if node.kind == "word" and not _is_live(_text_of(node, text)):
            continue
        if node.kind == "command":
            parts = [part for part in node.parts if part.kind == "word"]
            if parts:
                yield [_unquote(_text_of(part, text)) for part in parts]
        for name in ("parts", "list", "command", "output", "heredoc"):
            inside = getattr(node, name, None)
            nodes = inside if isinstance(inside, list) else [inside]
            waiting.extend(node for node in nodes if hasattr(node, "kind"))


def _text_of(node: Any, text: str) -> str:
    start, end = node.pos
    return text[start:end]


_QUOTED = compiled(r"""'[^']*+'|\\.|("(?:[^"\\]++|\\.)*+")""", re.DOTALL)


def _is_live(word: str) -> bool:
    """Return True if anything outside single quotes and escapes could be expanded."""
    outside = _QUOTED.sub(lambda piece: piece[1] or "", word)
    return any(mark in outside for mark in ("$", "`", "<(", ">("))


def _unquote(word: str) -> str:
    """Return a word after quote removal, by a reading of its own; $( ) stays unchanged."""
    value: list[str] = []
    quote = ""
    at = 0
    while at < len(word):
        character = word[at]
        if quote != "'" and word.startswith("$(", at):
            end = _substitution_end(word, at + 2)
            value.append(word[at:end])
            at = end
            continue
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif character == "\\" and quote != "'":
            at += 1
            following = word[at : at + 1]
            if quote and following not in '$`"\\\n':
                value.append("\\")
            if following != "\n":
                value.append(following)
        else:
            value.append(character)
        at += 1
    return "".join(value)


def _substitution_end(word: str, at: int) -> int:
    """Return the place behind the parenthesis that closes a $( ."""
    depth = 1
    quote = ""
    while depth and at < len(word):
        character = word[at]
        if character == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
        at += 1
    return at


if __name__ == "__main__":
    # macOS takes no bound of memory below what a process has: there, its time alone is bounded
    with suppress(OSError, ValueError) if sys.platform != "linux" else nullcontext():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    main(sys.stdin.buffer, sys.stdout.buffer)
