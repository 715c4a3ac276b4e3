"""A persona, the fault profile of a simulated model: which slips how often, and what follows."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agenteval.config.models import SIMULATED
from agenteval.config.toml import load_toml
from agenteval.errors import UsageError
from agenteval.models.slips import KINDS

FOLDER = Path(__file__).parent / "personas"
NAMES = tuple(sorted(f"{SIMULATED}{path.stem}" for path in FOLDER.glob("*.toml")))

Chance = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[tuple[str, ...], Field(min_length=1)]


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Recovery(_Schema):
    """After a denied call: slip `again`, `stop`, or recover, by a `pivot` or else a repair."""

    again: Chance
    stop: Chance
    pivot: Chance = Field(description="of the calls that recover")


class Closing(_Schema):
    """The chance to end with words instead of each closing call."""

    stop: Chance
    stop_denied: Chance = Field(description="once a call of the trial was denied")


class Work(_Schema):
    """The fate of the task itself, whatever is denied."""

    wrong: Chance = Field(description="a call has a wrong value of what was to be found out")


class Row(_Schema):
    """One row of the source: its count of errors, and the kinds of slip that it consists of."""

    count: Annotated[int, Field(gt=0)]
    kinds: Annotated[dict[str, Annotated[float, Field(gt=0)]], Field(min_length=1)]


class Thoughts(_Schema):
    """The thoughts before a call and after a denial, and the last words, work done or not."""

    before: Texts
    denied: Texts
    words: Texts
    done: Texts


class Persona(_Schema):
    """The fault profile of one simulated model, as its data file has it."""

    architecture: Literal["dense", "moe"]
    total_parameters: float
    active_parameters: float
    messages: Annotated[int, Field(gt=0)]
    calls: Annotated[int, Field(gt=0)]
    recovery: Recovery
    closing: Closing
    work: Work
    slips: dict[str, Row]
    thoughts: Thoughts

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        unknown = {kind for row in self.slips.values() for kind in row.kinds} - set(KINDS)
        if unknown:
            raise ValueError(f"no slips {sorted(unknown)}. Known: {', '.join(KINDS)}")
        if self.recovery.again + self.recovery.stop > 1:
            raise ValueError("recovery: again and stop are more than 1 together")
        if not 0 <= self.slip_after_allowed <= 1:
            raise ValueError("no chance to slip gives so many errors with such a recovery")
        return self

    @property
    def rate(self) -> float:
        """Errors per call, over all rows."""
        return sum(row.count for row in self.slips.values()) / self.calls

    @property
    def parallel(self) -> float:
        """The chance that a turn carries a second call."""
        return max(0.0, self.calls / self.messages - 1)

    @property
    def slip_after_allowed(self) -> float:
        """The chance to slip on a call that follows an allowed one, or opens the trial.

        Let it be a; after a denial the next call slips with chance d, and the trial ends in words
        with chance s. A slip opens a run of 1 / (1 - d) denied calls on average, which an end in
        words cuts off with chance s / (1 - d). So of each decision taken after an allowed call
        come, on average,

            a / (1 - d)  denied calls  and  1 - a s / (1 - d)  allowed ones,

        whatever ends the trials between decisions (Wald). Their share of denied calls is to be
        the rate e; solved for a:

            a = e (1 - d) / (1 - e + e s)

        The kind of each slip is drawn independently of all else, so every row keeps its share.
        """
        e, d, s = self.rate, self.recovery.again, self.recovery.stop
        return e * (1 - d) / (1 - e + e * s)

    def weights(self) -> Mapping[str, float]:
        """The share of each kind of slip, in slips per call."""
        shares: dict[str, float] = {}
        for row in self.slips.values():
            whole = sum(row.kinds.values())
            for kind, part in row.kinds.items():
                shares[kind] = shares.get(kind, 0.0) + row.count * part / whole / self.calls
        return shares


@cache
def load_persona(name: str) -> Persona:
    """The persona of a model called `sim/...`. Raises UsageError."""
    if name not in NAMES:
        raise UsageError(f"no simulated model {name!r}. Known: {', '.join(NAMES)}")
    return load_toml(FOLDER / f"{name.removeprefix(SIMULATED)}.toml", Persona)
