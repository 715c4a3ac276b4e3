"""One tool call of a model, and the verdict on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from agenteval.core.plain import is_json
from agenteval.core.span import Span, new

BASH = "bash"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One request to use a tool, as the model wrote it.

    `raw` is the argument text exactly as received. `arguments` is what it parses to, or None when
    it does not parse to a JSON object; `malformed` then says why. Broken JSON is a measurement, so
    it is kept here and never raised.
    """

    id: str
    name: str
    raw: str
    arguments: Mapping[str, Any] | None = None
    malformed: str = ""

    @property
    def command(self) -> str | None:
        """The bash text, when this is a bash call that carries one."""
        if self.name != BASH or self.arguments is None:
            return None
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None

    @property
    def json_arguments(self) -> Mapping[str, Any] | str:
        """The arguments as a value for JSON; the raw text if they are no JSON, as with a NaN."""
        return self.raw if self.arguments is None or not is_json(self.arguments) else self.arguments


class Finding(NamedTuple):
    """One failure class found in one call. `hint` is the fix, in words a model can act on.

    `evidence` is the part that shows it: of the command of a bash call, of `raw` of any other. It
    is empty, but for its text, where that text does not stand there.

    A named tuple, as its evidence is: a denied call has several, and must not wait for them.
    """

    failure_class: str
    evidence: Span
    hint: str = ""
    facets: tuple[str, ...] = ()


class BashRun(NamedTuple):
    """A command as it was read and judged. `argv` is executed unchanged, without another reading.

    `commands` are the words of every command in `text`; none where only another harness's rules
    could read it.
    """

    text: str
    argv: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


class FileRead(NamedTuple):
    """The path that was judged, relative to the workspace where it is inside.

    `lines` is how many to read from the `first` on, counted from 1; None reads all of them.
    """

    path: str
    first: int = 1
    lines: int | None = None


class FileWrite(NamedTuple):
    """The path that was judged, as in `FileRead`, and all that the file is to hold."""

    path: str
    content: str


class FileEdit(NamedTuple):
    """The path that was judged, as in `FileRead`: its one place with the `old` text gets the `new`.

    The file is created if there is none and the old text is empty.
    """

    path: str
    old: str
    new: str


class FileSearch(NamedTuple):
    """Files by their names (`glob`), or lines by what stands in them (`grep`), below a folder."""

    tool: str
    pattern: str
    folder: str
    include: str = ""


class Note(NamedTuple):
    """A note that a model writes for itself; it changes nothing in the sandbox."""

    text: str


Runnable = BashRun | FileRead | FileWrite | FileEdit | FileSearch | Note


class Allowed(NamedTuple):
    """An allowed call. `runs` is what was judged; it is not stored.

    None for a verdict out of a store, and for a tool that nothing here carries out.
    """

    runs: Runnable | None = None

    @property
    def allowed(self) -> bool:
        return True

    @property
    def findings(self) -> tuple[Finding, ...]:
        return ()

    @property
    def primary(self) -> Finding | None:
        return None


class Denied(NamedTuple):
    """A denied call: the primary class first, the others after it. It holds nothing to run."""

    findings: tuple[Finding, ...]

    @classmethod
    def explained(cls, findings: Sequence[Finding]) -> Self:
        """Raises ValueError without a finding: every denial is explained."""
        if not findings:
            raise ValueError("a denied call has at least one finding")
        return new(cls, (tuple(findings),))

    @property
    def allowed(self) -> bool:
        return False

    @property
    def primary(self) -> Finding:
        return self.findings[0]


Verdict = Allowed | Denied
