"""Dialects: their type, one for each folder here, and those of plug-ins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from agenteval import plugins
from agenteval.bounded import read_text
from agenteval.core.call import BASH
from agenteval.core.policy.policy import Policy
from agenteval.core.policy_lint import Remark, Trouble
from agenteval.core.policy_lint import lint as lint_any
from agenteval.core.prompt.profile import STRICT, Profile
from agenteval.dialects import NAMES
from agenteval.dialects.config_files import Written, json_with_comments
from agenteval.errors import UsageError

GROUP = "agenteval.dialects"
# How sure it is that a JSON file is one of a dialect's.
NOT_AT_ALL, PERHAPS, PROBABLY, SURELY = range(4)
_JSON = (".json", ".jsonc")

Reader = Callable[[Path], Policy]
# From the rules that denials of a log quote: the program's version, the agent, and the rules.
Quoted = Callable[[str, str, Sequence[Mapping[str, str]]], Policy]


@dataclass(frozen=True, slots=True)
class Dialect:
    """Another harness: how its rules are read and written, and what a model reads there.

    `checked` are the versions that were asked, whose verdicts stand beside it. `readers` are keyed
    by what may stand before the colon of an allow list: its own name, and those of older versions;
    the engine of what they read has that name too. `left_behind` tells which of an engine's rules
    no list for anyone else can hold. A file with the `suffix` is its own; how sure it is that a
    JSON file is, `likeness` tells from the file's name and content. `beside` is where a project
    keeps its rules, each behind the reader's name; {agent} is the session's, {home} the folder that
    has the program's logs. `quoted` makes a policy of the rules that a log quotes, where its
    denials do; `in_mode` changes one to what it is in the mode that a log names; `unruled` is the
    one without any rule, where such a mode decides by itself.
    """

    name: str
    checked: tuple[str, ...]
    profile: Profile
    readers: Mapping[str, Reader]
    write: Callable[[Policy], Written]
    left_behind: Callable[[Any], Iterable[str]]
    suffix: str = ""
    likeness: Callable[[str, Mapping[str, Any]], int] = lambda *_: NOT_AT_ALL
    lint: Callable[[Policy], list[Remark]] = lint_any
    beside: tuple[str, ...] = ()
    quoted: Quoted | None = None
    in_mode: Callable[[Policy, str], Policy] = lambda policy, _: policy
    unruled: Policy | None = None


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return all dialects by name; a plug-in takes no name that is taken."""
    by_name: dict[str, Dialect] = {}
    for name in NAMES:
        folder = import_module(f"{__package__}.{name.replace('-', '_')}")
        by_name[name] = folder.DIALECT
    taken_names = {STRICT.name, *(reader for each in by_name.values() for reader in each.readers)}
    for name, dialect in plugins.load(GROUP, lambda it: isinstance(it, Dialect)).items():
        if taken_names.isdisjoint({dialect.name, *dialect.readers}):
            by_name[dialect.name] = dialect
            taken_names.update({dialect.name, *dialect.readers})
        else:
            plugins.leave_out(GROUP, name, "there is a dialect of that name")
    return by_name


def reader(name: str) -> Reader | None:
    """Return the reader of files that are given as `name:PATH`, or None."""
    return next((it.readers[name] for it in dialects().values() if name in it.readers), None)


def is_foreign(given: str) -> bool:
    """Return True if an allow list is a dialect's file, by the end of its name."""
    own = (each.suffix for each in dialects().values() if each.suffix)
    return given.endswith((*_JSON, *own))


def reader_of(path: Path) -> Reader:
    """Return the reader of a file that a dialect wrote, by the end of its name or its content.

    Raises UsageError if that is not known.
    """
    registered = tuple(dialects().values())
    dialect = next((it for it in registered if it.suffix and path.name.endswith(it.suffix)), None)
    if dialect is None:
        content = json_with_comments(path, read_text(path, encoding="utf-8-sig"))
        likeness = {it.name: it.likeness(path.name, content) for it in registered}
        best = max(likeness, key=lambda name: likeness[name])
        if likeness[best] == NOT_AT_ALL:
            raise UsageError(
                f"{path}: has neither `permission` nor `permissions`: if it is a config of "
                f"another harness nonetheless, say which, as in {registered[-1].name}:{path}"
            )
        dialect = dialects()[best]
    return dialect.readers[dialect.name]


def dialect_of(policy: Policy) -> Dialect | None:
    """Whose rules decide; None where they are our own."""
    name = policy.engine.name if policy.engine else ""
    return next((each for each in dialects().values() if name in each.readers), None)


def lint(policy: Policy) -> list[Remark]:
    """Everything that is wrong with the rules for bash, as the one who decides takes them.

    The keys of its file that no verdict follows come first.
    """
    dialect = dialect_of(policy)
    remarks = [
        Remark(key, Trouble.UNHEEDED if is_known else Trouble.UNKNOWN, reason)
        for key, reason, is_known in policy.unheeded
    ]
    return remarks + (dialect.lint(policy) if dialect else lint_any(policy))


def left_behind(policy: Policy) -> Iterator[str]:
    """The rules of another harness that no list for anyone else can hold, a line for each."""
    dialect, engine = dialect_of(policy), policy.engine
    yield from (unheeded.line for unheeded in policy.unheeded)
    if dialect is None or engine is None:
        return
    yield from dialect.left_behind(engine)
    unnamed = "a-program-that-no-rule-names"
    is_named = any(rule.matches([unnamed]) for rule in policy.bash.patterns)
    if not is_named and engine.allows(BASH, {"command": unnamed}, "/workspace"):
        yield "that a command of which no rule speaks is allowed"
