"""The provenance of a run's numbers: all conditions that they depend on, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from agenteval.errors import Cause
from agenteval.report.sentences import Side
from agenteval.report.tables import (
    MARK,
    Cell,
    Table,
    counted,
    heads,
    own_per_100,
    rejudged_told,
    retried_told,
    row,
    spoilt_told,
    titled_table,
    void_of,
)
from agenteval.report.view import RunView
from agenteval.stats.rates import Rate
from agenteval.trial.run import (
    ALLOW_LISTS,
    NOT_OBSERVABLE,
    REQUEST_OPTIONS,
    TAXONOMY,
    TOLD,
    Conditions,
    ModelCard,
    Run,
    Source,
    differing_asked,
    differing_other,
)
from agenteval.trial.summary import RunSummary
from agenteval.trial.tally import spread

DIGEST_SHOWN = 19  # "sha256:" and twelve digits tell two policies apart; the JSON has all of it


def provenance_table(views: Sequence[RunView]) -> Table:
    facts = [dict(_facts(view)) for view in views]
    rows = []
    for label in dict.fromkeys(chain.from_iterable(facts)):
        texts = [of_run.get(label, "-") for of_run in facts]
        rows.append(row(label, map(Cell, texts)))
    return titled_table("provenance", heads(views), rows)


def _facts(view: RunView) -> list[tuple[str, str]]:
    run = view.run
    return [
        ("run", run.id),
        ("started", run.started),
        ("state", "complete" if run.complete else "NOT COMPLETE"),
        ("trials", f"{view.played} of {run.trials_planned}"),
        *_gate(run),
        *model_facts(run.model),
        *_prompt_tokens(view),
        *(_source(run.source, run.policies) if run.source else _played(run)),
        ("taxonomy", run.taxonomy),
        *((f"allow list {name}", digest[:DIGEST_SHOWN]) for name, digest in run.policies.items()),
    ]


def _source(source: Source, policies: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the source of a run that was imported from logs."""
    basis = "an allow list" if policies else "the log, as it was recorded"
    return [
        ("read from logs of", source.format),
        ("errors are judged by", basis if source.judged or policies else NOT_OBSERVABLE),
        (NOT_OBSERVABLE, ", ".join(("how a trial ended", *source.hidden))),
    ]


def _played(run: Run) -> list[tuple[str, str]]:
    return [
        ("sandbox", "NONE" if run.sandbox == "none" else run.sandbox),
        ("pre-forked scripts", "yes" if run.prefork else "no"),
        ("seed", str(run.seed)),
        ("max turns", "by scenario" if run.max_turns is None else str(run.max_turns)),
        ("concurrency", str(run.concurrency)),
        *([("arm", run.arm.sentence)] if run.arm else []),
        ("prompts", run.protocol),
    ]


def _gate(run: Run) -> list[tuple[str, str]]:
    """Return the last interim look of a gate that watched the run."""
    last = run.last_planned
    if last is None:
        return []
    saved = f", {run.saved} trials saved" if run.saved else ""
    return [("gate", f"{last.verdict} at look {last.number} of {last.planned}{saved}")]


def model_facts(card: ModelCard) -> list[tuple[str, str]]:
    """Return the known facts of the model, without blank ones."""
    from_card = [
        ("model", f"{card.served_id} ({MARK})" if card.simulated else card.served_id),
        ("architecture", architecture(card)),
        ("quantization", card.quantization),
        ("KV cache", card.kv_cache),
        ("server", f"{card.server} {card.server_version}".strip()),
        ("endpoints", card.base_url if " " in card.base_url else ""),
        ("tool parser", card.tool_parser),
        ("tool calls", card.tools if card.tools == "native" else f"as text, {card.tools}"),
        *((option.label, getattr(card, option.name)) for option in REQUEST_OPTIONS),
        ("replies", "streamed" if card.stream else "whole"),
        ("reasoning", TOLD.get(card.reasoning, "")),
        ("sampling", ", ".join(f"{name} {value}" for name, value in card.sampling.items())),
    ]
    from_server = [(f"server says: {fact}", _short(value)) for fact, value in card.told.items()]
    observed = [(f"seen: {subject}", found) for subject, found in card.seen.items()]
    return [(label, value) for label, value in [*from_card, *from_server, *observed] if value]


def _short(value: str) -> str:
    return value[:DIGEST_SHOWN] if value.startswith("sha256:") else value


def _prompt_tokens(view: RunView) -> list[tuple[str, str]]:
    """Return median and range of the first requests' prompt tokens, as the server counts them.

    They include its chat template.
    """
    token_counts = [one.prompt_tokens for one in view.score.counted if one.prompt_tokens]
    if (tokens_spread := spread(token_counts)) is None:
        return []
    return [
        (
            "prompt tokens",
            (
                f"{tokens_spread.median:g} ({min(token_counts)}-{max(token_counts)}) "
                f"n={tokens_spread.n}"
            ),
        )
    ]


def architecture(card: ModelCard) -> str:
    """Return the architecture in the usual notation: "moe, 35B total, 3B active"."""
    sizes = [(card.total_parameters, "total"), (card.active_parameters, "active")]
    return ", ".join(
        part
        for part in (card.architecture, *(f"{size:g}B {kind}" for size, kind in sizes if size))
        if part
    )


# Calls of sub-agents, which all other tables leave out.

_FIRST = "first agent, all scenarios"
_NO_CALL = Rate(0, 0)


def agent_tables(views: Sequence[RunView]) -> Iterator[Table]:
    """Yield the table of calls by agent; none if no sub-agent made a call."""
    names = sorted({name for view in views for name in view.agents})
    if names:
        rates = {_FIRST: [view.errors.total for view in views]}
        for name in names:
            rates[name] = [view.agents.get(name, _NO_CALL) for view in views]
        rows = [row(name, map(own_per_100, of_agent)) for name, of_agent in rates.items()]
        yield titled_table("agents", heads(views), rows)


def agents_told(role: str, run: RunSummary) -> Iterator[str]:
    """Yield a remark on calls of sub-agents, which a gate counts only for `never` classes."""
    counts = [of for trial in run.counted for of in trial.agents.values()]
    denied, calls = (sum(one[at] for one in counts) for at in (0, 1))
    if calls:
        yield (
            f"Sub-agents of the {role} made {counted(calls, 'call')}, {denied} of them denied: in "
            "no figure here but of what must never happen; all others are of first agents."
        )


# Warnings, which stand before any number.

SIMULATED = (
    "SIMULATED: a simulated model played its slips from published rates. "
    "This shows that the tool works; it says nothing about a real model."
)
MANY_VOIDS = 0.05  # of all trials: from here on they may make a difference
MIXED = "A simulated model stands beside a real one: they cannot be compared."


def warnings(sides: Sequence[Side], views: Sequence[RunView]) -> tuple[str, ...]:
    texts = [SIMULATED] if any(side.card.simulated for side in sides) else []
    if len({side.card.simulated for side in sides}) > 1:
        texts.append(MIXED)
    for view in views:
        texts.extend(_of_run(view))
    tables = [side.label for side in sides if side.run is None]
    if views and tables:
        texts.append(
            f"{', '.join(tables)}: counts from a table. Under which allow list, taxonomy, prompts "
            "and scenarios they were made is not known."
        )
    return (*texts, *_of_counts(sides), *_unequal(views), *_other_worlds(views))


def _of_run(view: RunView) -> list[str]:
    run, texts = view.run, []
    if run.source:
        texts.append(
            f"{view.label}: sessions out of logs of {run.source.format}. Tasks, prompts and rules "
            "were whatever their users had: a rate stands beside these alone."
        )
    if run.sandbox == "none":
        texts.append(f"{view.label}: commands ran WITHOUT A SANDBOX (sandbox none).")
    if not run.complete:
        cut = sum(one.cause is Cause.INTERRUPTED for one in view.score.voids)
        texts.append(
            f"{view.label}: the run is not complete, "
            f"{view.played - cut} of {run.trials_planned} trials are here"
            + (f", and {cut} that were cut off." if cut else ".")
        )
    last = run.last_planned
    if run.saved and last:
        texts.append(
            f"{view.label}: a gate ended the run at look {last.number} of {last.planned} with "
            f"{last.verdict}, after {last.trials} of {run.trials_planned} trials, which saved "
            f"{run.saved} ({run.saved / run.trials_planned:.0%}). Rates of a run that was stopped "
            "for them lean towards that verdict."
        )
    if impossible := run.model.cannot_occur:
        texts.append(
            f"{view.label}: a grammar of the server constrains calls: "
            f"{' and '.join(impossible)} cannot occur, whatever the model would write."
        )
    texts += [
        *_of_voids(view),
        *retried_told(view.label, run.replaced),
        *rejudged_told(view.label, run.rejudged),
        *_of_arrivals(view),
    ]
    if view.errors.total.clusters == 1:
        texts.append(f"{view.label}: one trial tells next to nothing about the next one.")
    return texts


def _of_arrivals(view: RunView) -> Iterator[str]:
    if view.arrivals and (calls_as_text := view.arrivals.kinds["call-in-text"].count):
        yield (
            f"{view.label}: calls left as text, so that nothing ran: {calls_as_text}. "
            "Does the server's tool parser fit the model?"
        )
    if view.arrivals:
        blames = {blame: rate.count for blame, rate in view.arrivals.blames.items()}
        yield from spoilt_told(view.label, blames, view.arrivals.faulty.n)


def _of_voids(view: RunView) -> list[str]:
    """Return the warning on void trials; none without a void trial."""
    if not (voids := len(view.score.voids)):
        return []
    line = f"{view.label}: {void_of(voids, view.played)} and left out of every rate"
    if view.score.void_share > MANY_VOIDS:
        line += (
            f" ({view.score.void_share:.0%}): if what broke them has to do with the model, these "
            "rates say little of it"
        )
    return [f"{line}; their reasons are listed."]


def _of_counts(sides: Sequence[Side]) -> list[str]:
    counts = [side for side in sides if not side.errors.by_trial]
    if not counts:
        return []
    line = (
        f"{', '.join(side.label for side in counts)}: the counts do not say which calls belong to "
        "one trial, so all are taken as independent. Calls of one trial resemble each other: the "
        "intervals are too narrow and p too small."
    )
    return [line]


def without_told(classes: Sequence[str]) -> Sequence[str]:
    """Return the remark on excluded failure classes, if there are any."""
    start = f"Left out of all errors: {' and '.join(classes)}"
    remark = f"{start}. A grammar of one server keeps its model from them, no other does."
    return (remark,) if classes else ()


def _unequal(views: Sequence[RunView]) -> list[str]:
    """Return the warning on conditions in which the runs differ besides the model."""
    conditions = [Conditions.of(view.run) for view in views]
    differing = [*differing_asked(conditions), *differing_other(conditions)]
    played = [{world[0] for world in view.score.worlds} for view in views]
    if any(one != played[0] for one in played):
        differing.append("scenarios")
    if not differing:
        return []
    one_model = len({view.run.model.served_id for view in views}) == 1
    several = "These runs differ in more than the model"
    lead = "These runs of one model differ in" if one_model else several
    judged = any(one.startswith((TAXONOMY, ALLOW_LISTS)) for one in differing)
    cure = (
        " `agenteval rescore` judges stored calls again, by one taxonomy and allow list."
        if judged
        else ""
    )
    return [f"{lead}: {', '.join(differing)}.{cure}"]


def _other_worlds(views: Sequence[RunView]) -> list[str]:
    """Return the warning on runs of the same scenarios with other task instances.

    They could have been paired, and are not.
    """
    worlds = [view.score.worlds for view in views]
    scenarios = [{world[0] for world in met} for met in worlds]
    if any(one != scenarios[0] for one in scenarios):
        return []
    strange = [met for met in worlds if met and not met & worlds[0]]
    seeds = sorted({view.run.seed for view in views})
    if not strange:
        return []
    line = (
        f"These runs played other worlds (seeds {', '.join(map(str, seeds))}): their trials are "
        "not compared pair by pair. With one --seed for all, fewer calls settle a difference."
    )
    return [line]
