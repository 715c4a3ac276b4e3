"""Cheats against a scenario's tests: modules that do none of the work must not pass, nor see it.

Each is put where the solution writes a module. A test that runs the model's code by
`agenteval_test` withstands them all; one that imports it into its own process withstands few.
"""

import ast
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping

from agenteval.core.scenario import CodeTest
from agenteval.engine.world_queries import run_program
from agenteval.errors import InfrastructureError
from agenteval.protocols import Sandbox, SandboxBackend, Stage
from agenteval.sandbox.link import PUBLIC
from agenteval.sandbox.maker import render

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
# These pass nowhere, but wear out who asks: text, and what must be said of it.
BABBLING: Mapping[str, tuple[str, str]] = {
    "answers without end": ("import os\nwhile True: os.write(3, b'x' * 65536)", "too long a one"),
    "answers a list nested without end": (
        "import os\nos.write(3, b'[' * 100000 + b'\\n')\ndef double(_): return 6",
        "no answer|another form",
    ),
    "is a hundred processes": (
        "import os, time\nfor _ in range(99): os.fork() or time.sleep(600)",
        "processes|BlockingIOError|wall-time",
    ),
    "is no Python": ("\0\0 def", "SyntaxError|ValueError"),
}
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
                tried = _Tried(sandbox, path, scenario.tests, json.dumps(dict(prompt.variables)))
                async for fault in tried.faults(_names(content)):
                    yield fault
                await sandbox.write(path, content.encode())
    except InfrastructureError as error:
        yield f"the cheats cannot be tried: {error}"


class _Tried:
    """The cheats, one after the other in the place of one module."""

    def __init__(
        self, sandbox: Sandbox, path: str, tests: Collection[CodeTest], known: str
    ) -> None:
        self._sandbox, self._path, self._tests, self._known = sandbox, path, tests, known

    async def faults(self, names: Collection[str]) -> AsyncIterator[str]:
        if await self._passes(BROKEN):
            return  # no test is about this module
        for how, text in cheats(names).items():
            if await self._passes(text):
                yield (
                    f"tests: {self._path} passes when it {how}: run it by call or run of "
                    "agenteval_test, and never in the test's own process"
                )
        await self._passes(LOOKS)
        if seen := await self._loot():
            yield (
                f"tests: {self._path} can read what it is tested by ({seen!r}): give it inputs "
                "alone, by call or run of agenteval_test"
            )

    async def _passes(self, text: str) -> bool:
        await self._sandbox.write(self._path, text.encode())
        known: Mapping[str, str] = json.loads(self._known)
        ran = [await run_program(self._sandbox, test, known) for test in self._tests]
        return all(one.exit_code == 0 for one in ran)

    async def _loot(self) -> str:
        """The first line of a test, or the variables, if they were to be read."""
        try:
            loot = await self._sandbox.read(LOOT)
        except OSError:
            return ""
        return next((line for line in self._secrets() if line.encode() in loot), "")

    def _secrets(self) -> Iterator[str]:
        yield self._known
        for test in self._tests:
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
