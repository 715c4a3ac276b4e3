"""A run: one model over some scenarios, with all that its numbers depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agenteval.core.cards import (
    GRAMMAR,
    NOT_OBSERVABLE,
    REAL,
    ArmCard,
    ModelCard,
    Source,
    departs,
)
from agenteval.core.trial import Trial


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a gate at a run, after so many of its trials.

    `level` is the one-sided level at which this look could settle anything: what is left to it of
    the level that all looks over this baseline share. `planned` is how many of them the run itself
    planned, and 0 of a look that somebody asked for.
    """

    number: int  # from 1
    planned: int
    trials: int
    level: float
    verdict: str
    baseline: str  # the run it was compared with
    rules: str  # digest of the gate's rules
    at: str = ""  # ISO 8601, UTC
    data: str = ""  # digest of the worlds that both had played


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
    base_url: str | None  # one or more, apart by spaces
    trials: int  # of each scenario
    seed: int
    concurrency: str  # one level, or several with a run at each
    max_turns: int | None
    arm: str
    prompt_variant: str | None  # None is the arm's own, before the run begins
    rules: Literal["start", "end", "both"]
    context: str
    sandbox: str | None
    prefork: bool
    harness: str = ""  # a real program that is the agent; empty for our own loop
    allowlist: str = ""  # what judges in place of the scenarios' own, as it was named


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
    arm: ArmCard | None = None  # None where nobody kept it
    source: Source | None = None  # the logs that it was read from

    @property
    def last_planned(self) -> Look | None:
        """The last look of the gate that watched the run."""
        return next((look for look in reversed(self.looks) if look.planned), None)

    @property
    def saved(self) -> int:
        """The trials that a gate's early verdict made needless."""
        last = self.last_planned
        return self.trials_planned - last.trials if last and self.complete else 0


Texts = Mapping[str, str]  # by its name; empty is not known, and differs from nothing

OUR_LOOP = "our own loop"  # what plays where no harness does
# All of them in "prompts".
READ_BY_THE_MODEL = ("arm", "harness", "prompt variant", "rules", "context")
TAXONOMY = "taxonomy version"
SEEN_ALIKE = (GRAMMAR, "calls come")  # of what was seen, what is the server's and not the model's
NAMED = 3  # scenarios
TOLD_WITH_VALUES = 60  # characters; a longer one says no more than that it differs


@dataclass(frozen=True, slots=True)
class Conditions:
    """`asked` is what was asked, and by what rules it was judged; `other` how it was played.

    A reply that is streamed and one that is whole are read by different code of a server: a call
    that is cut is lost by the one and completed by the other, so that how replies came is asked.
    Runs that differ in the first measured different things. The second may explain a difference,
    and so may what the server tells of itself. A digest of a scenario tells of a new version of
    agenteval as well as of a change, and so it forbids nothing.
    """

    asked: Texts = field(default_factory=dict)
    policies: Texts = field(default_factory=dict)
    scenarios: Texts = field(default_factory=dict)
    other: Texts = field(default_factory=dict)
    told: Texts = field(default_factory=dict)
    cannot_occur: tuple[str, ...] | None = None  # failure classes, as far as the server was asked

    @property
    def arm(self) -> str:
        """What the model read, in a few words; empty where nobody kept it."""
        known = {name: self.asked.get(name, "") for name in READ_BY_THE_MODEL}
        if not known["arm"]:
            return ""
        place = "" if known["rules"] == "at start" else f" {known['rules']}"
        real = known["harness"] not in {"", OUR_LOOP}
        arm = f"{REAL}{known['harness']}" if real else known["arm"]
        told = f"{arm}, rules {known['prompt variant']}{place}"
        return told if known["context"] == "0" else f"{told}, context {known['context']}"

    @classmethod
    def of(cls, run: Run) -> "Conditions":
        return cls(
            asked=_asked(run),
            policies={f"allow list {name}": digest for name, digest in run.policies.items()},
            scenarios=run.scenarios,
            other=_other(run),
            told=_told(run.model),
            cannot_occur=run.model.cannot_occur,
        )


def differing_arms(conditions: Sequence[Conditions]) -> list[str]:
    """In what unlike things were read by the models, with the values where they are short."""
    found = _differing([one.asked for one in conditions])
    named = [name for name in READ_BY_THE_MODEL if name in found] or ["prompts"]
    return [_with_values(name, found[name]) for name in named if name in found]


def differing_asked(conditions: Sequence[Conditions], *, across_arms: bool = False) -> list[str]:
    """In what the runs were asked or judged differently, with the values where they are short.

    `across_arms` leaves out what their models read.
    """
    found = _differing([one.asked for one in conditions])
    if across_arms or any(name in found for name in READ_BY_THE_MODEL):
        found.pop("prompts", None)
    if across_arms:
        found = {name: seen for name, seen in found.items() if name not in READ_BY_THE_MODEL}
    policies = _differing([one.policies for one in conditions])
    return [*(_with_values(name, seen) for name, seen in found.items()), *policies]


def unlike_classes(conditions: Sequence[Conditions]) -> list[str]:
    """The failure classes that the server of one run keeps its model from, and another's does not.

    A run whose server was not asked differs from none.
    """
    known = [set(one.cannot_occur) for one in conditions if one.cannot_occur is not None]
    return sorted(set().union(*known) - set(known[0]).intersection(*known)) if known else []


def differing_other(conditions: Sequence[Conditions]) -> list[str]:
    """In what else they differ."""
    found = _differing([one.other for one in conditions])
    found |= _differing([one.told for one in conditions])
    changed = list(_differing([one.scenarios for one in conditions]))
    more = ", ..." if len(changed) > NAMED else ""
    scenarios = f"what is asked in {', '.join(changed[:NAMED])}{more} ({len(changed)} in all)"
    return [
        *(_with_values(name, seen) for name, seen in found.items()),
        *([scenarios] if changed else []),
    ]


def apart(conditions: Sequence[Conditions]) -> list[str]:
    """For each of these runs what tells it from the others, in a few words; may be empty."""
    texts = [{**one.asked, **one.other} for one in conditions]
    found = _differing(texts)
    if any(name in found for name in READ_BY_THE_MODEL):
        found.pop("prompts", None)
    short = [name for name, seen in found.items() if max(map(len, seen)) <= TOLD_WITH_VALUES]
    return [", ".join(f"{name} {each[name]}" for name in short if each.get(name)) for each in texts]


def _differing(sides: Sequence[Texts]) -> dict[str, list[str]]:
    """The values, each once, of every name that has several."""
    names = dict.fromkeys(name for side in sides for name in side)
    seen = {name: list(dict.fromkeys(side.get(name, "") for side in sides)) for name in names}
    unknown = {"", NOT_OBSERVABLE}
    known = {name: [one for one in values if one not in unknown] for name, values in seen.items()}
    return {name: values for name, values in known.items() if len(values) > 1}


def _with_values(name: str, values: Sequence[str]) -> str:
    told = " / ".join(values)
    return f"{name} ({told})" if len(told) <= TOLD_WITH_VALUES else name


def _asked(run: Run) -> Texts:
    options = run.options
    return {
        "arm": options.arm if options else "",
        "harness": (options.harness or OUR_LOOP) if options else "",
        "prompt variant": (options.prompt_variant or "") if options else "",
        "rules": f"at {options.rules}" if options else "",
        "context": options.context if options else "",
        "prompts": run.protocol,
        "reasoning": departs(run.model.reasoning, run.model.served_id, run.model.base_url),
        "replies": "streamed" if run.model.stream else "whole",
        "turn limit": "by scenario" if run.max_turns is None else str(run.max_turns),
        TAXONOMY: run.taxonomy,
    }


def _other(run: Run) -> Texts:
    card = run.model
    sampling = ", ".join(f"{name} {value}" for name, value in sorted(card.sampling.items()))
    return {
        "concurrency": str(run.concurrency),
        "sandbox": run.sandbox,
        "pre-forked scripts": "yes" if run.prefork else "no",
        "way to call tools": card.tools,
        "tool choice": card.tool_choice or "auto",
        "sampling": sampling or "the server's own",
        "server": card.server,
        "server version": card.server_version,
        "quantization": card.quantization,
        "KV cache": card.kv_cache,
        "tool parser": card.tool_parser,
        **{name: value for name, value in card.seen.items() if name in SEEN_ALIKE},
    }


def _told(card: ModelCard) -> Texts:
    """Each model has a chat template of its own: it is compared with itself alone."""
    return {
        f"chat template of {card.served_id}" if fact == "chat template" else fact: value
        for fact, value in card.told.items()
        if fact != "model"
    }
