"""Possessive groups read the same on every Python, and each of the package is made for it."""

import ast
import re
from pathlib import Path

import pytest

import agenteval
from agenteval.shell.gate import atomic, compiled

POSSESSIVE = re.compile(r"\)[*+?]\+")
PATTERNS = {  # a pattern, and what it reads of a text
    r"(?:[^']++|'[^']*+')++": {"a'b": "a", "a'b'c'd": "a'b'c", "'": None},
    r'"(?:[^"\\$]++|\\(?s:.)|\$(?=[ "]))*+"': {'"$HOME"': None, '"a\\"b$ " c': '"a\\"b$ "'},
    r"(?:[ \t]++|\\\n)*+x": {" \\\n\\x": None, "\\\n x": "\\\n x"},
    r"(a(?:b++|c)?+)(?:d|(?:e(?:f+g)*+))": {"abbefg": "abbefg", "aef": "ae", "ab": None},
}


@pytest.mark.parametrize("made", [compiled, atomic])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_failed_round_read_is_given_back(made, pattern) -> None:
    of = made(pattern)
    assert {text: (found := of.match(text)) and found[0] for text in PATTERNS[pattern]} == PATTERNS[
        pattern
    ]


def test_flags_and_groups_are_kept() -> None:
    found = atomic(r"(?P<first>a) (?:b|C)*+  # a comment", re.VERBOSE | re.IGNORECASE).match("ABc")
    assert (found[0], found["first"]) == ("ABc", "A")


def as_text(pattern: str | bytes) -> str:
    return pattern if isinstance(pattern, str) else pattern.decode("latin-1")


@pytest.mark.slow
def test_no_possessive_group_is_left_to_re() -> None:
    """`re.compile` of a file that holds one would be wrong on Python 3.11.0 to 3.11.4."""
    left = []
    for path in Path(agenteval.__file__).parent.rglob("*.py"):
        text = path.read_text()
        calls = [
            node.lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) == ("re", "compile")
        ]
        held = any(
            isinstance(node, ast.Constant)
            and isinstance(node.value, str | bytes)
            and POSSESSIVE.search(as_text(node.value))
            for node in ast.walk(ast.parse(text))
        )
        if held and calls and path.name != "words.py":
            left.append((path.name, calls))
    assert left == []
