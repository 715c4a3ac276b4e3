"""Scenarios for their authors: listed, shown as a model reads them, newly created, played by hand.

The last section plays a trial with a person as the model, or with the turns of a stored trial; it
is stored nowhere.
"""

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agenteval.config import proofread
from agenteval.config import scenarios as fixtures
from agenteval.config.files import FIXTURES, LISTS, SCENARIOS
from agenteval.config.prompts import load_setting, spoken
from agenteval.config.scenarios import load_scenarios
from agenteval.config.trust import SCENARIO_FILE, find_project, roots, working_folder
from agenteval.errors import InfrastructureError, UsageError
from agenteval.host import write_whole
from agenteval.models.request import parse_arguments
from agenteval.prompt.prompt import Prompt, Setting
from agenteval.protocols import Model, Stage, ToolSchema, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.sandbox.maker import outline, posed, rows
from agenteval.trial.call import BASH, ToolCall
from agenteval.trial.text import shortened, visible
from agenteval.trial.trial import CallRecord, Message, Scenario, Trial, Turn, Usage
from agenteval.workflows import views
from agenteval.workflows.prove import Kept, filled, filled_for, played
from agenteval.workflows.stages import arm_played, load_stages

__all__ = ["load_setting", "prompts", "scenarios", "world", "write_new", "write_world"]
ROWS = 5  # of a table that are shown
MOST = 500  # tables that are shown
LONGEST_ROW = 160
_SQLITE = b"SQLite format 3\0"
_TEXTS = Path(__file__).parent / "skeleton_files"
_NAME = re.compile(r"[a-z0-9]+(?:[-_/][a-z0-9]+)*")


def scenarios(targets: Sequence[str]) -> tuple[Scenario, ...]:
    """Return scenarios by name or folder, or all without targets. Raises UsageError."""
    return load_scenarios(targets, roots=roots())


def prompts(
    name: str,
    seed: int,
    setting: Setting,
) -> Iterator[list[tuple[str, Prompt]]]:
    """Yield the prompts at the start of a trial with this seed, and their readers, by scenario.

    The first agent's prompt comes first, then one for each sub-agent that the model plays.
    """
    named_scenarios = scenarios([name])
    if setting.context:
        setting = filled_for([one.name for one in named_scenarios], setting)
    for scenario in named_scenarios:
        prompt = posed(scenario, seed, setting)
        readers = [(scenario.name, prompt)]
        for agent in scenario.agents:
            if agent.program is None:
                outlined = outline(scenario, agent, seed, prompt.variables, setting)
                readers.append((f"{scenario.name}, sub-agent {agent.name}", outlined))
        yield readers


def world(name: str, seed: int) -> Iterator[str]:
    """Yield lines on a trial's first state: files with their sizes, tables with some rows."""
    for scenario, files in _worlds(name, seed):
        yield f"{scenario.name}, seed {seed}: {len(files)} files"
        for path, content in sorted(files.items()):
            yield f"  {len(content):>8,}  {path}"
        for path, content in sorted(files.items()):
            if content.startswith(_SQLITE):
                yield f"{path}:"
                yield from tables(content)


def write_world(
    name: str,
    seed: int,
    folder: Path,
) -> Iterator[Path]:
    """Write the files of that task instance into a new folder, and yield their paths.

    Raises UsageError if the folder exists.
    """
    if folder.exists():
        raise UsageError(f"--out {folder}: is there already; name a new folder")
    try:
        for _, files in _worlds(name, seed):
            for path, content in files.items():
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                yield place
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)  # it is new
        raise


def _worlds(name: str, seed: int) -> Iterator[tuple[Scenario, Mapping[str, bytes]]]:
    for scenario in scenarios([name]):
        yield scenario, fixtures.load_fixture(scenario, seed, roots=roots())


def tables(database: bytes) -> Iterator[str]:
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    (tables,) = rows(database, [names], MOST)
    for (table,) in tables.rows:
        # The names are a stranger's: quoted as SQL quotes names, they end no statement.
        quoted = '"{}"'.format(str(table).replace('"', '""'))
        queries = [f"SELECT * FROM {quoted}", f"SELECT count(*) FROM {quoted}"]  # noqa: S608 -- quoted
        sample, counted = rows(database, queries, ROWS)
        if sample.error:
            yield visible(f"  {table}: {sample.error}")
            continue
        yield visible(f"  {table}({', '.join(sample.names)}): {counted.first} rows")
        for row in sample.rows:
            yield visible(f"    {shortened(repr(row), LONGEST_ROW)}")


def write_new(name: str) -> list[Path]:
    """A small scenario that works, in the project's own folders. Raises UsageError."""
    here = working_folder()
    return write_skeleton(name, root=find_project(here).project or here)


def write_skeleton(name: str, *, root: Path) -> list[Path]:
    """Write scenario, fixture and allow list of this name below `root`; the paths written.

    Nothing is written when one of them is there already. Raises UsageError.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a scenario: use small letters, digits and -, and / for a "
            "group, as in home/lights"
        )
    texts = _texts(name, root)
    for path in texts:
        if path.exists():
            raise UsageError(f"{path}: is there already, so nothing was written. Take another name")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
    except OSError:
        for path in texts:
            path.unlink(missing_ok=True)
        raise
    return [*texts]


def _texts(name: str, root: Path) -> Mapping[Path, str]:
    flat = name.replace("/", "-")
    scenario = root / SCENARIOS / name
    fixture = root / FIXTURES / flat
    places = {
        scenario / SCENARIO_FILE: "scenario.toml",
        scenario / proofread.INSTRUCTIONS: "instructions.md",
        fixture / fixtures.WORLD: "world.sql",
        fixture / fixtures.FILES / "scripts" / "chores.py": "chores.py.txt",
        root / LISTS / f"{flat}.toml": "allowlist.toml",
    }
    texts = {}
    for path, source in places.items():
        template = (_TEXTS / source).read_text("utf-8")
        texts[path] = template.replace("@NAME@", name).replace("@FLAT@", flat)
    return texts


# A trial by hand.

HELP = """\
A line is a command for bash. `:bash` alone begins one of many lines, which `:end` ends.
:NAME {"key": "value"}  calls another tool; :NAME text gives its first parameter
:tools shows the tools again; :done WORDS stops with these last words, as does the input's end"""
UNHURRIED = 24 * 3600.0  # seconds: a person reads and thinks
BEGIN, END = ":bash", ":end"
Say = Callable[[str], None]
Ask = Callable[[str], str]  # a line that was typed; raises EOFError when there are no more


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal at which a trial is watched, and the name of the sandbox in which it runs.

    Without a name it is the best sandbox that works here.
    """

    say: Say
    type_in: Ask
    sandbox: str | None = None


@dataclass(slots=True)
class _Person:
    """Implements `protocols.Model`: shows the conversation, and reads the next turn."""

    terminal: Terminal
    _calls: int = 0
    _begun: list[Sequence[Message]] = field(default_factory=list)  # one conversation an agent

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        del seed
        self._show(messages, tools)
        return await asyncio.to_thread(self._turn, tools)

    def _show(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> None:
        """Show the beginning of a conversation. What follows calls is shown with the calls."""
        if _which(self._begun, messages) is None:
            self._begun.append([*messages])
            self.terminal.say("\n".join(["----- tools -----", *_listed(tools)]))
            for message in messages:
                self.terminal.say(f"----- {message.role} -----\n{visible(message.content)}")
            self.terminal.say(f"-----\n{HELP}")

    def _turn(self, tools: Sequence[ToolSchema]) -> Turn:
        while True:
            try:
                line = self._line()
            except EOFError:
                return _turn("", ())
            name, _, rest = line.partition(" ")
            if name == ":done":
                return _turn(rest.strip(), ())
            if name in {":tools", ":help"}:
                self.terminal.say(HELP if name == ":help" else "\n".join(_listed(tools)))
            elif line.strip():
                return _turn("", (self._call(line, tools),))

    def _line(self) -> str:
        line = self.terminal.type_in("> ")
        if line.strip() != BEGIN:
            return line
        lines = [*iter(lambda: self.terminal.type_in("| "), END)]
        return "\n".join(lines)

    def _call(self, line: str, tools: Sequence[ToolSchema]) -> ToolCall:
        """Return the call that a line stands for. Text in braces is sent verbatim, valid or not."""
        self._calls += 1
        name, _, rest = line[1:].partition(" ")
        if line[:1] != ":":
            name, raw = spoken(tools).written(BASH, {"command": line})
        elif rest.lstrip()[:1] == "{":
            raw = rest.strip()
        else:
            keys = next((_keys(one) for one in tools if _named(one) == name), ())
            raw = json.dumps(dict(zip(keys, [rest.strip()], strict=False)) if rest.strip() else {})
        return ToolCall(f"call-{self._calls}", name, raw, *parse_arguments(raw))


@dataclass(slots=True)
class _Replay:
    """Implements `protocols.Model` by the turns of a stored trial: it makes the same calls again.

    An agent's conversation is recognised by its position: the same calls start the same agents.
    """

    trial: Trial
    terminal: Terminal
    _scripts: list[Iterator[Turn]] = field(default_factory=list)
    _begun: list[Sequence[Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        agents = [part.turns for part in self.trial.agents if part.turns]
        self._scripts = [iter(turns) for turns in (self.trial.turns, *agents)]

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        del tools, seed
        turn = next(self._script(messages), _turn("", ()))
        for text in filter(None, (turn.reasoning, turn.text)):
            self.terminal.say(visible(text))
        for call in turn.calls:
            self.terminal.say(f"> {visible(call.command or f'{call.name} {call.raw}')}")
        await asyncio.to_thread(self._wait)
        return turn

    def _script(self, messages: Sequence[Message]) -> Iterator[Turn]:
        at = _which(self._begun, messages)
        if at is None:
            at = len(self._begun)
            self._begun.append([*messages])
        return self._scripts[at] if at < len(self._scripts) else iter(())

    def _wait(self) -> None:
        try:
            self.terminal.type_in("")
        except EOFError:
            return


@dataclass(slots=True)
class Shown(Kept):
    """A recorder that also shows each call: its reply, and the verdict hidden from the model."""

    say: Say = print

    def call(
        self,
        key: TrialKey,
        record: CallRecord,
        *,
        agent: str = "",
    ) -> None:
        del key
        whose = f"{agent}: " if agent else ""
        for line in _judged(record):
            self.say(f"{whose}{visible(line)}")
        self.say(visible(record.reply.rstrip("\n")))


def play(
    stage: Stage,
    seed: int,
    setting: Setting,
    model: Model,
    at: Terminal,
) -> Trial:
    """Play one trial with this model, and show each call.

    Raises UsageError where no sandbox works, and InfrastructureError when the trial is void.
    """
    limits = replace(stage.scenario.limits, trial_seconds=UNHURRIED)
    slow = replace(stage, scenario=replace(stage.scenario, limits=limits))
    key = TrialKey(stage.scenario.name, 1, seed)

    async def there() -> Trial:
        backend = await choose(at.sandbox, prefork=True)
        long = await filled(setting, [stage], backend)
        trials = await played([slow], [key], model, backend, long, recorder=Shown(say=at.say))
        return trials[key]

    trial = asyncio.run(there())
    if trial.cause:
        raise InfrastructureError(f"the trial is void: {trial.reason}", trial.cause)
    return trial


def by_person(
    target: str,
    seed: int,
    setting: Setting,
    at: Terminal,
) -> Trial:
    """A person plays the scenario of this name. Raises UsageError."""
    return play(_only(load_stages([target], setting.arm), target), seed, setting, _Person(at), at)


def replayed(
    run: str,
    trial_name: str,
    store: str,
    at: Terminal,
) -> Trial:
    """Make the calls of the trial SCENARIO#N of a stored run again, in the same task instance.

    Raises UsageError.
    """
    stored = views.transcript(run, trial_name, store)
    options, trial = stored.run.options, stored.trial
    if options is None:
        raise UsageError(f"{run}: stored before runs kept how they were begun: play without it")
    setting = load_setting(options.arm, options.prompt_variant, options.rules, options.context)
    setting = replace(setting, arm=arm_played(options))
    stages = load_stages([trial.scenario], setting.arm, allowlist=options.allowlist)
    return play(_only(stages, trial_name), trial.seed, setting, _Replay(trial, at), at)


def _only(stages: Sequence[Stage], target: str) -> Stage:
    """Raises UsageError for a folder of several."""
    if len(stages) == 1:
        return stages[0]
    names = ", ".join(stage.scenario.name for stage in stages[:8])
    raise UsageError(f"{target}: {len(stages)} scenarios are there; name one of them: {names}")


def _judged(record: CallRecord) -> Iterable[str]:
    if record.verdict.allowed:
        done = record.execution
        code = "" if done is None else f", {done.limit or f'exit {done.exit_code}'}"
        return [f"  allowed{code}"]
    return [
        f"  denied: {one.failure_class} `{one.evidence.text}`: {one.hint}".rstrip(": ")
        for one in record.verdict.findings
    ]


def _which(begun: Sequence[Sequence[Message]], messages: Sequence[Message]) -> int | None:
    """The conversation that these messages go on with."""
    known = (at for at, one in enumerate(begun) if messages[: len(one)] == one)
    return next(known, None)


def _turn(text: str, calls: tuple[ToolCall, ...]) -> Turn:
    return Turn(
        text,
        calls,
        "tool_calls" if calls else "stop",
        Usage(),
        raw="",
        seconds=0.0,
    )


def _named(tool: ToolSchema) -> str:
    return str(tool["function"]["name"])


def _keys(tool: ToolSchema) -> Sequence[str]:
    return [*tool["function"]["parameters"].get("properties", ())]


def _listed(tools: Sequence[ToolSchema]) -> Iterator[str]:
    """All that a model reads of them."""
    for tool in tools:
        yield f"{_named(tool)}: {visible(str(tool['function'].get('description', '')))}"
        schema = tool["function"]["parameters"]
        for name, one in schema.get("properties", {}).items():
            needed = "" if name in schema.get("required", ()) else ", optional"
            told = f": {one['description']}" if one.get("description") else ""
            yield f"    {name} ({one.get('type', 'any')}{needed}){visible(told)}"
