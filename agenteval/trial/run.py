"""A run: one model over some scenarios, with all that its numbers depend on.

In order: the cards of its model and arm, shown next to its rates; how reasoning was sent back;
the run as stored; `Conditions`, and the differences of runs in them: those that forbid a
comparison, and those that may explain one.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from agenteval.trial.trial import Trial

REAL = "real/"  # before the name of a real program that is the agent
NOT_OBSERVABLE = "not observable"  # of what a log cannot show
# What a server was seen to do to its model, by subject, and what of it decides what can occur.
GRAMMAR, INVENTED = "grammar of calls", "a tool that nobody offers"
FITTED = "in force: arguments are made to fit their schema"
STOPPED = "in force: what it does not allow ends as an error"
FREE = "none seen: a call came that breaks its schema"
THROUGH = "its call comes through"
COST = "asked"  # what the questions took
BROKEN_ARGUMENTS, INVENTED_TOOL = "malformed-arguments", "hallucinated-tool"  # failure classes
OURS = "ours"  # whose words an arm has, where no program's were captured


def _request_option(label: str, *, unset: str) -> Any:
    """Return the field of an option that is sent as it is with each request that offers tools.

    Reports name it by its label. Runs differ by it, where `unset` is the server's default.
    """
    return field(default="", metadata={"label": label, "unset": unset})


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The served model, as far as it is known. Parameters in billions; "" and None mean unknown.

    An option of requests is one field (`_request_option`); the field of `config.models.ModelEntry`
    with the same name says how it is read.

    `told` holds the facts that the server reports of itself. `seen` holds its behaviour as probes
    before the run observed it. All else comes from the user.

    `tools` is native, or the dialect and its version in which calls were written as text.
    `reasoning` is the rule by which reasoning was sent back.
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
    tool_choice: str = _request_option("tool choice", unset="auto")
    stream: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    told: Mapping[str, str] = field(default_factory=dict)
    reasoning: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)

    @property
    def cannot_occur(self) -> tuple[str, ...] | None:
        """The failure classes that the server keeps its model from; None if that is unknown."""
        grammar = self.seen.get(GRAMMAR, NOT_OBSERVABLE)
        if grammar == FREE:
            return ()
        if grammar not in {FITTED, STOPPED}:
            return None
        if grammar == STOPPED or self.seen.get(INVENTED) == THROUGH:
            return (BROKEN_ARGUMENTS,)
        return INVENTED_TOOL, BROKEN_ARGUMENTS


@dataclass(frozen=True, slots=True)
class _RequestOption:
    """An option of requests, by its name in agenteval.toml, on the card and in a request."""

    name: str
    label: str
    unset: str


REQUEST_OPTIONS = tuple(
    _RequestOption(option.name, **option.metadata)
    for option in fields(ModelCard)
    if option.metadata
)


@dataclass(frozen=True, slots=True)
class ArmCard:
    """A run's record of its arm, whose rules name `named` of the failure `classes`.

    `named` is None if that is unknown, because the rules are the user's own. A first request has
    about `tokens` tokens, descriptions of the tools included.
    """

    name: str
    version: int
    words: str
    rules: str
    named: int | None
    classes: int
    tokens: int
    denials: str
    engine: str
    summary: str

    @property
    def sentence(self) -> str:
        """The whole card in one sentence."""
        named = "the user's own rules"
        if self.named is not None:
            named = f"rules name {self.named} of the {self.classes} classes"
        words = "our words" if self.words == OURS else f"words of {self.words}"
        judge = f"{self.engine}'s rules judge" if self.engine else "our allow lists judge"
        length = f"about {self.tokens / 1000:.1f}k tokens of context at the start; "
        return (
            f"{self.name}/{self.version}: {named}; {length if self.tokens else ''}"
            f"{words}: {self.summary}; denials {self.denials}; {judge}"
        )


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a run that nobody played: logs of this format. `hidden` names what they lack.

    `basis` names the allow list that judged its calls; it is empty if the recorded outcomes count.
    `judged` is False if errors could not be recognised at all.
    """

    format: str
    basis: str = ""
    hidden: Sequence[str] = ()
    judged: bool = True


# Reasoning.

# What a model thought, sent back to it. Within a tool loop the templates of thinking models expect
# the reasoning of its earlier turns: a harness sends it back under the name it came in. Behind an
# answer of the model it is dropped, as templates drop it there themselves.
Rule = Literal["loop", "always", "drop"]
FIELD = "reasoning_content"  # until a reply has shown what the server calls it
# Families whose makers say that reasoning must not come back, or whose templates have no place for
# it. Most others (Qwen3, GLM-4.5, MiniMax M2, Kimi K2 Thinking, DeepSeek V3.2, gpt-oss) want it.
_DROPPED = re.compile(
    r"deepseek-?(?:r1|reasoner|v3(?:[.-]?1)?(?![.\d]))|qwq|gemma|phi-?4|command|granite",
    re.IGNORECASE,
)
# Services that answer a message with reasoning in it by 422, whatever the model.
_REFUSED = re.compile(r"//api\.mistral\.ai(?:[:/]|$)", re.IGNORECASE)
TOLD = {
    "loop": "sent back within the tool loop",
    "always": "always sent back",
    "drop": "not sent back",
}


def usual(model: str, base_url: str = "") -> Rule:
    """Return the rule for a model by its served name and its server; else the most common rule."""
    return "drop" if _DROPPED.search(model) or _REFUSED.search(base_url) else "loop"


def _departs(rule: str, model: str, base_url: str = "") -> str:
    """Return the rule in words, which say if it is the usual one; "" if none was recorded."""
    if not rule:
        return ""
    return "as usual for the model" if rule == usual(model, base_url) else TOLD.get(rule, rule)


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


# The run.


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


# Conditions.

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
        texts = [self.asked.get(name, "") for name in READ_BY_THE_MODEL]
        arm, harness, variant, rules, context = texts
        if not arm:
            return ""
        if harness not in {"", OUR_LOOP}:
            arm = f"{REAL}{harness}"
        place = "" if rules == "at start" else f" {rules}"
        label = f"{arm}, rules {variant}{place}"
        return label if context == "0" else f"{label}, context {context}"

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
        "reasoning": _departs(run.model.reasoning, run.model.served_id, run.model.base_url),
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
        **{option.label: getattr(card, option.name) or option.unset for option in REQUEST_OPTIONS},
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


# Differences.

NAMED = 3  # scenarios
TOLD_WITH_VALUES = 60  # characters; a longer one says no more than that it differs


def differing_arms(conditions: Sequence[Conditions]) -> list[str]:
    """Return the differences in what the models read, with the values if they are short."""
    differences = _differing([run.asked for run in conditions])
    names = [name for name in READ_BY_THE_MODEL if name in differences]
    if not names and "prompts" in differences:
        names = ["prompts"]
    return [_with_values(name, differences[name]) for name in names]


def differing_asked(conditions: Sequence[Conditions], *, across_arms: bool = False) -> list[str]:
    """Return the differences in tasks and judging of the runs, with the values if they are short.

    `across_arms` leaves out what their models read.
    """
    differences = _differing([run.asked for run in conditions])
    if across_arms or any(name in differences for name in READ_BY_THE_MODEL):
        differences.pop("prompts", None)
    if across_arms:
        for name in READ_BY_THE_MODEL:
            differences.pop(name, None)
    texts = [_with_values(name, values) for name, values in differences.items()]
    return texts + _differing_lists(conditions)


def _differing_lists(conditions: Sequence[Conditions]) -> list[str]:
    """Return the allow lists that judged a scenario of several runs differently.

    The lists of all scenarios together say little: runs of some scenarios alone have fewer. Lists
    of one name are compared only if it is unknown which of them judged which scenario.
    """
    if any(run.policies and not run.judged for run in conditions):
        names = _differing([run.policies for run in conditions])
        return [f"{ALLOW_LISTS} ({name})" for name in names]
    differences = _differing([run.judged for run in conditions])
    if not differences:
        return []
    sides = [_lists_of(run, differences) for run in conditions]
    return [_with_values(ALLOW_LISTS, [side for side in dict.fromkeys(sides) if side])]


def _lists_of(run: Conditions, scenarios: Collection[str]) -> str:
    """Return the names of the lists that judged these scenarios."""
    names = {digest: name for name, digest in run.policies.items()}
    digests = [run.judged[scenario] for scenario in scenarios if scenario in run.judged]
    return ", ".join(sorted({names.get(digest, "?") for digest in digests}))


def unlike_classes(conditions: Sequence[Conditions]) -> list[str]:
    """Return the classes that the server of one run keeps its model from, and another's does not.

    A run whose server was not probed differs from none.
    """
    of_runs = [set(run.cannot_occur) for run in conditions if run.cannot_occur is not None]
    if not of_runs:
        return []
    in_some = set.union(*of_runs)
    in_all = set.intersection(*of_runs)
    return sorted(in_some - in_all)


def differing_other(conditions: Sequence[Conditions]) -> list[str]:
    """Return all other differences of the runs."""
    differences = _differing([run.other for run in conditions])
    differences |= _differing([run.told for run in conditions])
    texts = [_with_values(name, values) for name, values in differences.items()]
    changed = list(_differing([run.scenarios for run in conditions]))
    if changed:
        more = ", ..." if len(changed) > NAMED else ""
        names = ", ".join(changed[:NAMED])
        texts.append(f"what is asked in {names}{more} ({len(changed)} in all)")
    return texts


def distinctions(conditions: Sequence[Conditions]) -> list[str]:
    """Return for each run how it differs from the others, in a few words; may be empty."""
    texts = [{**run.asked, **run.other} for run in conditions]
    differences = _differing(texts)
    if any(name in differences for name in READ_BY_THE_MODEL):
        differences.pop("prompts", None)
    short = [
        name for name, values in differences.items() if max(map(len, values)) <= TOLD_WITH_VALUES
    ]
    distinctions = []
    for run_texts in texts:
        known = [f"{name} {run_texts[name]}" for name in short if run_texts.get(name)]
        distinctions.append(", ".join(known))
    return distinctions


def _differing(sides: Sequence[Texts]) -> dict[str, list[str]]:
    """Return the values, each once, of every name that has several."""
    values_by_name: dict[str, list[str]] = {}
    for side in sides:
        for name, value in side.items():
            values = values_by_name.setdefault(name, [])
            if value not in {"", NOT_OBSERVABLE, *values}:
                values.append(value)
    return {name: values for name, values in values_by_name.items() if len(values) > 1}


def _with_values(name: str, values: Sequence[str]) -> str:
    listed = " / ".join(values)
    return f"{name} ({listed})" if len(listed) <= TOLD_WITH_VALUES else name
