"""A persona, the fault profile of a simulated model: which slips how often, and what follows.

Fault injection: a slip is one injected fault, a wrong call made out of the right one. Most slips
are a form in slips.toml. The personas are the files in personas/.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated, Literal, Self

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from agenteval.config.files import load_toml
from agenteval.config.models import SIMULATED
from agenteval.errors import UsageError
from agenteval.trial.call import BASH

_QUOTES = ('"', "'")


@dataclass(frozen=True, slots=True)
class Written:
    """A tool call as a model writes it: the tool's name and the raw text of its arguments."""

    name: str
    arguments: str


def bash_call(command: str) -> Written:
    return Written(BASH, json.dumps({"command": command}))


@dataclass(frozen=True, slots=True)
class Right:
    """The base of a slip: the right bash command, and the picture that the task names."""

    command: str
    rendered: str


Slip = Callable[[Right, Random], Written]


class _Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    argument: str
    values: tuple[str, ...]

    def call(self, _: Right, chance: Random) -> Written:
        arguments = {self.argument: chance.choice(self.values)}
        return Written(self.name, json.dumps(arguments))


class _Forms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of slips.toml."""

    bash: dict[str, tuple[str, ...]]
    flags: tuple[str, ...]
    modes: tuple[str, ...]
    tools: dict[str, _Tool]


@cache
def _forms() -> _Forms:
    content = Path(__file__).with_name("slips.toml").read_bytes()
    return msgspec.toml.decode(content, type=_Forms)


@cache
def slips() -> Mapping[str, Slip]:
    """Return each kind of slip, by its name."""
    forms = _forms()
    return {
        **{kind: _by_form(commands) for kind, commands in forms.bash.items()},
        "invented-flag": _invented_flag,
        "invented-command": _invented_command,
        "lost-quote": _lost_quote,
        "read-rendered": _read_rendered,
        **{kind: tool.call for kind, tool in forms.tools.items()},
        "broken-json": _broken_json,
    }


def _by_form(commands: tuple[str, ...]) -> Slip:
    def write(right: Right, chance: Random) -> Written:
        return bash_call(chance.choice(commands).replace("{}", right.command))

    return write


def _invented_flag(right: Right, chance: Random) -> Written:
    """Return the command with an option that the script lacks; `--no-agent` where that is near."""
    before, detached, _ = right.command.partition(" --no-attach --agent ")
    if detached:
        return bash_call(f"{before} --no-agent")
    return bash_call(f"{right.command} {chance.choice(_forms().flags)}")


def _invented_command(right: Right, chance: Random) -> Written:
    """The listed script with a mode that another one has."""
    script = " ".join(right.command.split()[:3])
    option = "--mode" if " --command " in right.command else "--command"
    return bash_call(f"{script} {option} {chance.choice(_forms().modes)}")


def _lost_quote(right: Right, chance: Random) -> Written:
    """A quote that never ends: the last one is forgotten, or one too many is written."""
    last = max(_QUOTES, key=right.command.rfind)
    before, quote, after = right.command.rpartition(last)
    return bash_call(before + after if quote else f"{right.command} {chance.choice(_QUOTES)}")


def _read_rendered(right: Right, chance: Random) -> Written:
    """Read the picture that the task names; without one, a script by a guessed path."""
    # Drawn in either case: a persona's later draws do not depend on the task.
    path = chance.choice((right.rendered, right.rendered, "/data/rendered/overview.png"))
    if not right.rendered:
        script = re.search(r"scripts/\w+\.py", right.command)
        path = f"/home/user/{script.group() if script else 'README.md'}"
    return Written("read", json.dumps({"path": path}))


def _broken_json(right: Right, chance: Random) -> Written:
    whole = json.dumps({"command": right.command})
    broken = (whole[:-2], whole[1:], f"{whole[:-1]}</tool_call>")
    return Written(BASH, chance.choice(broken))


READS = frozenset({"read-rendered"})  # kinds that need a scenario which offers the read tool

FOLDER = Path(__file__).parent / "personas"
NAMES = tuple(sorted(f"{SIMULATED}{path.stem}" for path in FOLDER.glob("*.toml")))
Chance = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[tuple[str, ...], Field(min_length=1)]


class _Schema(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
    )


class Recovery(_Schema):
    """After a denied call: slip `again`, `stop`, or recover, by a `pivot` or else a repair."""

    again: Chance
    stop: Chance
    pivot: Chance = Field(description="of the calls that recover")


class _Closing(_Schema):
    """The chance to end with words instead of each closing call."""

    stop: Chance
    stop_denied: Chance = Field(description="once a call of the trial was denied")


class _Work(_Schema):
    """The fate of the task itself, whatever is denied."""

    wrong: Chance = Field(description="a call has a wrong value of what was to be found out")


class Row(_Schema):
    """One row of the source: its count of errors, and the kinds of slip that it consists of."""

    count: PositiveInt
    kinds: Annotated[dict[str, PositiveFloat], Field(min_length=1)]


class _Thoughts(_Schema):
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
    messages: PositiveInt
    calls: PositiveInt
    recovery: Recovery
    closing: _Closing
    work: _Work
    slips: dict[str, Row]
    thoughts: _Thoughts

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        # Slips are named in the data file, and made in this module.
        unknown = self.weights().keys() - slips().keys()
        if unknown:
            raise ValueError(f"no slips {sorted(unknown)}. Known: {', '.join(slips())}")
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
                share = row.count * part / whole / self.calls
                shares[kind] = shares.get(kind, 0.0) + share
        return shares


@cache
def load_persona(name: str) -> Persona:
    """The persona of a model called `sim/...`. Raises UsageError."""
    if name not in NAMES:
        raise UsageError(f"no simulated model {name!r}. Known: {', '.join(NAMES)}")
    return load_toml(FOLDER / f"{name.removeprefix(SIMULATED)}.toml", Persona)
