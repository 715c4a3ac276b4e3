"""One tool call of a model, and the verdict on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from agenteval.core.span import Span

BASH = "bash"
# A named tuple's own constructor is a function of Python: `new(Pair, (a, b))` takes half as long.
new = tuple.__new__


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One request to use a tool, as the model wrote it.

    `raw` is the argument text exactly as received. `arguments` is what it parses to, or None when
    it does not parse to a JSON object; `garbled` then says why. Broken JSON is a measurement, so
    it is kept here and never raised.
    """

    id: str
    name: str
    raw: str
    arguments: Mapping[str, Any] | None = None
    garbled: str = ""

    @property
    def command(self) -> str | None:
        """The bash text, when this is a bash call that carries one."""
        if self.name != BASH or self.arguments is None:
            return None
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None


class Finding(NamedTuple):
    """One failure class seen in one call. `hint` is the cure, in words a model can act on.

    `evidence` is the part that shows it: of the command of a bash call, of `raw` of any other. It
    is empty, but for its text, where that text does not stand there.

    A named tuple, as its evidence is: a denied call has several, and must not wait for them.
    """

    failure_class: str
    evidence: Span
    hint: str = ""
    facets: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Allowed without findings; denied with some: the primary class first, the others after it."""

    findings: tuple[Finding, ...] = ()

    @classmethod
    def denied(cls, findings: Sequence[Finding]) -> Self:
        """Raises ValueError without a finding: that nothing explains a denial permits nothing."""
        if not findings:
            raise ValueError("a denied call has at least one finding")
        return new(cls, (tuple(findings),))

    @property
    def allowed(self) -> bool:
        return not self.findings

    @property
    def primary(self) -> Finding | None:
        return self.findings[0] if self.findings else None
