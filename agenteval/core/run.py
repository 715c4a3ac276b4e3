"""A run: one model over some scenarios, with all that its numbers depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agenteval.core.cards import GRAMMAR, REAL, ArmCard, ModelCard, Source, departs
from agenteval.core.trial import Trial


@dataclass(frozen=True, slots=True)
class Look:
    """One interim analysis of a run by a gate, after so many of its trials.

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
    judged: str = ""  # digest of what judged their calls; empty where nobody kept it


@dataclass(frozen=True, slots=True)
class Crash:
    """An observed crash or restart of the server; `at` in seconds since 1970."""

    at: float
    said: str


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The first and the present judge of a run's calls, and the number of changed verdicts."""

    first: str
    now: str
    allowed: int  # calls that were denied first
    denied: int


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command that began a run, with its choices for those not given."""

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
    """The cost of playing a run: seconds by the clock; joules of this machine's GPUs if known."""

    seconds: float
    joules: float | None = None


def judged_by(scenario: str, agent: str = "") -> str:
    """Return the key of a scenario, or of a sub-agent in it, in `Run.judged`."""
    return f"{scenario}:{agent}" if agent else scenario


@dataclass(frozen=True, slots=True)
class Run:
    """One run as stored.

    `policies` maps each allow list used to its digest; `judged` maps each scenario, and each
    sub-agent of it, to the digest of the one that judges its calls. It is empty for a run of logs,
    and if it was not recorded.

    `prefork` says whether unchanged scripts of the fixture ran in a fork of a warm Python.
    `second_reader` counts how often that reader agreed, objected, failed and timed out.
    `complete` is False while it runs and after an interruption: what is there is still true.
    A run that a gate stopped early is complete; `looks` then records it. `effort` is None if it
    was not measured: in older releases, or when the run was cut off.

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
    judged: Mapping[str, str] = field(default_factory=dict)
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
    rejudged: Rejudged | None = None  # None where it never was

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
TAXONOMY, ALLOW_LISTS = "taxonomy version", "allow lists"  # what `rescore` can make alike
AS_RECORDED = "as recorded"
SEEN_ALIKE = (GRAMMAR, "calls come")  # of what was seen, what is the server's and not the model's


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run: `asked` are its tasks and rules, `other` is how it was played.

    A server reads a streamed reply and a whole one by different code: one loses a call that is cut,
    the other completes it. So the form of replies belongs to `asked`.
    Runs that differ in `asked` measured different things. A difference in `other` may explain a
    result, and so may the facts that the server reports of itself (`told`). A digest of a scenario
    changes with a new version of agenteval as well as with an edit, and so it forbids nothing.
    """

    asked: Texts = field(default_factory=dict)
    policies: Texts = field(default_factory=dict)
    judged: Texts = field(default_factory=dict)  # as `Run.judged`; empty where nobody kept it
    scenarios: Texts = field(default_factory=dict)
    other: Texts = field(default_factory=dict)
    told: Texts = field(default_factory=dict)
    cannot_occur: tuple[str, ...] | None = None  # failure classes, as far as the server was asked

    @property
    def arm(self) -> str:
        """The texts that the model read, in a few words; empty if they were not recorded."""
        texts = {name: self.asked.get(name, "") for name in READ_BY_THE_MODEL}
        if not texts["arm"]:
            return ""
        place = "" if texts["rules"] == "at start" else f" {texts['rules']}"
        real = texts["harness"] not in {"", OUR_LOOP}
        arm = f"{REAL}{texts['harness']}" if real else texts["arm"]
        label = f"{arm}, rules {texts['prompt variant']}{place}"
        return label if texts["context"] == "0" else f"{label}, context {texts['context']}"

    @classmethod
    def of(cls, run: Run) -> "Conditions":
        return cls(
            asked=_task_and_rules(run),
            policies=_lists(run),
            judged=_judged(run),
            scenarios=run.scenarios,
            other=_other(run),
            told=_server_facts(run.model),
            cannot_occur=run.model.cannot_occur,
        )


def _lists(run: Run) -> Texts:
    """Return the allow lists. Sessions of logs are all judged by one list, or as recorded."""
    if run.source is None or run.policies:
        return run.policies
    return {AS_RECORDED: AS_RECORDED}


def _judged(run: Run) -> Texts:
    return {"every session": " ".join(_lists(run).values())} if run.source else run.judged


def _task_and_rules(run: Run) -> Texts:
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


def _server_facts(card: ModelCard) -> Texts:
    """Return the server's facts. A model's own chat template is compared with itself alone."""
    return {
        f"chat template of {card.served_id}" if fact == "chat template" else fact: value
        for fact, value in card.told.items()
        if fact != "model"
    }
