"""Reference material: allow lists checked and converted, failure classes explained, calls judged.

It is apart from `author`, whose scenarios take three times as long to import. The last section
reads calls that come as lines of JSON, each with commands or whole tool calls.
"""

import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, BinaryIO, TextIO

import msgspec
import tomli_w

from agenteval.classes.catalogue import article_row, failure_classes, malformed_page, page
from agenteval.classes.failure_class import FailureClass
from agenteval.classes.judge import deny, judge_many
from agenteval.classes.malformed import KINDS, MalformedKind
from agenteval.config.allowlists import REST, load_any, policy_warnings
from agenteval.config.trust import roots
from agenteval.dialects import registry
from agenteval.dialects.registry import Written
from agenteval.dialects.registry import lint as remarks_on
from agenteval.errors import UsageError
from agenteval.logs.packed import UNREADABLE, opened
from agenteval.logs.tool_calls import TOO_MANY, has_too_many, tool_calls
from agenteval.policy.command_lines import Argument, CommandLine, CommandPattern, Parser, PathRules
from agenteval.policy.lint import Remark, Trouble
from agenteval.policy.policy import Policy, ToolRule
from agenteval.policy.rules import ScriptRule
from agenteval.trial.call import ToolCall, Verdict
from agenteval.trial.text import Names

OURS = "toml"
_NARGS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


def targets() -> tuple[str, ...]:
    """For whom an allow list can be written."""
    return (*registry.dialects(), OURS)


def written_for(policy: Policy, to: str) -> Written:
    """Return an allow list in the format `to`, one of `targets`.

    The result never allows less than it says in `lost`.
    """
    if to == OURS:
        text, losses = to_toml(policy), tuple(_lost_in_ours(policy))
    elif dialect := registry.dialects().get(to):
        text, losses = dialect.write(policy)
    else:
        raise UsageError(f"--to {to}: no such harness. Known: {', '.join(targets())}")
    return Written(text, (*registry.left_behind(policy), *losses))


def _lost_in_ours(policy: Policy) -> Iterator[str]:
    for rule in policy.bash.patterns if policy.engine else ():
        if not _fits(rule.text):
            yield f"{rule.text}: left out, for words are compared without their quotes"
        elif "*" in rule.text.rstrip("*"):
            yield f"{rule.text}: that a * before its end stands for several words too"


def to_toml(policy: Policy) -> str:
    """Reading it gives the same policy, and for one of ours the same digest."""
    rules = policy.bash
    texts = [rule.text for rule in rules.patterns]
    own = [_pattern(rule) for rule in rules.patterns]
    bash = {
        "allow": own if policy.engine is None else [_spread(text) for text in texts if _fits(text)],
        "deny": [rule.text for rule in rules.denied],
        "through": sorted(rules.through),
        "constructs": sorted(construct.value for construct in rules.constructs),
        "env": sorted(rules.env),
        "script": [_script(script) for script in rules.scripts],
    }
    tables: dict[str, Any] = {
        "description": policy.description,
        "files": sorted(policy.files),
        "stated": sorted(policy.stated),
        "other_tools": "pass" * (policy.other_tools == "pass"),
    }
    if policy.engine is not None:
        return tomli_w.dumps(_filled({**tables, "bash": bash}))
    if "bash" in policy.tools:
        tables["bash"] = _filled(bash)
    for name, paths in (("read", policy.read), ("write", policy.write)):
        if name in policy.tools:
            tables[name] = _paths(paths)
    others = {name: rule for name, rule in policy.tools.items() if name not in tables}
    tables["tools"] = {name: _tool(rule) for name, rule in others.items()}
    shown = _filled(tables)
    # A table may be empty and still mean that its tool exists.
    shown |= {name: tables[name] for name in ("bash", "read", "write") if name in tables}
    return tomli_w.dumps(shown)


def _fits(rule: str) -> bool:
    """Return True if a rule of another harness can match here, where words have no quotes."""
    return not any(quote in rule for quote in "'\"")


def _spread(rule: str) -> str:
    """With the words for which a `*` at the end stands in other harnesses, but not here."""
    return f"{rule} *" if rule.endswith("*") and not rule.endswith(" *") else rule


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value not in ("", [], {})}


def _pattern(rule: CommandPattern) -> str | dict[str, Any]:
    if not rule.without:
        return rule.text
    program = " ".join(word.text for word in rule.words)
    return {"program": program, "not": list(rule.without)}


def _paths(rules: PathRules) -> dict[str, Any]:
    return _filled({"allow": list(rules.allow), "deny": list(rules.deny)})


def _tool(rule: ToolRule) -> dict[str, Any]:
    parameters = json.loads(rule.schema) if rule.schema else {}
    return _filled({"description": rule.description, "parameters": parameters})


def _script(script: ScriptRule) -> dict[str, Any]:
    parser = script.line.parser
    named = {} if parser is Parser.ARGPARSE else {"parser": parser.value}
    return {"path": script.path, "runner": " ".join(script.runner), **named, **_line(script.line)}


def _line(line: CommandLine) -> dict[str, Any]:
    options = {option.name: option for option in line.own_options()}
    return _filled(
        {
            "options": {name: _argument(option) for name, option in options.items()},
            "positionals": [{"name": each.name, **_argument(each)} for each in line.positionals],
            "commands": {name: _line(command) for name, command in line.commands.items()},
            "exclusive": [list(each.names) for each in line.groups if not each.required],
            "one_of": [list(each.names) for each in line.groups if each.required],
        }
    ) | _sides(line)


def _sides(line: CommandLine) -> dict[str, Any]:
    """Return the settings in which a command line differs from the usual one."""
    usual = CommandLine.of()
    sides = ("abbreviations", "prefix", "command_optional")
    own = {key: getattr(line, key) for key in sides if getattr(line, key) != getattr(usual, key)}
    return own if line.helps is None else {**own, "help": list(line.helps)}


def _argument(argument: Argument) -> dict[str, Any]:
    count = (argument.fewest, argument.most)
    return {
        "kind": argument.kind.value,
        **_filled({"choices": list(argument.choices), "aliases": list(argument.aliases)}),
        **({} if count == (1, 1) else {"nargs": _NARGS.get(count, argument.fewest)}),
        **({"nargs": REST} if argument.is_rest else {}),
        **({} if argument.repeatable is None else {"repeatable": argument.repeatable}),
        **{key: True for key in ("required", "ends") if getattr(argument, key)},
    }


# Failure classes.


@cache
def known_classes() -> Mapping[str, FailureClass | MalformedKind]:
    """Everything that has a page by its id, the failure classes first and in their order."""
    classes = {entry.id: entry for entry in failure_classes()}
    return classes | {entry.id: entry for entry in KINDS}


def titles() -> list[str]:
    """A line each: the id, and what it is in a sentence."""
    width = max(map(len, known_classes()))
    return [f"{each.id:<{width}}  {each.title}" for each in known_classes().values()]


def page_of(name: str) -> str:
    """Return the Markdown page of an id. Raises UsageError for an unknown one."""
    entry = known_classes().get(name)
    if entry is None:
        near = Names(known_classes()).nearest(name)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {name!r}: {cure}")
    return malformed_page(entry) if isinstance(entry, MalformedKind) else page(entry)


def lint(given: str) -> list[Remark]:
    """Return the faults of the rules of an allow list in any format. Raises UsageError."""
    policy, classes = load_any(given, roots=roots()), {one.id for one in failure_classes()}
    unknown = "there is no such failure class; `agenteval explain` lists them"
    return [
        *remarks_on(policy),
        *(
            Remark(f"stated {name}", Trouble.NEVER, unknown)
            for name in sorted(policy.stated - classes)
        ),
    ]


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return written_for(load_any(given, roots=roots()), to)


# Calls as lines of JSON.

Judge = Callable[[ToolCall], Verdict]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no call. `number` counts from 1.

    `reason` is "" for a message or a line of a session that could have held one.
    """

    number: int
    reason: str = ""


def read_lines(lines: Iterable[str]) -> Iterator[ToolCall | BadLine]:
    """Yield the calls, or one complaint, of each line that is not blank, as it is read.

    All documents that span several lines get one complaint together, however many there are.
    """
    rest, is_reported = _Numbered(lines), False
    for number, line in rest:
        try:
            content = _read(line)
            calls = tool_calls(content) if isinstance(content, dict) else None
        except (ValueError, RecursionError) as error:
            if _is_document(line, rest):
                if not is_reported:
                    yield BadLine(number, _DOCUMENT)
                is_reported = True
            elif line.strip():
                yield BadLine(number, str(error))
            continue
        if calls:
            yield from calls
        else:
            yield BadLine(number, _without_call(content) if calls is None else "")


class _Numbered:
    """The lines from 1 on, which can be looked at before they come."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rest = enumerate(lines, 1)
        self._seen: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._seen.popleft() if self._seen else next(self._rest)

    def ahead(self, count: int) -> str | None:
        """The line that comes after so many others; None where there is none."""
        while len(self._seen) <= count:
            if (one := next(self._rest, None)) is None:
                return None
            self._seen.append(one)
        return self._seen[count][1]


def _is_document(line: str, rest: _Numbered) -> bool:
    """Return True if a document of several lines begins with this line, and skip its other lines.

    An object on a line of its own is not part of one, unless it is indented or ends a list.
    """
    if (closing := _CLOSING.get(line.strip())) is None:
        return False
    indent, inside = line[: len(line) - len(line.lstrip())], False
    while (inner := rest.ahead(0)) is not None:
        is_deeper = inner.startswith((f"{indent} ", f"{indent}\t"))
        if not is_deeper and _is_object(inner) and (rest.ahead(1) or "").strip() != closing:
            break
        next(rest)
        inside = True
        if inner.rstrip(" \t\r\n,") == f"{indent}{closing}":
            break
    return inside


def _is_object(line: str) -> bool:
    try:
        return isinstance(_read(line), dict)
    except (ValueError, RecursionError):
        return False


def _read(line: str) -> Any:
    """Return the value that `json.loads` reads from the line.

    Where msgspec reads the line too, that takes a twentieth of the time.
    """
    if has_too_many(line):
        raise ValueError(TOO_MANY)
    try:
        return _DECODE(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return json.loads(line)


LONGEST = 1 << 25  # characters of a line, or of a command
_DECODE = msgspec.json.Decoder().decode
_CLOSING = {"{": "}", "[": "]"}
_DOCUMENT = "a document of many lines; give an object a line, as by jq -c"


def _without_call(content: object) -> str:
    if not isinstance(content, dict):
        return f"expected an object, got {type(content).__name__}"
    return 'expected "command" (a string), or "name" and "arguments"'


def judge_by(allowlist: str, *, only_bash: bool) -> Judge:
    """Judges by an allow list of any format, by name or path. Raises UsageError."""
    return judge_many(load_any(allowlist, roots=roots(), only_bash=only_bash))


@contextmanager
def judging(
    allowlist: str,
    *,
    only_bash: bool,
    second_reader: bool,
    warn: Callable[[str], None],
) -> Iterator[Judge]:
    """Yield a judge as `judge_by` makes it, with the second reader if wanted.

    The second reader may object to an allowed command, as it may in a run. `warn` is called with a
    line for each key of the list's file that the verdicts do not follow.
    """
    policy = load_any(allowlist, roots=roots(), only_bash=only_bash)
    for line in policy_warnings(allowlist, policy):
        warn(line)
    judge = judge_many(policy)
    if second_reader:
        denied = partial(deny, policy=policy)
        from agenteval.play import second_reader as play_second_reader  # noqa: PLC0415 -- start-up: few need it

        with play_second_reader.objecting(judge, denied) as judge:
            yield judge
    else:
        yield judge


def row_name(taxonomy: str) -> Callable[[str], str]:
    """Return the function that names a class in this taxonomy."""
    return article_row if taxonomy == "article" else str


def text_of(file: BinaryIO) -> TextIO:
    # Lines end in \n only: a carriage return is part of a command, as it is to bash.
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def bounded_lines(file: TextIO) -> Iterator[str]:
    """The lines; of one that is longer than any call only its beginning, which is no JSON."""
    while line := file.readline(LONGEST):
        yield line
        while len(line) == LONGEST and not line.endswith("\n"):
            line = file.readline(LONGEST)


def whole(file: TextIO) -> str:
    """All that is in a file, less the end of its last line. Raises UsageError for too much."""
    text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise UsageError(f"a command of more than {LONGEST:,} characters: give one command")
    return text.removesuffix("\n")


def file_lines(path: str) -> Iterator[str]:
    """The lines of a file that may be packed. Raises UsageError."""
    try:
        with ExitStack() as stack:
            yield from bounded_lines(stack.enter_context(text_of(opened(path, stack))))
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read: {why}") from error
