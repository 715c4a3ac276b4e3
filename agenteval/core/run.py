"""A run: one model over some scenarios, with all that its numbers depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agenteval.core.trial import Trial


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What was served, as far as it is known. Parameters in billions; "" and None mean unknown.

    `told` is what the server itself says, by fact; all else is the user's word.

    `tools` is native, or the dialect and its version in which calls were written as text.
    """

    name: str
    served_id: str
    base_url: str = ""
    architecture: Literal["dense", "moe", ""] = ""
    total_parameters: float | None = None
    active_parameters: float | None = None
    quantization: str = ""
    kv_cache: str = ""
    server: str = ""
    server_version: str = ""
    tool_parser: str = ""
    tools: str = "native"
    tool_choice: str = ""
    stream: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a gate at a run under way, after so many of its trials.

    `level` is the one-sided level at which this look could settle anything: what is left to it of
    the level that all `planned` looks share.
    """

    number: int  # from 1
    planned: int
    trials: int
    level: float
    verdict: str
    baseline: str  # the run it was compared with
    rules: str  # digest of the gate's rules


@dataclass(frozen=True, slots=True)
class Crash:
    """The server was seen to be gone, or started anew; `at` in seconds since 1970."""

    at: float
    said: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the command that began a run was given, and what it chose where nothing was."""

    targets: Sequence[str]
    model: Sequence[str]
    base_url: str | None
    trials: int  # of each scenario
    seed: int
    concurrency: str  # one level, or several with a run at each
    max_turns: int | None
    profile: str
    prompt_variant: str
    rules: Literal["start", "end", "both"]
    context: str
    sandbox: str | None
    prefork: bool


@dataclass(frozen=True, slots=True)
class Effort:
    """What playing a run took: seconds by the clock; joules of this machine's GPUs where known."""

    seconds: float
    joules: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run as stored. `policies` maps each allow list used to its digest.

    `prefork` says whether unchanged scripts of the fixture ran in a fork of a warm Python.
    `second_reader` counts how often that reader agreed, objected, failed and timed out.
    `complete` is False while it runs and after an interruption: what is there is still true.
    A run that a gate stopped early is complete; `looks` then tell of it. `effort` is None where
    nobody measured it: before this was done, or when the run was cut off.

    `options`, `scenarios` (each with the digest of all that makes it) and `per_token` (how many
    characters filled a token of the context) are what it takes to go on with the run. `replaced`
    counts, by cause, the void trials that were played again. `requests` are all that were made,
    also of these and those that failed; `crashes` are the server's among them.
    """

    id: str
    model: ModelCard
    started: str  # ISO 8601, UTC
    seed: int
    trials_planned: int
    max_turns: int | None
    concurrency: int
    sandbox: str
    protocol: str  # version of prompts and denial texts
    taxonomy: str  # version of the taxonomy
    policies: Mapping[str, str]
    prefork: bool = False
    complete: bool = False
    second_reader: Mapping[str, int] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()
    looks: tuple[Look, ...] = ()
    options: Options | None = None
    scenarios: Mapping[str, str] = field(default_factory=dict)
    per_token: float = 4.0
    replaced: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    crashes: tuple[Crash, ...] = ()
    effort: Effort | None = None

    @property
    def saved(self) -> int:
        """The trials that a gate's early verdict made needless."""
        last = self.looks[-1] if self.looks else None
        return self.trials_planned - last.trials if last and self.complete else 0
