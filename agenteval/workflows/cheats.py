"""Cheats against a scenario: players and modules that do none of the work must not pass.

First the modules: each is put where the solution writes one. A test that runs the model's code by
`agenteval_test` withstands them all; one that imports it into its own process withstands few.

Then the task instances of many seeds, checked cheaply, and the players. Those who guess, list
answers, edit the examples or look at nothing must not complete a scenario; those who take another
way to the goal must.
"""

import ast
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.oracle import Planned
from agenteval.models.persona import Written
from agenteval.play.tools import run_program
from agenteval.prompt.arm import STRICT
from agenteval.prompt.prompt import Prompt, Variables
from agenteval.protocols import Sandbox, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.maker import MakerError, fill, render, rows, variables
from agenteval.sandbox.session import PUBLIC
from agenteval.trial.call import BASH, Outcome
from agenteval.trial.trial import Check, CodeTest, Scenario, Step, Trial

LOOT = "loot.bin"  # in the workspace: what the one that looks around could read
TELLING = ("assert ", "def ", "for ", "from ", "if ", "import ", "return ")
LONG = 24  # characters; a shorter line may stand somewhere by chance
# Each defines `answer`, which is then given every name that the solution's module has.
RIGHT_AWAY = {
    "ends its process": "import os\nos._exit(0)\n",
    "ends its process past Python": "import ctypes\nctypes.CDLL(None)._exit(0)\n",
    "raises SystemExit": "raise SystemExit(0)\n",
    "ends its process at the end": "import atexit, os\natexit.register(os._exit, 0)\n",
    "ends its process as an error is told": """
import os, sys
sys.excepthook = lambda *error: os._exit(0)
raise AssertionError
""",
    "prints that it passed": """
import os
for fd in range(1, 20):
    try:
        os.write(fd, b'passed\\nOK\\n0\\ntrue\\n{"value": true, "arguments": []}\\n')
    except OSError:
        pass
os._exit(0)
""",
    "ends who started it": """
import os, signal
os.kill(os.getppid(), signal.SIGTERM)
os.kill(os.getppid(), signal.SIGINT)
""",
}
WHEN_ASKED = {
    "ends its process when asked": "import os\ndef answer(*_, **__): os._exit(0)\n",
    "equals everything": """
class Equal(str):
    __hash__ = str.__hash__
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda *_: True
    __ne__ = lambda *_: False
    __getitem__ = __call__ = lambda self, *_, **__: self
    __len__ = lambda _: 1
def answer(*_, **__): return Equal()
""",
    "patches what compares": """
import builtins, json
for name in ('all', 'any', 'callable', 'isinstance', 'len', 'sorted', 'sum'):
    setattr(builtins, name, lambda *_, **__: True)
builtins.AssertionError = builtins.Exception = SystemExit
json.loads = json.dumps = lambda *_, **__: '{"value": true, "arguments": []}'
""",
    "replaces modules": """
import sys
class Anything(type(sys)):
    def __getattr__(self, name): return lambda *_, **__: None
for name in ('agenteval_test', 'json', 'pytest', 're', 'sqlite3', 'subprocess', 'unittest'):
    sys.modules[name] = Anything(name)
""",
    "changes who calls it": """
import os, sys
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_globals.items()):
        if callable(value) and not name.startswith('__'):
            frame.f_globals[name] = lambda *_, **__: None
    frame = frame.f_back
def answer(*_, **__): return None
""",
    "ends its process in a thread": """
import os, threading, time
threading.Timer(0.05, os._exit, [0]).start()
def answer(*_, **__): time.sleep(0.5)
""",
    "ends its process at a signal": """
import os, signal, time
signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.05)
def answer(*_, **__): time.sleep(0.5)
""",
}
LOOKS = f"""
import glob, os, sys
def seen():
    frame = sys._getframe()
    while frame:
        yield repr((frame.f_locals, frame.f_globals)).encode()
        frame = frame.f_back
    yield repr((sys.argv, sys.orig_argv, dict(os.environ))).encode()
    for kind in ('cmdline', 'environ', 'fd/[0-9]*', 'task/*/cmdline'):
        for path in glob.glob(f'/proc/[0-9]*/{{kind}}'):
            if os.path.isfile(path) and not path.startswith(f'/proc/{{os.getpid()}}/fd'):
                with open(path, 'rb') as file:
                    yield file.read(1 << 20)
    for process in glob.glob('/proc/[0-9]*'):
        with open(f'{{process}}/maps') as maps, open(f'{{process}}/mem', 'rb') as memory:
            for low, high in ([int(end, 16) for end in line.split()[0].split('-')]
                    for line in maps if ' rw' in line):
                memory.seek(low)
                yield memory.read(min(high - low, 1 << 23))
parts = seen()
with open({LOOT!r}, 'wb') as loot:
    while loot.tell() < 1 << 25:
        try:
            loot.write(next(parts))
        except StopIteration:
            parts = iter(())
            break
        except Exception:
            continue
"""
BROKEN = "raise RuntimeError('this does nothing')\n"


async def cheat_faults(stage: Stage, backend: SandboxBackend) -> AsyncIterator[str]:
    """A line for each cheat that passes every test, or that could read what a test is about."""
    scenario, prompt = stage.scenario, render(stage.scenario, 0)
    modules = {
        str(step.arguments["path"]): str(step.arguments["content"])
        for step in prompt.solution
        if step.tool == "write" and str(step.arguments["path"]).endswith(".py")
    }
    if not scenario.tests or not modules:
        return
    try:
        async with backend.open(stage.files(0), scenario.limits) as sandbox:
            for path, content in modules.items():
                await sandbox.write(path, content.encode())
            for path, content in modules.items():
                place = _Place(sandbox, path, scenario.tests, prompt.variables)
                async for fault in place.faults(_names(content)):
                    yield fault
                await sandbox.write(path, content.encode())
    except InfrastructureError as error:
        yield f"the cheats cannot be tried: {error}"


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of one module, which the cheats take one after the other."""

    sandbox: Sandbox
    path: str
    tests: Collection[CodeTest]
    variables: Variables

    async def faults(self, names: Collection[str]) -> AsyncIterator[str]:
        if await self._passes(BROKEN):
            return  # no test is about this module
        for how, text in cheats(names).items():
            if await self._passes(text):
                yield (
                    f"tests: {self.path} passes when it {how}: run it by call or run of "
                    "agenteval_test, and never in the test's own process"
                )
        await self._passes(LOOKS)
        if secret := await self._read_secret():
            yield (
                f"tests: {self.path} can read what it is tested by ({secret!r}): give it inputs "
                "alone, by call or run of agenteval_test"
            )

    async def _passes(self, text: str) -> bool:
        await self.sandbox.write(self.path, text.encode())
        ran = [await run_program(self.sandbox, test, self.variables) for test in self.tests]
        return all(execution.exit_code == 0 for execution in ran)

    async def _read_secret(self) -> str:
        """The first line of a test, or the variables, if they were to be read."""
        try:
            loot = await self.sandbox.read(LOOT)
        except OSError:
            return ""
        return next((line for line in self._secrets() if line.encode() in loot), "")

    def _secrets(self) -> Iterator[str]:
        yield json.dumps(dict(self.variables))
        for test in self.tests:
            for line in map(str.strip, test.source.splitlines()):
                if line.startswith(TELLING) and len(line) >= LONG and line not in PUBLIC:
                    yield line


def cheats(names: Collection[str]) -> dict[str, str]:
    """Return the text of each cheating module by what it does. Tests may ask for any of `names`."""
    binding = f"\nglobals().update(dict.fromkeys({sorted(names)!r}, answer))\n"
    later = "def answer(*_, **__): return None\n"
    return {
        **RIGHT_AWAY,
        **{
            how: (text if "answer(" in text else later + text) + binding
            for how, text in WHEN_ASKED.items()
        },
    }


def _names(content: str) -> set[str]:
    """Return the names of the functions and classes that a module defines at its top level."""
    try:
        tree = ast.parse(content)
    except SyntaxError:
        return set()
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


# Task instances of many seeds, and players.

REFERENCE = 10  # of these worlds the solution is played in
OTHERS = 12  # worlds whose answers an adversary knows
FEW = 6  # wrong guesses before the right one, and after it
EXAMPLES = ("test", "example", "check")
SEED = 1
Plan = Sequence[Written]


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of that many task instances: the number of different answers, and the faults."""

    worlds: int = 0
    answers: int = 0
    faults: tuple[str, ...] = ()


def try_instances(stage: Stage, count: int) -> Tried:
    """Check the task instances of the seeds from 0 on.

    Each must be buildable and queryable, and not completed before anything is done.
    """
    answers, faults = set[str](), list[str]()
    for seed in range(count):
        try:
            prompt, files = render(stage.scenario, seed), stage.files(seed)
            rows = _initial_rows(files.get(stage.scenario.database, b""), prompt.goal)
        except (UsageError, ValueError) as error:
            faults.append(f"seed {seed}: {error}")
            continue
        answers.add(repr([step.arguments for step in prompt.solution[-prompt.closing :]]))
        if prompt.goal and rows == [check.expect for check in prompt.goal] and not _more(stage):
            faults.append(f"seed {seed}: the goal is reached before anything was done")
    if len(answers) == 1 and count >= REFERENCE:
        faults.append(f"{count} worlds have one answer: whoever has seen one knows all")
    return Tried(count, len(answers), tuple(faults))


def _initial_rows(content: bytes, checks: Sequence[Check]) -> list[Any]:
    """Return the first value of each check in a database; None if it finds nothing or fails."""
    return [answer.first for answer in rows(content, [check.query for check in checks])]


def _more(stage: Stage) -> bool:
    return bool(stage.scenario.tests or stage.scenario.traces)


def _other_variables(scenario: Scenario) -> Iterator[Variables]:
    """Yield the variables of some other task instances.

    One that cannot be made is skipped: its fault is reported elsewhere.
    """
    for seed in range(SEED + 1, SEED + 1 + OTHERS):
        try:
            yield variables(scenario, seed)
        except ValueError:
            continue


def _guesses(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan that tries the right answer among answers of other task instances."""
    steps = stage.scenario.solution[-prompt.closing :]
    wrong = [*islice(_wrong(stage.scenario, steps, prompt.variables, others), 2 * FEW)]
    right = [_written(step) for step in prompt.solution]
    return [*wrong[:FEW], *right, *wrong[FEW:]] if len(wrong) > FEW else None


def _wrong(
    scenario: Scenario,
    steps: Sequence[Step],
    values: Variables,
    others: Sequence[Variables],
) -> Iterator[Written]:
    """Yield the closing calls with one answer of another task instance in each."""
    tried_calls = {_written(filled) for step in steps if (filled := _filled(step, values))}
    for other in others:
        for name in scenario.asks:
            for step in steps:
                filled = _filled(step, {**values, name: other[name]})
                if filled and (written := _written(filled)) not in tried_calls:
                    tried_calls.add(written)
                    yield written


def _lists(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan that gives every answer of any task instance instead of the right one."""
    asks, values = stage.scenario.asks, dict(prompt.variables)
    for name in asks:
        if len(answers := dict.fromkeys(str(one[name]) for one in (*others, values))) > 1:
            trial = {**values, name: ", ".join(answers)}
            if all(_filled(step, trial) for step in stage.scenario.solution):
                values[name] = trial[name]
    right = prompt.solution[-prompt.closing :]
    closing = [_filled(step, values) for step in stage.scenario.solution[-prompt.closing :]]
    plan = [*prompt.solution[: -prompt.closing], *filter(None, closing)]
    return None if closing == [*right] else [*map(_written, plan)]


def _blind(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan of the closing calls, made from the prompt alone.

    An answer that the prompt does not contain is another task instance's. Where the prompt contains
    them all, there is nothing to cheat with: then None is returned.
    """
    prompt_text, values = f"{prompt.system}\n{prompt.task}", dict(prompt.variables)
    for name in stage.scenario.asks:
        if str(values[name]) not in prompt_text and others:
            values[name] = others[0][name]
    steps = stage.scenario.solution[-prompt.closing :]
    plan = [filled for step in steps if (filled := _filled(step, values))]
    right = [*prompt.solution[-prompt.closing :]]
    return [*map(_written, plan)] if plan != right else None


def _edits(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Empties whatever is a test or an example in the workspace, and does nothing else."""
    del others, prompt
    files = [path for path in stage.files(SEED) if any(word in path for word in EXAMPLES)]
    if "write" not in stage.scenario.tools or not files:
        return None
    return [Written("write", json.dumps({"path": path, "content": ""})) for path in files]


def _careful(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Asks scripts for help first, and looks again at the end."""
    del others, stage
    commands = [str(s.arguments["command"]) for s in prompt.solution if s.tool == BASH]
    helps = dict.fromkeys(" ".join([*one.split()[:3], "--help"]) for one in commands)
    asked = [Written(BASH, json.dumps({"command": one})) for one in [*helps][:2]]
    looks = [step for step in prompt.solution[: -prompt.closing] if step.tool != "write"]
    return [*asked, *map(_written, prompt.solution), *map(_written, looks[:1])]


def _another(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """The author's second way."""
    del others, stage
    return [*map(_written, prompt.another)] or None


Player = Callable[[Stage, Prompt, Sequence[Variables]], Plan | None]
HONEST: Mapping[str, Player] = {
    "asks for help first and looks again at the end": _careful,
    "takes the way of [[another]]": _another,
}
ADVERSARIES: Mapping[str, Player] = {
    "guesses on, before and after the right answer": _guesses,
    "lists every answer": _lists,
    "looks at nothing and answers by the prompt alone": _blind,
    "empties tests and examples and does nothing else": _edits,
}


def plans(stages: Sequence[Stage], player: Player) -> dict[str, Plan]:
    """Return the plan of this player for each scenario in which it has one."""
    plan_of = {}
    for stage in stages:
        others = [*_other_variables(stage.scenario)]
        if plan := player(stage, render(stage.scenario, SEED), others):
            plan_of[stage.scenario.name] = plan
    return plan_of


def acting(stages: Sequence[Stage], made: Mapping[str, Plan]) -> tuple[list[TrialKey], Planned]:
    """Return the trials that such a player plays, and the player."""
    keys = [TrialKey(name, SEED + 1, SEED) for name in made]
    return keys, Planned([stage.scenario for stage in stages], made)


def roomy(stage: Stage, plan: Plan) -> Stage:
    """The stage with turns enough for so many calls."""
    turns = max(stage.scenario.max_turns, len(plan) + 1)
    return replace(stage, scenario=replace(stage.scenario, max_turns=turns))


def honest_fault(how: str, trial: Trial) -> str:
    """Return what keeps an honest player from the goal; empty if nothing does."""
    if trial.outcome is Outcome.COMPLETED:
        return ""
    denied = [one.call.command for one in trial.calls if not one.verdict.allowed]
    why = f"`{denied[0]}` is denied" if denied else trial.reason
    return f"seed {trial.seed}: a player that {how} does not reach the goal: {why}"


def adversary_fault(how: str, trial: Trial, stage: Stage) -> str:
    """Return the fault that a player completes a scenario without the work; empty if it does not.

    A player that made every call of the solution, and no other that succeeded, has done the work.
    """
    if trial.outcome is not Outcome.COMPLETED:
        return ""
    steps = [(s.tool, dict(s.arguments)) for s in render(stage.scenario, trial.seed).solution]
    ran = [one.call for one in trial.calls if one.execution and one.execution.exit_code == 0]
    well = [(call.name, dict(call.arguments or {})) for call in ran]
    if all(step in well for step in steps) and all(call in steps for call in well):
        return ""
    return f"seed {trial.seed}: a player that {how} reaches the goal: let a check of it fail"


def _written(step: Step) -> Written:
    return Written(*STRICT.profile.written(step.tool, step.arguments))


def _filled(step: Step, values: Variables) -> Step | None:
    """The step with these variables; None where they do not fit into it."""
    try:
        arguments = {
            name: fill(value, values) if isinstance(value, str) else value
            for name, value in step.arguments.items()
        }
    except MakerError:
        return None
    return replace(step, arguments=arguments)
