"""The wording of one module: names that say nothing, docstrings, and how dense its lines are."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

# A bare participle, pronoun or adverb says that something was said or seen, not what it is.
BARE = re.compile(
    r"_?(told|said|seen|taken|given|found|meant|asked|heard|answered|replied|kept|met|held|made"
    r"|put|left|lost|known|one|each|ours|theirs|within|beside|apart|alike|took|shown|wanted)"
)
# A picture in place of the thing: a reader who searches for the field's word does not find it.
METAPHORS = {
    "room",
    "scene",
    "hand",
    "hands",
    "shelf",
    "aftermath",
    "guest",
    "patience",
    "drawer",
    "door",
}
# The first words of a docstring that is neither an imperative nor a noun phrase.
_BARE_OPENINGS = {
    "What",
    "Whether",
    "How",
    "Of",
    "Where",
    "As",
    "Those",
    "Which",
    "Who",
    "When",
    "Why",
}
# From Python 3.12 on an f-string is several tokens, from its start to its end; of 3.14 a t-string.
_STARTS = {getattr(tokenize, f"{kind}STRING_START", None) for kind in "FT"}
_ENDS = {getattr(tokenize, f"{kind}STRING_END", None) for kind in "FT"}
_TOKENS = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING, *_ENDS}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPE = (*_FUNCTION, ast.Lambda, ast.ClassDef, *_COMPREHENSION)
_SHORT_LIFE = 3  # lines
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTION)


@dataclass(frozen=True)
class Wording:
    """What one module's text and syntax tree say of its names and lines."""

    text: str
    tree: ast.Module

    @cached_property
    def bare_names(self) -> list[tuple[str, str, int]]:
        """Kind (function, argument or variable), name and line of each bare name that lives long.

        An argument or variable lives long if its function last uses it more than three lines after
        it is bound. Functions, attributes and constants always do.
        """
        return [
            binding
            for scope in _scopes(self.tree)
            for binding in _bindings(scope)
            if BARE.fullmatch(binding[1]) and _lives_long(scope, binding)
        ]

    @cached_property
    def metaphors(self) -> list[tuple[str, int]]:
        """Name and line of each binding and class with a metaphor in its name."""
        bindings = [binding for scope in _scopes(self.tree) for binding in _bindings(scope)]
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        names = [(name, line) for _, name, line in bindings]
        names += [(node.name, node.lineno) for node in classes]
        return [(name, line) for name, line in names if METAPHORS & _words(name)]

    @cached_property
    def bare_docstrings(self) -> list[tuple[str, int]]:
        """First line and line number of each docstring that opens with a bare clause."""
        openings = []
        for node in ast.walk(self.tree):
            if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
                first = docstring.splitlines()[0]
                if first.split()[0] in _BARE_OPENINGS:
                    openings.append((first, node.body[0].lineno))
        return openings

    @cached_property
    def comment_lines(self) -> int:
        return sum(line.strip().startswith("#") for line in self.text.splitlines())

    @cached_property
    def code_lines(self) -> int:
        """Lines that are neither blank, comment, import nor docstring."""
        others = self._lines_of_imports_and_docstrings()
        return sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in others
            for number, line in enumerate(self.text.splitlines(), 1)
        )

    def _lines_of_imports_and_docstrings(self) -> set[int]:
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            statement: ast.stmt | None = None
            if isinstance(node, ast.Import | ast.ImportFrom):
                statement = node
            elif isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
                statement = node.body[0]
            if statement is not None:
                lines |= {*range(statement.lineno, (statement.end_lineno or 0) + 1)}
        return lines

    @cached_property
    def tokens(self) -> int:
        """Names, operators, numbers and strings, imports and docstrings among them.

        An f-string is one string, with every Python.
        """
        number = depth = 0
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            depth += (token.type in _STARTS) - (token.type in _ENDS)
            number += depth == 0 and token.type in _TOKENS
        return number

    @property
    def density(self) -> float:
        """Tokens a line of code."""
        return self.tokens / max(self.code_lines, 1)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, _SCOPE))


def _bindings(scope: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Kind, name and line of what is bound in a scope, inner scopes left out."""
    bound: set[str] = set()
    for node in _own_nodes(scope):
        kind, name = _binding(node)
        if name and name not in bound:
            bound.add(name)
            yield kind, name, node.lineno  # type: ignore[attr-defined] # each that binds has a line


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, _SCOPE):
            yield from _own_nodes(node)


def _binding(node: ast.AST) -> tuple[str, str]:
    if isinstance(node, _FUNCTION):
        return "function", node.name
    if isinstance(node, ast.arg):
        return "argument", node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return "variable", node.id
    return "", ""


def _lives_long(scope: ast.AST, binding: tuple[str, str, int]) -> bool:
    kind, name, first = binding
    if kind == "function" or isinstance(scope, ast.Module | ast.ClassDef):
        return True
    last = max(
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Name | ast.arg) and _name(node) == name
    )
    return last - first > _SHORT_LIFE


def _name(node: ast.Name | ast.arg) -> str:
    return node.id if isinstance(node, ast.Name) else node.arg


def _words(name: str) -> set[str]:
    """The words of a name in snake case or camel case, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
