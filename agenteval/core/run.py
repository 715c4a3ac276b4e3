"""A run: one model over some scenarios, with all that its numbers depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agenteval.core.trial import Trial


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What was served, as far as it is known. Parameters in billions; "" and None mean unknown.

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
    stream: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False


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
    effort: Effort | None = None
