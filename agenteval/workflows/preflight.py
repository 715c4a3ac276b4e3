"""Asking servers: what they serve, before a run and for `agenteval models`; how fast they are.

The sections are, in order: `agenteval models` and the checks before a run, `agenteval init`, and
`agenteval speed --model`, which sends requests of our own at each level of concurrency.
"""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from agenteval.config.files import GATE_FILE, PROJECT_FILE, shipped
from agenteval.config.models import SIMULATED, ModelEntry, at_url, load_models, resolve
from agenteval.config.trust import bind, remember_origin, roots
from agenteval.errors import InfrastructureError, UnansweredError, UsageError, unwrapped
from agenteval.host import write_whole
from agenteval.lazily import read_table
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.persona import NAMES
from agenteval.models.servers import SIMULATOR, key_of, served, server_facts
from agenteval.protocols import Model
from agenteval.report.speed import Served
from agenteval.stats.loads import speed_of
from agenteval.trial.run import COST, ModelCard
from agenteval.trial.text import Chance
from agenteval.trial.trial import Message, Scenario, Turn

if TYPE_CHECKING:
    from agenteval.models.probe import Probed
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
    from agenteval.models import probe as models_probe  # noqa: PLC0415 -- start-up: few need it

    return replace(listed, probed=asyncio.run(models_probe.probe(entry_of_model)))


async def _query_all(entries: Sequence[ModelEntry]) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(entry)) for entry in entries]
    return [task.result() for task in tasks]


async def _ask(entry: ModelEntry) -> Answer:
    try:
        return Answer(ids=tuple(await served(entry)))
    except UsageError as error:
        # The URL stands beside it, and how to start a server does not belong into a list.
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
    entry: ModelEntry,
    note: Callable[[str], None],
    *,
    some: bool,
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
    is_begun: bool = False,
    some: bool = False,
) -> ModelCard:
    """Return the card of the served model, by the user's and the server's word.

    Before a run begins, each server is also probed for what it does to its model, and the cost of
    that is noted. A simulated server does nothing to it, and one of a run that has begun was probed
    then. `some` is as in `answering`. Raises UsageError as `preflight` does.
    """
    # Which servers are silent was noted when they were first queried.
    owners = await answering(entry, lambda _: None, some=some)
    # A simulated server does nothing to calls that a probe could find.
    if SIMULATOR in owners.values():
        return entry.card(name, simulated=True)
    there = [server for server in entry.per_server if server.base_url in owners]
    pages = [await server_facts(server, owners[server.base_url]) for server in there]
    findings = []
    for server in there if entry.ask and not is_begun else ():
        with _told_if_slow(note, f"{server.base_url}: asking the server what it does to calls ..."):
            from agenteval.models.probe import ask_server  # noqa: PLC0415 -- start-up: few need it

            finding = await ask_server(server)
        findings.append(finding)
        note(f"{server.base_url} was asked what it does to calls: {finding[COST]}")
    return replace(
        entry.card(name),
        told=_each_once(pages),
        seen=_each_once(findings),
    )


@asynccontextmanager
async def serving(
    name: str,
    entry: ModelEntry | None,
    scenarios: Sequence[Scenario] = (),
) -> AsyncIterator[ModelEntry]:
    """Yield the entry; without one, that of a simulated model, whose server is started here."""
    if entry is not None:
        yield entry
        return
    from agenteval.models.simulated import SimulatedServer  # noqa: PLC0415 -- start-up: few need it

    async with SimulatedServer(scenarios) as server:
        yield server.entry(name)


@contextmanager
def _told_if_slow(note: Callable[[str], None], line: str) -> Iterator[None]:
    """Note the line if the body takes more than a second."""
    timer = asyncio.get_running_loop().call_later(SLOW, note, line)
    try:
        yield
    finally:
        timer.cancel()


def _each_once(facts: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Merge what several servers report of themselves; different values stand side by side."""
    values: dict[str, dict[str, None]] = {}
    for server in facts:
        for name, value in server.items():
            values.setdefault(name, {})[value] = None
    return {name: " / ".join(different) for name, different in values.items()}


# `agenteval init`.

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


def _entry_text(
    name: str,
    entry: ModelEntry,
    facts: Mapping[str, str],
) -> str:
    said = ", ".join(f"{fact} {value}" for fact, value in facts.items() if fact in SHORT)
    remark = f"# {' '.join(said.split())}\n" if said else ""
    table = {"models": {name: {"base_url": entry.base_url, "model": entry.model}}}
    return remark + tomli_w.dumps(table)


SHORT = ("server", "model", "quantization", "context")  # facts that stand in one line

# `agenteval speed --model`.

SEED = 1  # speed is measured, and what is said does not matter


@dataclass(frozen=True, slots=True)
class _ProbedLevels:
    """The replies to some requests, the reasons why others have none, and the seconds of all."""

    turns: Sequence[Turn]
    failures: Sequence[str]
    seconds: float


async def probe(
    model: Model,
    prompts: Sequence[tuple[Message, ...]],
    concurrency: int,
) -> _ProbedLevels:
    """Send all prompts once, `concurrency` at a time. Raises errors that only the user can fix."""
    free = asyncio.Semaphore(concurrency)
    started = time.perf_counter()
    with unwrapped(UsageError):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_reply(model, prompt, free)) for prompt in prompts]
    seconds = time.perf_counter() - started
    results = [task.result() for task in tasks]
    turns = [result for result in results if isinstance(result, Turn)]
    failures = [result for result in results if isinstance(result, str)]
    return _ProbedLevels(turns, failures, seconds)


async def _reply(
    model: Model,
    prompt: tuple[Message, ...],
    free: asyncio.Semaphore,
) -> Turn | str:
    async with free:
        try:
            return await model.ask(prompt, [], seed=SEED)
        except InfrastructureError as error:
            return str(error)


TASK = "Write the longest story you can about all of this, and do not stop early."


def _probe_prompt(key: str, characters: int) -> tuple[Message, ...]:
    """One message of about so many characters; keys that differ give prompts that do."""
    return (Message("user", f"{''.join(_text(key, characters))}\n\n{TASK}"),)


def _text(key: str, characters: int) -> Iterator[str]:
    chance, remaining = Chance(key), characters - len(TASK)
    # The first line differs between prompts, so that no prefix of one is in a server's cache.
    line = f"{chance.integer(0, 10**18):018}"
    while remaining > 0:
        yield line
        remaining -= len(line)
        line = "\n" + " ".join(map(chance.choice, _word_lists()))


@cache
def _word_lists() -> Sequence[Sequence[str]]:
    return [*read_table("agenteval.workflows", "speed_prompts.toml").values()]


PER_TOKEN = 4.0  # characters, until the server has counted
LEAST = 8  # requests of a level, and four rounds of them where that is more
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Probe:
    """A load for each model at each level. `nonce` makes its prompts new to every cache."""

    levels: Sequence[int]
    prompt_tokens: int
    completion_tokens: int
    requests: int | None
    nonce: str

    def number(self, level: int) -> int:
        return self.requests or max(LEAST, ROUNDS * level)


_LEVEL = re.compile("(?=.*[1-9])[0-9]{1,4}")


def levels_of(text: str) -> tuple[int, ...]:
    """Every level of `4`, or `1,2,4`, once and in the order given. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(_LEVEL.fullmatch(part) for part in parts):
        raise UsageError(
            f"--concurrency {text!r}: numbers from 1 to 9999, such as 4 or 1,2,4; each is a level"
        )
    return tuple(dict.fromkeys(map(int, parts)))


def probe_of(
    levels: str,
    prompt_tokens: int,
    completion_tokens: int,
    requests: int | None,
) -> Probe:
    """Raises UsageError for levels that are none."""
    nonce = secrets.token_hex(8)
    return Probe(levels_of(levels), prompt_tokens, completion_tokens, requests, nonce)


def probe_models(
    names: Sequence[str],
    base_url: str | None,
    asked: Probe,
) -> list[Served]:
    """The speed of each model at each level. Raises UsageError."""
    return asyncio.run(_probe_models(names, base_url, asked))


async def _probe_models(
    names: Sequence[str],
    base_url: str | None,
    load: Probe,
) -> list[Served]:
    served = []
    for name in names:
        async with serving(name, _single_server(name, base_url)) as entry:
            sampling = entry.sampling.model_copy(update={"max_tokens": load.completion_tokens})
            limited = entry.model_copy(update={"sampling": sampling, "tools": "native"})
            simulated = await preflight(limited) == SIMULATOR
            async with OpenAIModel(limited) as model:
                served.extend(await _levels(name, model, load, simulated=simulated))
    return served


def _single_server(name: str, base_url: str | None) -> ModelEntry | None:
    if name.startswith(SIMULATED):
        return None
    entry = resolve(name, load_models(roots()), base_url)
    if len(entry.per_server) > 1:
        raise UsageError(f"{name}: measure one server at a time, with --base-url")
    return entry


async def _levels(
    name: str,
    model: OpenAIModel,
    load: Probe,
    *,
    simulated: bool,
) -> list[Served]:
    """Measure the levels. A first request warms the server and shows the characters per token."""
    key = f"{load.nonce}/{name}"
    characters = round(load.prompt_tokens * PER_TOKEN)
    first = await probe(model, [_probe_prompt(key, characters)], 1)
    counted = sum(turn.usage.prompt_tokens for turn in _replies(name, first))
    if counted:
        characters = round(characters * load.prompt_tokens / counted)
    served = []
    for level in load.levels:
        numbers = range(load.number(level))
        prompts = [_probe_prompt(f"{key}/{level}/{number}", characters) for number in numbers]
        probed = await probe(model, prompts, level)
        turns = _replies(name, probed)
        speed = speed_of(
            turns,
            concurrency=level,
            seconds=probed.seconds,
            new=True,
        )
        served.append(Served(name, simulated, replace(speed, failed=len(probed.failures))))
    return served


def _replies(name: str, probed: _ProbedLevels) -> Sequence[Turn]:
    """Raises UsageError when there are none."""
    if not probed.turns:
        raise UsageError(
            f"{name}: no reply to {len(probed.failures)} requests, nothing was measured. The first "
            f"one: {probed.failures[0]}. Look at the server's log, or give fewer --prompt-tokens"
        )
    return probed.turns
