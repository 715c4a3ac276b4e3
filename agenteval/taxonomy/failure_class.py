"""Failure classes: functions that look at a denied call, and the texts that they carry."""

import inspect
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from agenteval.core.call import BASH, ToolCall
from agenteval.core.shell.leaves import Construct
from agenteval.core.span import Span

if TYPE_CHECKING:
    from agenteval.taxonomy.denied import DeniedCall


class ArticleRow(StrEnum):
    """The eleven rows of the published table, in its order."""

    FILTERS = "pipe to head / tail / grep / jq / sed"
    STDERR = "stderr redirect (2>&1, 2>/dev/null)"
    CHAIN = "shell chain (&&, or-fallbacks)"
    HEREDOC = "heredoc into uv run / python"
    TIMEOUT = "`timeout N uv run ...` prefix"
    BINARY = "bare disallowed binary (ls, head, cat, find)"
    CODE = '`uv run python -c "..."`'
    SCRIPT = "`uv run` of a script not on the allow list"
    OTHER = "other bash (argument quoting, complex uv run)"
    PATH = "read tool with a blocked path"
    TOOL = "hallucinated tool name"


class Seen(NamedTuple):
    """The part of a call that shows a class. `hint` says what is wrong where the title does not.

    `despite` says that it is closed even where the policy allows the construct as such.
    """

    span: Span
    hint: str = ""
    facets: tuple[str, ...] = ()
    despite: bool = False


Look = Callable[["DeniedCall"], Seen | None]


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One entry of the taxonomy. `cure` is how such a call is mended (`hints.Ways`).

    Where it speaks of the listed command inside the denied one, `cure_in_general` does not.
    `construct` is what a policy may allow by name: where it does, only what is closed
    `despite` that is seen.
    `seen_in` names the signs (`DeniedCall.signs`) of which a call must bear one for `look` to see
    anything; without it every call is looked at. `rest` marks the class that takes what no other
    explains. `slip` makes a call of this class out of a right command, `{}` (`{quoted}` within
    single quotes), for scenarios that invite it; "" where only the world can say how. `after` are
    the files that the model wrote before the examples.
    """

    id: str
    title: str
    rationale: str
    bad: tuple[ToolCall, ...]
    good: tuple[ToolCall, ...]
    look: Look
    cure: str = ""
    construct: Construct | None = None
    seen_in: frozenset[str] = frozenset()
    rest: bool = False
    cure_in_general: str = ""
    slip: str = ""
    article: ArticleRow = ArticleRow.OTHER
    after: tuple[str, ...] = ()

    def cured(self, alone: str) -> str:
        """The cure, about the listed command inside the denied one."""
        return self.cure.replace("{alone}", alone)


def failure_class(  # noqa: PLR0913 -- a class has that many texts, each named where it is given
    *,
    bad: Sequence[str | ToolCall],
    good: Sequence[str | ToolCall],
    cure: str = "",
    construct: Construct | None = None,
    seen_in: Collection[str] = (),
    rest: bool = False,
    slip: str = "",
    article: ArticleRow = ArticleRow.OTHER,
    after: Sequence[str] = (),
) -> Callable[[Look], FailureClass]:
    """Make a failure class of the function below it: id, title and rationale are its own."""

    def block(look: Look) -> FailureClass:
        title, _, rationale = inspect.cleandoc(look.__doc__ or "").partition("\n\n")
        return FailureClass(
            id=look.__name__.replace("_", "-"),
            title=title,
            rationale=rationale,
            bad=tuple(map(_call, bad)),
            good=tuple(map(_call, good)),
            look=look,
            cure=cure,
            cure_in_general=cure.replace("`{alone}`", "one listed command"),
            construct=construct,
            seen_in=frozenset(seen_in),
            rest=rest,
            slip=slip,
            article=article,
            after=tuple(after),
        )

    return block


def classes_of(family: ModuleType) -> tuple[FailureClass, ...]:
    """The classes of one module, in the order of its source."""
    return tuple(value for value in vars(family).values() if isinstance(value, FailureClass))


def tool(name: str, **arguments: Any) -> ToolCall:
    """A call as an example gives it."""
    return ToolCall("", name, json.dumps(arguments), arguments)


def malformed(name: str, raw: str) -> ToolCall:
    """A call whose argument text is no JSON object, as an example gives it."""
    return ToolCall("", name, raw, None, "not a JSON object")


def _call(example: str | ToolCall) -> ToolCall:
    return tool(BASH, command=example) if isinstance(example, str) else example


FAULT = 80  # characters of what is wrong


@lru_cache(maxsize=1024)
def as_fault(text: str) -> str:
    """Return a fault in one line, without backquotes: what stands between those can be sent."""
    return cut(" ".join(text.replace("`", "'").split()), FAULT)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def joined(first: str, then: str = "") -> str:
    """Two sentences, the first of which may lack its end, or the one that there is."""
    if not (first and then):
        return first or then
    return f"{first} {then}" if first[-1] in ".?!:" else f"{first}. {then}"
