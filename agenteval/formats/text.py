"""What config files of other harnesses are written in: JSON with comments, YAML front matter."""

import hashlib
import json
import re
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from agenteval.errors import UsageError

_SHORT = reprlib.Repr()
_SHORT.maxstring = 80
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_LOOSE_TEXT = re.compile(r"^(\w+): +(?!['\"\[{|>&*!])([^\n#]*: [^\n]*)$", re.MULTILINE)
_FRONT = re.compile(r"\A---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)


class _Loader(yaml.SafeLoader):
    """Takes no text for a date: harnesses don't, and a day that there is not would be an error."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A file that can't be read is the user's error, which names it."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error


def json_with_comments(path: Path, text: str) -> dict[str, Any]:
    """The object in a JSON file that may hold comments and trailing commas."""
    if not text.strip():
        raise UsageError(f"{path}: is empty: expected an object, at least {{}}")
    for ignored in (_COMMENT, _TRAILING_COMMA):
        text = ignored.sub(lambda found: found[1] or "", text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    return _table(path, content)


def front_matter(path: Path, text: str) -> dict[str, Any]:
    """The YAML table between the two lines of dashes that begin a Markdown file."""
    found = _FRONT.match(text)
    if not found:
        raise UsageError(f"{path}: no front matter: expected a line of --- first, and one after it")
    try:
        content = yaml.load(_quoted(found[1]), _Loader)  # noqa: S506 -- it is a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: front matter: {why}: quote what holds a * or a colon") from error
    return _table(path, {} if content is None else content)


def _quoted(front: str) -> str:
    """With quotes around plain texts that hold a colon, which harnesses forgive."""
    return _LOOSE_TEXT.sub(lambda found: f"{found[1]}: {json.dumps(found[2])}", front)


def shown(value: Any) -> str:
    """A wrong value as an error tells it: short, however much there is in it."""
    return _SHORT.repr(value)


def digest(rules: Iterable[str]) -> str:
    """Names rules by their content, as the digest of a TOML allow list does."""
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()[:12]


def _table(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected a table of settings, got {type(content).__name__}")
    return content
