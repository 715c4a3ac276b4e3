"""Judging calls that come as lines of JSON, each with commands or whole tool calls."""

import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TextIO

import msgspec

from agenteval import engine
from agenteval.config.allowlists import load_any, policy_warnings
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall, Verdict
from agenteval.errors import UsageError
from agenteval.formats.packed import UNREADABLE, opened
from agenteval.formats.tool_calls import TOO_MANY, bash_call, has_too_many, tool_calls
from agenteval.taxonomy.catalogue import article_row
from agenteval.taxonomy.judge import deny, judge_many

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


def call_of(command: str) -> ToolCall:
    """The call of the bash tool with this command."""
    return bash_call(command)


def judge_by(allowlist: str, *, only_bash: bool) -> Judge:
    """Judges by an allow list of any format, by name or path. Raises UsageError."""
    return judge_many(load_any(allowlist, roots=roots(), only_bash=only_bash))


@contextmanager
def judging(
    allowlist: str, *, only_bash: bool, second_reader: bool, warn: Callable[[str], None]
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
        with engine.second_reader.objecting(judge, denied) as judge:
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
