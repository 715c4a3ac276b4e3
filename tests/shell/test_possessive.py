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


def texts_in(node: ast.AST, constants: dict[str, ast.AST]) -> list[str]:
    """Return the texts of a pattern, those of the module's constants that it names included."""
    texts = []
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            texts.append(as_text(part.value))
        elif isinstance(part, ast.Name) and part.id in constants:
            others = {name: value for name, value in constants.items() if name != part.id}
            texts += texts_in(constants[part.id], others)
    return texts


def is_compiled_by_re(node: ast.AST) -> bool:
    function = getattr(node, "func", None)
    return isinstance(function, ast.Attribute) and ast.unparse(function) == "re.compile"


@pytest.mark.slow
def test_no_possessive_group_is_left_to_re() -> None:
    """`re.compile` of one would be wrong on Python 3.11.0 to 3.11.4."""
    left = []
    for path in Path(agenteval.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        left += [
            (path.name, node.lineno)
            for node in ast.walk(tree)
            if is_compiled_by_re(node)
            and any(map(POSSESSIVE.search, texts_in(node.args[0], constants)))
        ]
    assert left == []
