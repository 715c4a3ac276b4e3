"""Asking servers what they serve, before a run and for `agenteval models`."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from agenteval import models
from agenteval.bounded import write_whole
from agenteval.config.models import ModelEntry, at_url, load_models
from agenteval.config.project_files import GATE_FILE, PROJECT_FILE, shipped
from agenteval.config.roots import roots
from agenteval.config.trust import bind, remember_origin
from agenteval.core.cards import COST, ModelCard
from agenteval.core.run import Run
from agenteval.errors import UnansweredError, UsageError
from agenteval.models.identity import SIMULATOR, key_of, served, server_facts
from agenteval.models.persona import NAMES

if TYPE_CHECKING:
    from agenteval.models.server_probe import Probed

SLOW = 1.0  # seconds after which it is told what is waited for


@dataclass(frozen=True, slots=True)
class Answer:
    """The ids a server lists, or why it lists none."""

    ids: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A configured model, and what its server answered."""

    name: str
    entry: ModelEntry
    answer: Answer
    probed: "Probed | None" = None


def list_models(
    base_url: str | None, *, probe: bool = False
) -> tuple[list[Listed], tuple[str, ...]]:
    """Return the configured models, or those of one server; then the names of the simulated ones.

    With `probe`, each served model is sent some requests more, one after the other.
    """
    entries = load_models(roots()) if base_url is None else {base_url: at_url(base_url, "any")}
    named_entries = [(name, one) for name, entry in entries.items() for one in entry.per_server]
    for _, entry in named_entries:
        key_of(entry)  # who may not have it is told before anybody is asked
    answers = asyncio.run(_query_all([entry for _, entry in named_entries]))
    listed = [Listed(*one, answer) for one, answer in zip(named_entries, answers, strict=True)]
    return [_probed(one) for one in listed] if probe else listed, NAMES


def _probed(listed: Listed) -> Listed:
    """Probe a listed model. At a URL that is the first model that the server lists."""
    ids, entry = listed.answer.ids, listed.entry
    if not ids:
        return listed
    model = entry.model if entry.model in ids else ids[0]
    entry_of_model = entry.model_copy(update={"model": model})
    return replace(listed, probed=asyncio.run(models.server_probe.probe(entry_of_model)))


async def _query_all(entries: Sequence[ModelEntry]) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(entry)) for entry in entries]
    return [task.result() for task in tasks]


async def _ask(entry: ModelEntry) -> Answer:
    try:
        return Answer(ids=tuple(await served(entry)))
    except UsageError as error:
        problem = str(error).split(". Start one", maxsplit=1)[0]
        return Answer(problem=problem.replace(f" at {entry.base_url}", ""))


async def preflight(entry: ModelEntry) -> str:
    """Return the owner of this model, by the server's list; the server is ready for it.

    Raises UsageError when no server answers or it serves other models only: a number about
    another model than the one named is worse than none.
    """
    owners = await served(entry)
    if owners and entry.model not in owners:
        raise UsageError(
            f"{entry.base_url} does not serve {entry.model!r} but {', '.join(sorted(owners))}; "
            "name one of these with --model, or as `model` of the entry in agenteval.toml"
        )
    return owners.get(entry.model, "")


async def answering(
    entry: ModelEntry, note: Callable[[str], None], *, some: bool
) -> Mapping[str, str]:
    """Return the owner of the model at the URL of each of its servers.

    Raises UsageError as `preflight` does. With `some`, a server that does not answer is only noted
    if others do.
    """
    owners, silent = {}, []
    for one in entry.per_server:
        try:
            owners[one.base_url] = await preflight(one)
        except UnansweredError as error:
            silent.append(error)
    if silent and not (some and owners):
        raise silent[0]
    for absent in silent:
        note(f"{absent}. The others play without it until it does")
    return owners


async def served_card(
    name: str,
    entry: ModelEntry,
    note: Callable[[str], None],
    *,
    again: Run | None = None,
    some: bool = False,
) -> ModelCard:
    """Return the card of the served model, by the user's and the server's word.

    Before a run begins, each server is also probed for what it does to its model, and the cost of
    that is noted. A simulated server does nothing to it, and one of a run that resumes (`again`)
    was probed before. `some` is as in `answering`. Raises UsageError as `preflight` does.
    """
    owners = await answering(entry, _silently, some=some)
    if SIMULATOR in owners.values():
        return entry.card(name, simulated=True)
    there = [one for one in entry.per_server if one.base_url in owners]
    pages = [await server_facts(one, owners[one.base_url]) for one in there]
    findings = []
    for one in there if entry.ask and again is None else ():
        with _told_if_slow(note, f"{one.base_url}: asking the server what it does to calls ..."):
            findings.append(found := await models.server_questions.ask_server(one))
        note(f"{one.base_url} was asked what it does to calls: {found[COST]}")
    return replace(entry.card(name), told=_each_once(pages), seen=_each_once(findings))


@contextmanager
def _told_if_slow(note: Callable[[str], None], line: str) -> Iterator[None]:
    """Note the line if the body takes more than a second."""
    timer = asyncio.get_running_loop().call_later(SLOW, note, line)
    try:
        yield
    finally:
        timer.cancel()


def _silently(line: str) -> None:
    """Drop a line that was noted when the servers were first queried."""
    del line


def _each_once(facts: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Merge what several servers report of themselves; different values stand side by side."""
    names = dict.fromkeys(name for one in facts for name in one)
    values = {name: dict.fromkeys(one[name] for one in facts if name in one) for name in names}
    return {name: " / ".join(each) for name, each in values.items()}


HEAD = """\
# The models that are served, as `agenteval init` found them: `agenteval run --model NAME`.
# Under [models.NAME] may stand more: architecture, quantization, sampling, timeouts, api_key_env.

"""


def init(urls: Sequence[str]) -> Sequence[tuple[Path, Sequence[str]]]:
    """Write agenteval.toml of what these servers serve, and a gate.toml where there is none.

    The files, and the names in the first. Raises UsageError; then nothing is written.
    """
    path, gate = Path(PROJECT_FILE), Path(GATE_FILE)
    if path.exists():
        raise UsageError(f"{path} is there already: add to it, or move it away first")
    models_by_name = asyncio.run(_served_models(urls))
    text = HEAD + "\n".join(_entry_text(name, *about) for name, about in models_by_name.items())
    has_gate = gate.exists()
    if not has_gate:  # first, as only a second agenteval.toml is refused
        write_whole(gate, (shipped() / GATE_FILE).read_text(encoding="utf-8"))
    write_whole(path, text)
    for url in urls:
        remember_origin(url)
    return [(path, list(models_by_name)), *([] if has_gate else [(gate, [])])]


async def _served_models(urls: Sequence[str]) -> dict[str, tuple[ModelEntry, Mapping[str, str]]]:
    """Return the entry of each model, and what its server reports of it, by its new name."""
    models_by_name: dict[str, tuple[ModelEntry, Mapping[str, str]]] = {}
    for url in urls:
        bind(url)
        entry = await _listing(at_url(url, "any"))
        owners = await served(entry)
        if not owners:
            raise UsageError(f"{url}: answers, but lists no model; nothing was written")
        for model, owner in owners.items():
            one = entry.model_copy(update={"model": model})
            models_by_name[_name_of(model, models_by_name)] = (one, await server_facts(one, owner))
    return models_by_name


async def _listing(entry: ModelEntry) -> ModelEntry:
    """The entry with the URL at which there is a list: most have it below /v1."""
    if entry.base_url.rstrip("/").endswith("/v1"):
        return entry
    below = entry.model_copy(update={"base_url": f"{entry.base_url.rstrip('/')}/v1"})
    with suppress(UsageError):
        if await served(below):
            return below
    return entry


def _name_of(model: str, used_names: Collection[str]) -> str:
    """The last part of an id or a path, short and plain; the second of a name gets a number."""
    plain = re.sub(r"[^a-z0-9.:-]+", "-", model.rpartition("/")[2].removesuffix(".gguf").lower())
    base = plain.strip("-") or "model"
    name, number = base, 1
    while name in used_names:
        number += 1
        name = f"{base}-{number}"
    return name


def _entry_text(name: str, entry: ModelEntry, facts: Mapping[str, str]) -> str:
    said = ", ".join(f"{fact} {value}" for fact, value in facts.items() if fact in SHORT)
    remark = f"# {' '.join(said.split())}\n" if said else ""
    table = {"models": {name: {"base_url": entry.base_url, "model": entry.model}}}
    return remark + tomli_w.dumps(table)


SHORT = ("server", "model", "quantization", "context")  # facts that stand in one line
