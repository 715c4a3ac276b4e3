"""Going on with a stored run: what would must ask, judge and be served as it was begun."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from agenteval.core.cards import ModelCard
from agenteval.core.plain import as_word
from agenteval.core.run import Options, Run
from agenteval.errors import UsageError
from agenteval.store.loading import summarized
from agenteval.store.location import Location, resolve_name
from agenteval.store.sql import SqlStore
from agenteval.store.summaries import known_runs, opened, tables_known
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION

BEGIN_ANEW = "Begin a new run, or put back what it was"


def stored_run(run_id: str, store: str) -> Run:
    """The run to go on with, without its trials. Raises UsageError."""
    where = str(Location(store))
    with opened(store) as query:
        found = resolve_name(
            run_id, known_runs(query), tables_known(query), where=where, whatever=True
        )
        run, _ = summarized(query, found, where=where)
    if run.options is None:
        raise UsageError(f"--resume {run.id}: made before runs could be resumed; begin a new one")
    if run.taxonomy != TAXONOMY_VERSION:
        raise UsageError(
            f"--resume {run.id}: judged by taxonomy {run.taxonomy}, this agenteval has "
            f"{TAXONOMY_VERSION}: `agenteval rescore {as_word(run.id)}` judges it again, then it "
            "can go on"
        )
    return run


def agreed(run: Run, options: Options, given_names: Sequence[str], who: str = "") -> Options:
    """Return the options of the run. Raises UsageError if one that was given contradicts them.

    `who` would go on with it, here and below: --resume, or a shard.
    """
    if run.options is None:  # which `stored_run` has refused
        raise ValueError(run.id)
    for name in given_names:
        new, begun_with = getattr(options, name), getattr(run.options, name)
        if new != begun_with and name != "base_url":
            option = "targets" if name == "targets" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} {_option_text(new)} contradicts {who or resuming(run)}, which was begun "
                f"with {_option_text(begun_with) or 'none'}; ask for the same, or begin a new run"
            )
    return replace(run.options, base_url=options.base_url or run.options.base_url)


def resuming(run: Run) -> str:
    return f"--resume {run.id}"


def _option_text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclass(frozen=True, slots=True)
class Suite:
    """The current scenarios and judges; `judged`, `policies` and `scenarios` are as in `Run`."""

    policies: Mapping[str, str]
    judged: Mapping[str, str]
    scenarios: Mapping[str, str]
    protocol: str


def check_same(run: Run, now: Suite, who: str) -> None:
    """Raises UsageError for what is no longer as it was when the run began, by its name."""
    _check_lists(run, now, who)
    for name in sorted({*run.scenarios, *now.scenarios}):
        if run.scenarios.get(name) != now.scenarios.get(name):
            raise UsageError(f"{who}: scenario {name!r} has changed. {BEGIN_ANEW}")
    if now.protocol != run.protocol:
        raise UsageError(
            f"{who}: the prompt has changed, from {run.protocol!r} to {now.protocol!r}. "
            f"{BEGIN_ANEW}"
        )


def _check_lists(run: Run, now: Suite, who: str) -> None:
    for name, digest in run.policies.items():
        if now.policies.get(name, digest) != digest:
            raise UsageError(f"{who}: allow list {name!r} has changed. {BEGIN_ANEW}")
    rescored = any(run.judged.get(one, digest) != digest for one, digest in now.judged.items())
    if rescored or not run.policies.keys() <= now.policies.keys():
        names = ", ".join(run.policies)
        raise UsageError(
            f"{who}: its calls are judged by another allow list ({names}) than it plays under. "
            f"`agenteval rescore {as_word(run.id)} --own` judges them by that again"
        )


def serve_on(run: Run, card: ModelCard, store: SqlStore, who: str = "") -> None:
    """The run names the servers that go on with it, too. Raises UsageError as `check_served`."""
    _check_served(run, card, who)
    if not card.simulated:  # that server is at another port each time
        store.served_at(run.id, card.base_url)


def _check_served(run: Run, card: ModelCard, who: str = "") -> None:
    """Raises UsageError when another model, or another way to query it, would resume the run."""
    who = who or resuming(run)
    # A server may come back at another port, and is asked what it does only before a run.
    there = replace(run.model, base_url=card.base_url, seen=card.seen)
    for field in fields(ModelCard):
        now, before = getattr(card, field.name), getattr(there, field.name)
        if now != before:
            raise UsageError(
                f"{who}: {field.name} of model {card.name!r} is {now!r} now and was "
                f"{before!r}. {BEGIN_ANEW}"
            )
