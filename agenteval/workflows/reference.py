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
    """Return the programs for which an allow list can be written."""
    return (*registry.dialects(), OURS)


def _written_for(policy: Policy, to: str) -> Written:
    """Return an allow list in the format `to`, one of `targets`.

    The result never allows less than it says in `lost`.
    """
    if to == OURS:
        text = _to_toml(policy)
        losses = tuple(_lost_in_ours(policy))
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


def _to_toml(policy: Policy) -> str:
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
    """Return the rule with ` *`, which other harnesses mean by a `*` at the end of a word."""
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
    table = {"path": script.path, "runner": " ".join(script.runner)}
    if script.line.parser is not Parser.ARGPARSE:
        table["parser"] = script.line.parser.value
    return table | _line(script.line)


def _line(line: CommandLine) -> dict[str, Any]:
    positionals = line.positionals
    parts = {
        "options": {option.name: _argument(option) for option in line.own_options()},
        "positionals": [{"name": each.name, **_argument(each)} for each in positionals],
        "commands": {name: _line(command) for name, command in line.commands.items()},
        "exclusive": [list(group.names) for group in line.groups if not group.required],
        "one_of": [list(group.names) for group in line.groups if group.required],
    }
    return _filled(parts) | _sides(line)


def _sides(line: CommandLine) -> dict[str, Any]:
    """Return the settings in which a command line differs from the usual one."""
    usual = CommandLine.of()
    own = {}
    for key in ("abbreviations", "prefix", "command_optional"):
        if getattr(line, key) != getattr(usual, key):
            own[key] = getattr(line, key)
    if line.helps is not None:
        own["help"] = list(line.helps)
    return own


def _argument(argument: Argument) -> dict[str, Any]:
    count = (argument.fewest, argument.most)
    table: dict[str, Any] = {"kind": argument.kind.value}
    if argument.choices:
        table["choices"] = list(argument.choices)
    if argument.aliases:
        table["aliases"] = list(argument.aliases)
    if argument.is_rest:
        table["nargs"] = REST
    elif count != (1, 1):
        table["nargs"] = _NARGS.get(count, argument.fewest)
    if argument.repeatable is not None:
        table["repeatable"] = argument.repeatable
    for key in ("required", "ends"):
        if getattr(argument, key):
            table[key] = True
    return table


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
    if isinstance(entry, MalformedKind):
        return malformed_page(entry)
    return page(entry)


def lint(given: str) -> list[Remark]:
    """Return the faults of the rules of an allow list in any format. Raises UsageError."""
    policy = load_any(given, roots=roots())
    reason = "there is no such failure class; `agenteval explain` lists them"
    unknown = sorted(policy.stated - {entry.id for entry in failure_classes()})
    remarks = [Remark(f"stated {name}", Trouble.NEVER, reason) for name in unknown]
    return [*remarks_on(policy), *remarks]


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return _written_for(load_any(given, roots=roots()), to)


# Calls as lines of JSON.

Judge = Callable[[ToolCall], Verdict]
Judged = tuple[ToolCall, Verdict]


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
    closing = _CLOSING.get(line.strip())
    if closing is None:
        return False
    indent = line[: len(line) - len(line.lstrip())]
    inside = False
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


def classify(
    calls: Iterable[ToolCall | BadLine],
    allowlist: str,
    *,
    only_bash: bool = False,
    second_reader: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[Judged | BadLine]:
    """Yield each call with its verdict, and bad lines as they are, in their order.

    `allowlist` is a name or path of any format; with `only_bash` it may have no rules for other
    tools. The second reader may object to an allowed command, as it may in a run. `warn` is called
    with a line for each key of the list's file that the verdicts do not follow. Raises UsageError.
    """
    policy = load_any(
        allowlist,
        roots=roots(),
        only_bash=only_bash,
    )
    for line in policy_warnings(allowlist, policy):
        warn(line)
    with _judge_of(policy, second_reader=second_reader) as judge:
        for call in calls:
            yield call if isinstance(call, BadLine) else (call, judge(call))


@contextmanager
def _judge_of(policy: Policy, *, second_reader: bool) -> Iterator[Judge]:
    judge = judge_many(policy)
    if not second_reader:
        yield judge
        return
    from agenteval.play.second_reader import objecting  # noqa: PLC0415 -- start-up: few need it

    with objecting(judge, partial(deny, policy=policy)) as judge_or_object:
        yield judge_or_object


def row_name(taxonomy: str) -> Callable[[str], str]:
    """Return the function that names a class in this taxonomy."""
    return article_row if taxonomy == "article" else str


def text_of(file: BinaryIO) -> TextIO:
    # Lines end in \n only: a carriage return is part of a command, as it is to bash.
    return io.TextIOWrapper(
        file,
        encoding="utf-8-sig",
        errors="surrogateescape",
        newline="\n",
    )


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
