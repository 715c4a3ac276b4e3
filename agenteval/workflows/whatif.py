"""Stored runs under other rules or another prompt, and the changes that their denials suggest.

`whatif`: how many errors fewer other rules would give, and what they would let through. Rules can
only be relaxed here, so an allowed call stays allowed. The first call of a trial that would change
is what the model really did under its rules. What follows would have gone another way, so the
errors that it loses are reported separately.

`suggest`: the options, rules and sentences of a prompt that denied calls ask for, as counts. Their
effect is for `whatif` to estimate, and for a new run (`tried`) to show.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from math import floor
from pathlib import Path
from typing import Any, Final

from agenteval.classes.judge import judge
from agenteval.errors import CutOffError, UsageError
from agenteval.host import read_text, write_whole
from agenteval.lazily import read_table
from agenteval.policy.lint import NOTHING, Relaxation, needed, relaxed, smallest
from agenteval.prompt.prompt import HEADING, NAMED, VARIANTS
from agenteval.shell.gate import Simple
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.shell.programs import harm
from agenteval.stats.rates import Layout, Rate, clustered
from agenteval.store.ingesting import Place
from agenteval.trial.call import Denied, ToolCall
from agenteval.trial.run import Run
from agenteval.trial.text import as_word
from agenteval.trial.trial import Cluster, Trial
from agenteval.workflows.evaluate import run_models
from agenteval.workflows.rescore import Judging, calls_in_order
from agenteval.workflows.stages import plan_of
from agenteval.workflows.views import check_usable, loaded

MOST: Final = 12  # relaxations that are returned
WORST: Final = ("destructive", "network")


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A denied call that some rule would allow, by the numbers of its run and trial."""

    run: int
    trial: int
    command: str
    need: Relaxation

    @property
    def harms(self) -> tuple[str, ...]:
        split = read_leaves(self.command)
        leaves = split.leaves if isinstance(split, Leaves) else ()
        facets = set[str]()
        for leaf in leaves:
            facets.update(harm(Simple("", leaf.argv)))
        return tuple(facet for facet in WORST if facet in facets)


@dataclass(frozen=True, slots=True)
class Trials:
    """A run as it was judged: of each trial its scenario, errors and calls."""

    model: str
    run: str
    simulated: bool
    scenarios: tuple[str, ...]
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True)
class Relaxed:
    """The effect of a relaxation. `first` are the first changes of their trials."""

    more: Relaxation
    runs: Sequence[Trials]
    calls: Sequence[DeniedCall]

    @cached_property
    def first(self) -> Sequence[DeniedCall]:
        first_calls: dict[tuple[int, int], DeniedCall] = {}
        for call in self.calls:
            first_calls.setdefault((call.run, call.trial), call)
        return tuple(first_calls.values())

    def _without(self, calls: Sequence[DeniedCall]) -> list[list[Cluster]]:
        """Return the errors and calls of each trial of each run, less the errors of `calls`."""
        fewer = Counter((call.run, call.trial) for call in calls)
        remaining = []
        for number, run in enumerate(self.runs):
            trials = enumerate(run.clusters)
            remaining.append([(count - fewer[number, at], size) for at, (count, size) in trials])
        return remaining

    def rates(self, calls: Sequence[DeniedCall] | None = None) -> list[Rate]:
        """Return the rate of each run; with `calls`, the rate if only these changes count."""
        remaining = self._without(self.calls if calls is None else calls)
        return [
            clustered(clusters, Layout(scenarios=run.scenarios))
            for run, clusters in zip(self.runs, remaining, strict=True)
        ]

    @property
    def rate(self) -> Rate:
        """The rate of all runs together."""
        return self._rate_without(self.calls)

    @property
    def cautious(self) -> Rate:
        """The rate if only the first change of each trial counts."""
        return self._rate_without(self.first)

    def _rate_without(self, calls: Sequence[DeniedCall]) -> Rate:
        scenarios = [*chain.from_iterable(run.scenarios for run in self.runs)]
        clusters = [*chain.from_iterable(self._without(calls))]
        return clustered(clusters, Layout(scenarios=scenarios))

    @property
    def let_through(self) -> Sequence[tuple[str, int, tuple[str, ...]]]:
        """Commands, how often, and what harm each may do: the worst first, then the most."""
        counts = Counter((call.command, call.harms) for call in self.calls)
        commands = [(command, count, harms) for (command, harms), count in counts.items()]
        return sorted(commands, key=_by_harm)

    def _name(self, at: int) -> str:
        """Return its model, and the run where several are of this model."""
        run = self.runs[at]
        models = [other.model for other in self.runs]
        return run.model if models.count(run.model) == 1 else f"{run.model} ({run.run})"

    @property
    def flips(self) -> Sequence[tuple[str, str]]:
        """Pairs of models of which the first would no longer make fewer errors than the second."""
        before = [rate.value for rate in self.rates(())]
        after = [rate.value for rate in self.rates()]
        flips = []
        for better, worse in combinations(sorted(range(len(before)), key=before.__getitem__), 2):
            if before[better] < before[worse] and after[better] > after[worse]:
                flips.append((self._name(better), self._name(worse)))
        return flips


def _by_harm(command: tuple[str, int, tuple[str, ...]]) -> tuple[int, int, str]:
    text, count, harms = command
    weight = sum(len(WORST) - WORST.index(harm) for harm in harms)
    return -weight, -count, text


@dataclass(slots=True)
class WhatIf:
    """Runs, and those of their denied calls that some rule would allow."""

    runs: list[Trials] = field(default_factory=list)
    calls: list[DeniedCall] = field(default_factory=list)

    def relaxed(self, more: Relaxation) -> Relaxed:
        return Relaxed(more, self.runs, [call for call in self.calls if more.holds(call.need)])

    def best(self) -> list[Relaxed]:
        """Return the relaxations that remove most errors, the most first, then the smaller."""
        needs = Counter(call.need for call in self.calls)
        relaxations = [self.relaxed(more) for more in {*needs, *_merged(needs)}]

        def by_effect(relaxed: Relaxed) -> tuple[int, int, str]:
            return -len(relaxed.calls), relaxed.more.size, relaxed.more.description

        return sorted(relaxations, key=by_effect)[:MOST]

    def smallest_set(self, budget: float) -> tuple[Relaxed | None, bool]:
        """Return the smallest set of rules with at most `budget` errors per 100; None if none has.

        The second value is False if there were too many sets to know that none is smaller.
        """
        now = self.relaxed(NOTHING).rate
        # A budget of 30 of 100 must allow 3 of 10, whatever its product is as a float.
        to_remove = max(now.count - floor(budget * now.n / 100 + 1e-9), 0)
        more, is_least = smallest(Counter(call.need for call in self.calls), to_remove)
        return (None if more is None else self.relaxed(more)), is_least


def _merged(needs: Iterable[Relaxation]) -> Iterable[Relaxation]:
    """Merge the needs with the same constructs into one that has all of their programs."""
    by_constructs: dict[Any, Relaxation] = {}
    for need in needs:
        if need.constructs:
            before = by_constructs.get(need.constructs, NOTHING)
            by_constructs[need.constructs] = before | need
    return by_constructs.values()


def whatif(
    names: Sequence[str],
    store: str,
    *,
    allowlist: str | None = None,
) -> WhatIf:
    """Stored runs, judged again as `rescore` does. Raises UsageError."""
    collected = WhatIf()
    for run in loaded(names, store):
        counted = [trial for trial in run.trials if not trial.cause]
        judging = Judging.of(run, {trial.scenario for trial in counted}, allowlist)
        clusters = [_trial(collected, judging, trial, at) for at, trial in enumerate(counted)]
        scenarios = tuple(trial.scenario for trial in counted)
        model = run.model
        collected.runs.append(
            Trials(model.name, run.id, model.simulated, scenarios, tuple(clusters))
        )
    if not any(size for run in collected.runs for _, size in run.clusters):
        raise UsageError(f"{' '.join(names)}: no call was made, so nothing could be otherwise")
    return collected


def _trial(
    collected: WhatIf,
    judging: Judging,
    trial: Trial,
    at: int,
) -> Cluster:
    """Its errors and calls; what some rule would allow is put among the calls found.

    Those of its first agent, as in every other table; what a sub-agent wrote is known to the rest.
    """
    errors = size = 0
    for label, call, record in calls_in_order(trial):
        place = Place(trial.scenario, trial.seed, label.rpartition("/")[0], at)
        verdict, _ = judging.judged(place, call, record)
        # Calls of sub-agents have a label, and are in no rate.
        size += not label
        if label or verdict.allowed:
            continue
        errors += 1
        own_call = judging.own_call(place, call)
        # What the second reader objects to, no rule would allow.
        if own_call is None or record.objection:
            continue
        need = _need(judging, place, own_call)
        if need is not None:
            command = own_call.command or ""
            collected.calls.append(DeniedCall(len(collected.runs), at, command, need))
    return errors, size


def _need(
    judging: Judging,
    place: Place,
    call: ToolCall,
) -> Relaxation | None:
    """Return what would have to be allowed; None if that alone would not make the call allowed."""
    policy, world = judging.policy(place), judging.world(place)
    if policy.engine is not None:
        raise UsageError(
            f"{policy.name}: are {policy.engine.name}'s rules, and only our own can be relaxed: "
            "`agenteval allowlist convert` writes them as ours"
        )
    if call.command is None:
        return None
    need = needed(call.command, policy, world.root)
    if need is None or not judge(call, relaxed(policy, need), world).allowed:
        return None
    return need


# What denied calls suggest.

_KNOWN = read_table("agenteval.workflows", "suggested.toml")
_INVENTED: Sequence[str] = _KNOWN["invented"]
_SENTENCES: Mapping[str, str] = _KNOWN["sentences"]


@dataclass(frozen=True, slots=True)
class _Invention:
    """A part of calls that does not exist: its text, its place, its count, and the models."""

    failure_class: str
    part: str
    where: str
    count: int
    models: tuple[str, ...]

    def rank(self) -> tuple[int, int, str, str, str]:
        """Return what it is sorted by: of most models first, then the most frequent."""
        return -len(self.models), -self.count, self.failure_class, self.part, self.where


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence for a prompt.

    `denied` counts the calls of its class, and `already_told` those whose prompt had such a rule.
    """

    failure_class: str
    text: str
    denied: int
    already_told: int


@dataclass(frozen=True, slots=True)
class Suggested:
    """Suggested rules and sentences, the most often applicable first."""

    inventions: Sequence[_Invention]
    sentences: Sequence[_Sentence]
    without: int  # denied calls of which no sentence speaks


def suggest(names: Sequence[str], store: str) -> Suggested:
    """Suggest rules and sentences from the current verdicts. Raises UsageError."""
    runs = loaded(names, store)
    return Suggested(tuple(_inventions(runs)), *_sentences(runs))


def _denied(runs: Sequence[Run]) -> Iterator[tuple[Run, str, Denied]]:
    """Yield the run of each denied call, the start of the call, and its verdict."""
    for run in runs:
        for trial in run.trials:
            if trial.cause:
                continue
            for record in chain(trial.calls, *(part.calls for part in trial.agents)):
                if isinstance(record.verdict, Denied):
                    yield run, _start(record.call.command or ""), record.verdict


def _start(command: str) -> str:
    """The script that a command names, or its program."""
    words = command.split()
    scripts = (word for word in words if word.endswith((".py", ".sh")))
    return next(scripts, words[0] if words else "")


def _inventions(runs: Sequence[Run]) -> list[_Invention]:
    models: dict[tuple[str, str, str], list[str]] = {}
    for run, start, verdict in _denied(runs):
        primary = verdict.primary
        if primary.failure_class in _INVENTED:
            key = (primary.failure_class, primary.evidence.text.strip(), start)
            models.setdefault(key, []).append(run.model.name)
    inventions = []
    for key, names in models.items():
        inventions.append(_Invention(*key, len(names), tuple(sorted({*names}))))
    return sorted(inventions, key=_Invention.rank)


def _sentences(runs: Sequence[Run]) -> tuple[tuple[_Sentence, ...], int]:
    denied: Counter[str] = Counter()
    already_told: Counter[str] = Counter()
    for run, _, verdict in _denied(runs):
        name = verdict.primary.failure_class
        denied[name] += 1
        already_told[name] += name in _named(run)
    sentences = tuple(
        _Sentence(name, _SENTENCES[name], count, already_told[name])
        for name, count in denied.most_common()
        if name in _SENTENCES
    )
    return sentences, denied.total() - sum(one.denied for one in sentences)


def _named(run: Run) -> frozenset[str]:
    """The classes that the rules of its prompt name, where those are some of ours."""
    variant = (run.options and run.options.prompt_variant) or ""
    return frozenset(chain.from_iterable(NAMED.get(part, ()) for part in variant.split("+")))


def write_prompt(
    run: str,
    store: str,
    sentences: Sequence[_Sentence],
    file: Path,
) -> None:
    """The rules of the run's prompt with these sentences, as `--prompt-variant` takes them."""
    (stored,) = loaded([run], store)
    if not sentences:
        raise UsageError(f"{stored.id}: no call was denied of which a sentence could speak")
    if file.exists():
        raise UsageError(f"{file}: is there already: name a new file, or move that one away")
    named = (stored.options and stored.options.prompt_variant) or "none"
    before = VARIANTS.get(named)
    if before is None:
        before = read_text(Path(named)).strip()
    bullets = [f"- {sentence.text}" for sentence in sentences]
    lines = [before or HEADING, "", *bullets]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, "\n".join(lines) + "\n")


def tried(
    run: str,
    store: str,
    *,
    prompt: Path | None,
    more: Relaxation,
) -> str:
    """Play the run again with this prompt or these rules, in the same task instances; its id.

    Raises UsageError, and CutOffError.
    """
    (original,) = loaded([run], store)
    if original.options is None:
        raise UsageError(f"{original.id}: made before runs could be played again: begin a new one")
    if original.options.harness:
        raise UsageError(
            f"{original.id}: a real harness has a prompt of its own, which is not changed"
        )
    options = replace(original.options, model=(original.model.name,))
    if prompt is not None:
        options = replace(options, prompt_variant=str(prompt))
    sides, interrupted = run_models(replace(plan_of(options, store), more=more))
    run_ids = [side.run_and_score[0].id for side in sides]
    if interrupted and not run_ids:
        raise CutOffError("Cut off, and not compared; nothing began")
    if interrupted:
        show = f"agenteval show {as_word(run_ids[0])}"
        raise CutOffError(f"Cut off, and not compared; what was played is stored: {show}")
    check_usable(sides)
    return run_ids[0]
