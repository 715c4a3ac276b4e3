"""Shared parts of the readers and writers of other harnesses' config files."""

import hashlib
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agenteval.core.policy.bash import ScriptRule
from agenteval.core.policy.patterns import CommandPattern
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct
from agenteval.errors import UsageError

_SHORT = reprlib.Repr()
_SHORT.maxstring = 80
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


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
    return table(path, content)


def short_repr(value: Any) -> str:
    """Return a wrong value as an error shows it: short, however much there is in it."""
    return _SHORT.repr(value)


def digest(rules: Iterable[str]) -> str:
    """Names rules by their content, as the digest of a TOML allow list does."""
    return hashlib.sha256("\n".join(rules).encode(errors="surrogatepass")).hexdigest()[:12]


def home(where: Path | str) -> str:
    """The home folder; `where` is the file, or the key in it, that an error names."""
    try:
        return str(Path.home())
    except RuntimeError as error:
        raise UsageError(f"{where}: what ~ stands for is not known here: set HOME") from error


def table(path: Path, content: Any) -> dict[str, Any]:
    """Return a config, which must be a table at its top. Raises UsageError for anything else."""
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected a table of settings, got {type(content).__name__}")
    return content


class Written(NamedTuple):
    """The file's text, and one line for everything that could not be carried over."""

    text: str
    lost: tuple[str, ...]


def json_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def commands(policy: Policy) -> list[tuple[str, bool]]:
    """Return how each allowed command begins, and whether any words may follow."""
    rules = [_begins(rule) for rule in policy.bash.patterns]
    return rules + [(script.start, True) for script in policy.bash.scripts]


def denied(policy: Policy) -> list[tuple[str, bool]]:
    """Return how each denied command begins, and whether any words may follow."""
    return [_begins(rule) for rule in policy.bash.denied]


def _begins(rule: CommandPattern) -> tuple[str, bool]:
    text = f"{' '.join(word.text for word in rule.words)} *" if rule.without else rule.text
    text = " ".join(text.split())
    is_open = rule.rest is not None and rule.rest.text == "*"
    return (text.removesuffix(" *"), True) if is_open else (text, False)


def lost_everywhere(policy: Policy, passes: AbstractSet[Construct]) -> Iterator[str]:
    """Yield what no other harness says of an allow list.

    `passes` are the constructs that pass there.
    """
    for script in policy.bash.scripts:
        if _has_signature(script):
            yield f"{script.start}: its options and their values; any words may follow there"
    yield from _lost_of_words(policy.bash.patterns)
    for rule in policy.bash.denied:
        yield f"{rule.text}: that it is denied behind a program that runs others, too"
    if policy.bash.through:
        yield f"through: {', '.join(sorted(policy.bash.through))}: a rule there is for one program"
    if policy.engine is None:
        yield from _lost_around_commands(policy, passes)
    for key, names in (("files", policy.files), ("stated", policy.stated)):
        if names:
            yield f"{key}: {', '.join(sorted(names))}"
    for name, tool in policy.tools.items():
        if tool.schema:
            yield f"tools.{name}: the schema of its parameters"


def _lost_of_words(rules: Iterable[CommandPattern]) -> Iterator[str]:
    for rule in rules:
        if rule.without:
            yield f"{rule.text}: that these options are denied; any words may follow there"
        elif rule.rest is not None and rule.rest.text != "*":
            yield f"{rule.text}: that each word must match {rule.rest.text} and have no .. in it"
        elif any("/" in word.text and word.wild for word in rule.words):
            yield f"{rule.text}: that a word with a path has no .. in it"


def _lost_around_commands(policy: Policy, passes: AbstractSet[Construct]) -> Iterator[str]:
    """Yield the losses around commands.

    The harness itself decides what may stand there, and no rule changes that.
    """
    own = policy.bash.constructs
    if more := sorted(passes - own):
        yield f"constructs: {', '.join(more)} pass there around what is allowed"
    if fewer := sorted(own - passes):
        yield f"constructs: {', '.join(fewer)}: no rule can allow them there"
    if policy.bash.env:
        yield f"env: {', '.join(sorted(policy.bash.env))}: no variable may be set there"


def _has_signature(script: ScriptRule) -> bool:
    line = script.line
    return len(line.options) > 2 or bool(line.positionals or line.commands)
