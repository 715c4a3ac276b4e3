"""Where a run's numbers come from: all they depend on, as one table."""

from collections.abc import Mapping, Sequence

from agenteval.core.run import ModelCard, Run
from agenteval.core.served import spread
from agenteval.report.tables import MARK, Cell, Row, Table, heads, per_100, row
from agenteval.report.view import RunView
from agenteval.stats.rates import Rate, clustered

DIGEST_SHOWN = 19  # "sha256:" and twelve digits tell two policies apart; the JSON has all of it


def provenance_table(views: Sequence[RunView]) -> Table:
    facts = [dict(_facts(view)) for view in views]
    labels = dict.fromkeys(label for one in facts for label in one)
    rows = [Row(label, tuple(Cell(one.get(label, "-")) for one in facts)) for label in labels]
    return Table("Provenance", "What these numbers depend on.", heads(views), tuple(rows))


def _facts(view: RunView) -> list[tuple[str, str]]:
    run = view.run
    return [
        ("run", run.id),
        ("started", run.started),
        ("state", "complete" if run.complete else "NOT COMPLETE"),
        ("trials", f"{view.played} of {run.trials_planned}"),
        *_gate(run),
        *_model_facts(run.model),
        *_prompt_tokens(view),
        ("sandbox", "NONE" if run.sandbox == "none" else run.sandbox),
        ("pre-forked scripts", "yes" if run.prefork else "no"),
        ("seed", str(run.seed)),
        ("max turns", "by scenario" if run.max_turns is None else str(run.max_turns)),
        ("concurrency", str(run.concurrency)),
        ("prompts", run.protocol),
        ("taxonomy", run.taxonomy),
        *((f"allow list {name}", digest[:DIGEST_SHOWN]) for name, digest in run.policies.items()),
    ]


def _gate(run: Run) -> list[tuple[str, str]]:
    """The last look of a gate that watched the run."""
    if not run.looks:
        return []
    last = run.looks[-1]
    saved = f", {run.saved} trials saved" if run.saved else ""
    return [("gate", f"{last.verdict} at look {last.number} of {last.planned}{saved}")]


def _model_facts(card: ModelCard) -> list[tuple[str, str]]:
    """What is known of the model; a blank is left out."""
    known = [
        ("model", f"{card.served_id} ({MARK})" if card.simulated else card.served_id),
        ("architecture", architecture(card)),
        ("quantization", card.quantization),
        ("KV cache", card.kv_cache),
        ("server", f"{card.server} {card.server_version}".strip()),
        ("tool parser", card.tool_parser),
        ("tool calls", card.tools if card.tools == "native" else f"as text, {card.tools}"),
        ("tool choice", card.tool_choice),
        ("replies", "streamed" if card.stream else "whole"),
        ("sampling", ", ".join(f"{name} {value}" for name, value in card.sampling.items())),
    ]
    told = [(f"server says: {fact}", _short(value)) for fact, value in card.told.items()]
    return [(label, value) for label, value in [*known, *told] if value]


def _short(value: str) -> str:
    return value[:DIGEST_SHOWN] if value.startswith("sha256:") else value


def _prompt_tokens(view: RunView) -> list[tuple[str, str]]:
    """Median and range of first requests, as the server counts: its chat template is in them."""
    told = [one.prompt_tokens for one in view.score.counted if one.prompt_tokens]
    if (seen := spread(told)) is None:
        return []
    return [("prompt tokens", f"{seen.median:g} ({min(told)}-{max(told)}) n={seen.n}")]


def architecture(card: ModelCard) -> str:
    """As it is commonly said: "moe, 35B total, 3B active"."""
    sizes = [(card.total_parameters, "total"), (card.active_parameters, "active")]
    return ", ".join(
        part
        for part in (card.architecture, *(f"{size:g}B {kind}" for size, kind in sizes if size))
        if part
    )


FIRST = "first agent, all scenarios"
NOTE = (
    "Errors per 100 tool calls and 95 % interval, clustered by trial. All other tables count first "
    "agents alone."
)


def agent_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where no sub-agent made a call."""
    rates = [agent_rates(view) for view in views]
    names = sorted({name for run in rates for name in run})
    if not names:
        return ()
    rows = [row(FIRST, (per_100(view.errors.total, own_n=True) for view in views))]
    for name in names:
        here = (run.get(name, Rate(0, 0)) for run in rates)
        rows.append(row(name, (per_100(rate, own_n=True) for rate in here)))
    return (Table("Calls by agent", NOTE, heads(views), tuple(rows), "agent"),)


def agent_rates(view: RunView) -> Mapping[str, Rate]:
    """Errors of the calls of each sub-agent, over the trials in which it made some."""
    counted = view.score.counted
    names = sorted({name for one in counted for name in one.agents})
    return {
        name: clustered([one.agents[name] for one in counted if name in one.agents])
        for name in names
    }
