"""The type of a dialect, all that there are, and what their readers and writers share.

`Dialect` is the object that a folder here or a plug-in defines, `dialects` collects them, and
`reader` and `reader_of` choose one for a file. Then come the parts of readers (text, JSON, digests,
the policy of an engine), of writers (what another harness cannot say of an allow list), and
`SettingsKeys`: the keys of a harness's settings that its verdicts follow here, and those they would
have to.
"""

import hashlib
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

import msgspec

from agenteval import plugins
from agenteval.dialects import NAMES
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.command_lines import CommandPattern, PathRules
from agenteval.policy.lint import Remark, Trouble
from agenteval.policy.lint import lint as lint_any
from agenteval.policy.policy import Engine, Policy, ToolRule, UnheededKey
from agenteval.policy.rules import BashRules, ScriptRule
from agenteval.prompt.arm import STRICT_PROFILE, Profile
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH
from agenteval.trial.text import names

# A table of a harness's config.
Settings = Mapping[str, Any]
_Table = TypeVar("_Table")
SHORT = reprlib.Repr()
SHORT.maxstring = 80
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def load_table(file: str, schema: type[_Table]) -> _Table:
    """Return one of our own TOML files, named from this folder, as the type that it must have."""
    path = Path(__file__).parent / file
    return msgspec.toml.decode(path.read_bytes(), type=schema)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise an error of reading as the user's, which names the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, as `json_with_comments` does."""
    return json_with_comments(path, read_text(path, encoding="utf-8-sig"))


def json_with_comments(path: Path, text: str) -> dict[str, Any]:
    """Return the object in a JSON text with comments and trailing commas. Raises UsageError."""
    if not text.strip():
        raise UsageError(f"{path}: is empty: expected an object, at least {{}}")
    for ignored in (_COMMENT, _TRAILING_COMMA):
        text = ignored.sub(lambda match: match[1] or "", text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    return table(path, content)


def wrong(where: Path | str, expected: str, value: Any) -> UsageError:
    """Return the error of a value in a config, which it shows shortly, however much is in it."""
    return UsageError(f"{where}: expected {expected}, got {SHORT.repr(value)}")


def texts_at(
    where: str,
    table: Settings,
    key: str,
    what: str,
) -> list[str]:
    """Return the texts in a list, none where the key is not there. Raises UsageError."""
    value = table.get(key, [])
    if not is_texts(value):
        raise wrong(f"{where}.{key}", f"a list of {what}", value)
    return value


def is_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def policy_of(  # noqa: PLR0913 -- what is said of an engine's rules
    engine: Engine,
    name: str,
    description: str,
    rules: Iterable[object],
    *,
    bash: Iterable[str],
    passes: AbstractSet[Construct],
    tools: Iterable[str],
) -> Policy:
    """Return the policy in which an engine decides.

    `rules` are what its digest is made of, and `bash` the patterns of commands that hints show;
    `passes` are the constructs that the harness lets pass.
    """
    patterns = [CommandPattern.parse(pattern) for pattern in bash]
    everything = PathRules(("**",))
    return Policy(
        name=name,
        digest=digest([engine.name, *map(str, rules)]),
        description=description,
        bash=BashRules(patterns, constructs=passes),
        read=everything,
        write=everything,
        tools={tool: ToolRule(tool) for tool in tools},
        engine=engine,
    )


def digest(rules: Iterable[str]) -> str:
    """Return a name of rules by their content, as a TOML allow list has one."""
    content = "\n".join(rules).encode(errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()[:12]


def home(where: Path | str) -> str:
    """Return the home folder. Raises UsageError about `where`, a file or a key in it."""
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
    scripts = [(script.start, True) for script in policy.bash.scripts]
    return [*map(_begins, policy.bash.patterns), *scripts]


def denied(policy: Policy) -> list[tuple[str, bool]]:
    """Return how each denied command begins, and whether any words may follow."""
    return [*map(_begins, policy.bash.denied)]


def path_rules(policy: Policy) -> list[tuple[str, PathRules]]:
    """Return the rules for files of the tools `read` and `write`, where the list has them."""
    rules = (("read", policy.read), ("write", policy.write))
    return [(tool, paths) for tool, paths in rules if tool in policy.tools]


def other_tools(policy: Policy) -> list[str]:
    return [name for name in policy.tools if name not in {BASH, "read", "write"}]


def _begins(rule: CommandPattern) -> tuple[str, bool]:
    words = rule.text.split()
    if rule.without:
        words = [*(word.text for word in rule.words), "*"]
    text = " ".join(words)
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
        yield f"through: {_listed(policy.bash.through)}: a rule there is for one program"
    if policy.engine is None:
        yield from _lost_around_commands(policy, passes)
    if policy.files:
        yield f"files: {_listed(policy.files)}"
    if policy.stated:
        yield f"stated: {_listed(policy.stated)}"
    for name, tool in policy.tools.items():
        if tool.schema:
            yield f"tools.{name}: the schema of its parameters"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


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
    if not passes <= own:
        yield f"constructs: {_listed(passes - own)} pass there around what is allowed"
    if not own <= passes:
        yield f"constructs: {_listed(own - passes)}: no rule can allow them there"
    if policy.bash.env:
        yield f"env: {_listed(policy.bash.env)}: no variable may be set there"


def _has_signature(script: ScriptRule) -> bool:
    line = script.line
    return len(line.options) > 2 or bool(line.positionals or line.commands)


# Dialects.

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
    likeness: Callable[[str, Settings], int] = lambda *_: NOT_AT_ALL
    lint: Callable[[Policy], list[Remark]] = lint_any
    beside: tuple[str, ...] = ()
    quoted: Quoted | None = None
    in_mode: Callable[[Policy, str], Policy] = lambda policy, _: policy
    unruled: Policy | None = None


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return all dialects by name; a plug-in takes no name that is taken."""
    by_name: dict[str, Dialect] = {}
    taken_names = {STRICT_PROFILE.name}
    for name in NAMES:
        dialect = import_module(f"{__package__}.{name.replace('-', '_')}").DIALECT
        by_name[name] = dialect
        taken_names.update(dialect.readers)
    plugged = plugins.load(GROUP, lambda value: isinstance(value, Dialect))
    for name, dialect in plugged.items():
        own_names = {dialect.name, *dialect.readers}
        if taken_names.isdisjoint(own_names):
            by_name[dialect.name] = dialect
            taken_names |= own_names
        else:
            plugins.leave_out(GROUP, name, "there is a dialect of that name")
    return by_name


def reader(name: str) -> Reader | None:
    """Return the reader of files that are given as `name:PATH`, or None."""
    for dialect in dialects().values():
        if name in dialect.readers:
            return dialect.readers[name]
    return None


def is_foreign(given: str) -> bool:
    """Return True if an allow list is a dialect's file, by the end of its name."""
    suffixes = [dialect.suffix for dialect in dialects().values() if dialect.suffix]
    return given.endswith((*_JSON, *suffixes))


def reader_of(path: Path) -> Reader:
    """Return the reader of a file that a dialect wrote, by the end of its name or its content.

    Raises UsageError if that is not known.
    """
    registered = tuple(dialects().values())
    for dialect in registered:
        if dialect.suffix and path.name.endswith(dialect.suffix):
            return dialect.readers[dialect.name]
    content = read_json(path)
    best = max(registered, key=lambda it: it.likeness(path.name, content))
    if best.likeness(path.name, content) == NOT_AT_ALL:
        raise UsageError(
            f"{path}: has neither `permission` nor `permissions`: if it is a config of "
            f"another harness nonetheless, say which, as in {registered[-1].name}:{path}"
        )
    return best.readers[best.name]


def dialect_of(policy: Policy) -> Dialect | None:
    """Return the dialect whose rules decide; None where they are our own."""
    if policy.engine is None:
        return None
    for dialect in dialects().values():
        if policy.engine.name in dialect.readers:
            return dialect
    return None


def lint(policy: Policy) -> list[Remark]:
    """Return everything that is wrong with the rules for bash, as the one who decides takes them.

    The keys of its file that no verdict follows come first.
    """
    remarks = []
    for key, reason, is_known in policy.unheeded:
        trouble = Trouble.UNHEEDED if is_known else Trouble.UNKNOWN
        remarks.append(Remark(key, trouble, reason))
    dialect = dialect_of(policy)
    return remarks + (dialect.lint(policy) if dialect else lint_any(policy))


def left_behind(policy: Policy) -> Iterator[str]:
    """Yield the rules of another harness that no list for anyone else can hold."""
    for unheeded in policy.unheeded:
        yield unheeded.line
    dialect, engine = dialect_of(policy), policy.engine
    if dialect is None or engine is None:
        return
    yield from dialect.left_behind(engine)
    unnamed = "a-program-that-no-rule-names"
    is_named = any(rule.matches([unnamed]) for rule in policy.bash.patterns)
    if not is_named and engine.allows(BASH, {"command": unnamed}, "/workspace"):
        yield "that a command of which no rule speaks is allowed"


# Keys of settings.

_NOTHING: tuple[object, ...] = (None, "", [], {})
# The declared names of a table, each with those of the table that it names.
_Names = dict[str, "_Names"]


class _KeysTable(msgspec.Struct, forbid_unknown_fields=True):
    """One table of a dialect's keys.toml; `unmodelled` keys stand behind what they would do."""

    modelled: frozenset[str]
    harmless: frozenset[str]
    unmodelled: dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class SettingsKeys:
    """All keys that are known, dotted; `*` stands for a name that the user chose.

    `modelled` ones are read, `harmless` ones change no verdict, and `unmodelled` ones may change
    some, each with how. Any other key is unknown.
    """

    modelled: frozenset[str]
    harmless: frozenset[str]
    unmodelled: Mapping[str, str]

    @classmethod
    def load(cls, dialect: str, name: str) -> "SettingsKeys":
        """Return the keys in the table `name` of a dialect's keys.toml."""
        table = load_table(f"{dialect}/keys.toml", dict[str, _KeysTable])[name]
        reasons: dict[str, str] = {}
        for reason, keys in table.unmodelled.items():
            reasons |= dict.fromkeys(keys, reason)
        return cls(table.modelled, table.harmless, reasons)

    @cached_property
    def _names(self) -> _Names:
        """The declared names of the whole file."""
        declared: _Names = {}
        for key in (*self.modelled, *self.harmless, *self.unmodelled):
            below = declared
            for name in key.split("."):
                below = below.setdefault(name, {})
        return declared

    def unheeded(self, settings: Settings, above: str = "") -> Iterator[UnheededKey]:
        """Yield the keys of a file that may change verdicts, and do not here.

        `above` is the name of the table that the settings are.
        """
        yield from self._in_table(settings, self._names, "", f"{above}." if above else "")

    def is_known(self, key: str) -> bool:
        """Return True if the key, or the table that it stands in, is one of the three kinds."""
        below = self._names
        for name in key.split("."):
            step = name if name in below else "*"
            if step not in below:
                return False
            below = below[step]
            if not below:  # what a table holds whose keys are not told apart
                return True
        return True

    def _in_table(
        self,
        table: Settings,
        declared: _Names,
        place: str,
        above: str,
    ) -> Iterator[UnheededKey]:
        """Yield those of a table: `place` is its key as declared, `above` as the file has it."""
        for key, value in table.items():
            name = f"{above}{_in_one_line(str(key))}"
            step = str(key) if str(key) in declared else "*"
            if step not in declared:
                yield UnheededKey(name, _suggestion(declared, str(key)), is_known=False)
                continue
            reason = self.unmodelled.get(f"{place}{step}")
            if reason is not None and value not in _NOTHING:
                yield UnheededKey(name, reason)
            if isinstance(value, Mapping) and declared[step]:
                yield from self._in_table(value, declared[step], f"{place}{step}.", f"{name}.")


def _suggestion(declared: _Names, key: str) -> str:
    near = names(frozenset(declared)).nearest(key)
    return f"did you mean {near}?" if near else "no release of it that is known here has it"


def _in_one_line(key: str) -> str:
    return key if key.isprintable() else ascii(key)
