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
from agenteval.report.view import Arrivals, RunView, Views
from agenteval.stats.rates import Rate, total
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

_DIGEST_SHOWN = 19  # "sha256:" and twelve digits tell two policies apart; the JSON has all of it


def provenance_table(views: Views) -> Table:
    facts = [_facts(view) for view in views]
    rows = []
    for label in dict.fromkeys(chain.from_iterable(facts)):
        texts = [of_run.get(label, "-") for of_run in facts]
        rows.append(row(label, map(Cell, texts)))
    return titled_table("provenance", heads(views), rows)


def _facts(view: RunView) -> dict[str, str]:
    run = view.run
    facts = {
        "run": run.id,
        "started": run.started,
        "state": "complete" if run.complete else "NOT COMPLETE",
        "trials": f"{view.played} of {run.trials_planned}",
        **_gate(run),
        **model_facts(run.model),
        **_prompt_tokens(view),
        **(_source(run.source, run.policies) if run.source else _played(run)),
        "taxonomy": run.taxonomy,
    }
    for name, digest in run.policies.items():
        facts[f"allow list {name}"] = digest[:_DIGEST_SHOWN]
    return facts


def _source(source: Source, policies: Mapping[str, str]) -> dict[str, str]:
    """Return the source of a run that was imported from logs."""
    basis = "an allow list" if policies else "the log, as it was recorded"
    return {
        "read from logs of": source.format,
        "errors are judged by": basis if source.judged or policies else NOT_OBSERVABLE,
        NOT_OBSERVABLE: ", ".join(("how a trial ended", *source.hidden)),
    }


def _played(run: Run) -> dict[str, str]:
    facts = {
        "sandbox": "NONE" if run.sandbox == "none" else run.sandbox,
        "pre-forked scripts": "yes" if run.prefork else "no",
        "seed": str(run.seed),
        "max turns": "by scenario" if run.max_turns is None else str(run.max_turns),
        "concurrency": str(run.concurrency),
    }
    if run.arm:
        facts["arm"] = run.arm.sentence
    return facts | {"prompts": run.protocol}


def _gate(run: Run) -> dict[str, str]:
    """Return the last interim look of a gate that watched the run."""
    last = run.last_planned
    if last is None:
        return {}
    saved = f", {run.saved} trials saved" if run.saved else ""
    return {"gate": f"{last.verdict} at look {last.number} of {last.planned}{saved}"}


def model_facts(card: ModelCard) -> dict[str, str]:
    """Return the known facts of the model, without blank ones."""
    facts = {
        "model": f"{card.served_id} ({MARK})" if card.simulated else card.served_id,
        "architecture": _architecture(card),
        "quantization": card.quantization,
        "KV cache": card.kv_cache,
        "server": f"{card.server} {card.server_version}".strip(),
        "endpoints": card.base_url if " " in card.base_url else "",
        "tool parser": card.tool_parser,
        "tool calls": card.tools if card.tools == "native" else f"as text, {card.tools}",
    }
    for option in REQUEST_OPTIONS:
        facts[option.label] = getattr(card, option.name)
    facts["replies"] = "streamed" if card.stream else "whole"
    facts["reasoning"] = TOLD.get(card.reasoning, "")
    facts["sampling"] = ", ".join(f"{name} {value}" for name, value in card.sampling.items())
    for fact, value in card.told.items():
        is_digest = value.startswith("sha256:")
        facts[f"server says: {fact}"] = value[:_DIGEST_SHOWN] if is_digest else value
    for subject, observation in card.seen.items():
        facts[f"seen: {subject}"] = observation
    return {label: value for label, value in facts.items() if value}


def _prompt_tokens(view: RunView) -> dict[str, str]:
    """Return median and range of the first requests' prompt tokens, as the server counts them.

    They include its chat template.
    """
    counts = [trial.prompt_tokens for trial in view.score.counted if trial.prompt_tokens]
    tokens = spread(counts)
    if tokens is None:
        return {}
    text = f"{tokens.median:g} ({min(counts)}-{max(counts)}) n={tokens.n}"
    return {"prompt tokens": text}


def _architecture(card: ModelCard) -> str:
    """Return the architecture in the usual notation: "moe, 35B total, 3B active"."""
    parts: list[str] = [card.architecture] if card.architecture else []
    if card.total_parameters:
        parts.append(f"{card.total_parameters:g}B total")
    if card.active_parameters:
        parts.append(f"{card.active_parameters:g}B active")
    return ", ".join(parts)


# Calls of sub-agents, which all other tables leave out.

_FIRST = "first agent, all scenarios"
_NO_CALL = Rate(0, 0)


def agent_tables(views: Views) -> Iterator[Table]:
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
    denied, calls = total([counts for trial in run.counted for counts in trial.agents.values()])
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
_MANY_VOIDS = 0.05  # of all trials: from here on they may make a difference
MIXED = "A simulated model stands beside a real one: they cannot be compared."


def warnings(sides: Sequence[Side], views: Views) -> Iterator[str]:
    simulated = {side.card.simulated for side in sides}
    if True in simulated:
        yield SIMULATED
    if len(simulated) > 1:
        yield MIXED
    for view in views:
        yield from _of_run(view)
    tables = [side.label for side in sides if side.run is None]
    if views and tables:
        yield (
            f"{', '.join(tables)}: counts from a table. Under which allow list, taxonomy, prompts "
            "and scenarios they were made is not known."
        )
    by_call = [side.label for side in sides if not side.errors.by_trial]
    if by_call:
        yield (
            f"{', '.join(by_call)}: the counts do not say which calls belong to one trial, so all "
            "are taken as independent. Calls of one trial resemble each other: the intervals are "
            "too narrow and p too small."
        )
    yield from _unequal(views)
    yield from _other_worlds(views)


def _of_run(view: RunView) -> Iterator[str]:
    run, label = view.run, view.label
    if run.source:
        yield (
            f"{label}: sessions out of logs of {run.source.format}. Tasks, prompts and rules "
            "were whatever their users had: a rate stands beside these alone."
        )
    if run.sandbox == "none":
        yield f"{label}: commands ran WITHOUT A SANDBOX (sandbox none)."
    if not run.complete:
        cut = sum(void.cause is Cause.INTERRUPTED for void in view.score.voids)
        more = f", and {cut} that were cut off." if cut else "."
        yield (
            f"{label}: the run is not complete, {view.played - cut} of {run.trials_planned} "
            f"trials are here{more}"
        )
    last = run.last_planned
    if run.saved and last:
        yield (
            f"{label}: a gate ended the run at look {last.number} of {last.planned} with "
            f"{last.verdict}, after {last.trials} of {run.trials_planned} trials, which saved "
            f"{run.saved} ({run.saved / run.trials_planned:.0%}). Rates of a run that was stopped "
            "for them lean towards that verdict."
        )
    if impossible := run.model.cannot_occur:
        yield (
            f"{label}: a grammar of the server constrains calls: "
            f"{' and '.join(impossible)} cannot occur, whatever the model would write."
        )
    if view.score.voids:
        yield _void_warning(view)
    yield from retried_told(label, run.replaced)
    yield from rejudged_told(label, run.rejudged)
    if view.arrivals:
        yield from _of_arrivals(label, view.arrivals)
    if view.errors.total.clusters == 1:
        yield f"{label}: one trial tells next to nothing about the next one."


def _of_arrivals(label: str, arrivals: Arrivals) -> Iterator[str]:
    calls_as_text = arrivals.kinds["call-in-text"].count
    if calls_as_text:
        yield (
            f"{label}: calls left as text, so that nothing ran: {calls_as_text}. "
            "Does the server's tool parser fit the model?"
        )
    blames = {blame: rate.count for blame, rate in arrivals.blames.items()}
    yield from spoilt_told(label, blames, arrivals.faulty.n)


def _void_warning(view: RunView) -> str:
    share = view.score.void_share
    line = f"{view.label}: {void_of(len(view.score.voids), view.played)} and left out of every rate"
    if share > _MANY_VOIDS:
        line += (
            f" ({share:.0%}): if what broke them has to do with the model, these "
            "rates say little of it"
        )
    return f"{line}; their reasons are listed."


def without_told(classes: Sequence[str]) -> Iterator[str]:
    """Yield the remark on excluded failure classes, if there are any."""
    if classes:
        yield (
            f"Left out of all errors: {' and '.join(classes)}. A grammar of one server keeps its "
            "model from them, no other does."
        )


def _unequal(views: Views) -> Iterator[str]:
    """Yield the warning on conditions in which the runs differ besides the model."""
    conditions = [Conditions.of(view.run) for view in views]
    differing = [*differing_asked(conditions), *differing_other(conditions)]
    if len(set(map(_scenarios, views))) > 1:
        differing.append("scenarios")
    if not differing:
        return
    is_one_model = len({view.run.model.served_id for view in views}) == 1
    start = "of one model differ in" if is_one_model else "differ in more than the model"
    cure = ""
    if any(condition.startswith((TAXONOMY, ALLOW_LISTS)) for condition in differing):
        cure = " `agenteval rescore` judges stored calls again, by one taxonomy and allow list."
    yield f"These runs {start}: {', '.join(differing)}.{cure}"


def _scenarios(view: RunView) -> frozenset[str]:
    return frozenset(scenario for scenario, *_ in view.score.worlds)


def _other_worlds(views: Views) -> Iterator[str]:
    """Yield the warning on runs of the same scenarios with other task instances.

    They could have been paired, and are not.
    """
    if len(set(map(_scenarios, views))) > 1:
        return
    worlds = [view.score.worlds for view in views]
    if any(of_run and of_run.isdisjoint(worlds[0]) for of_run in worlds):
        seeds = sorted({view.run.seed for view in views})
        yield (
            f"These runs played other worlds (seeds {', '.join(map(str, seeds))}): their trials "
            "are not compared pair by pair. With one --seed for all, fewer calls settle a "
            "difference."
        )
