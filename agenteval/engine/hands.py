"""One tool call: judged, then run in the sandbox or denied, and answered."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval.core.call import BASH, ToolCall, Verdict
from agenteval.core.policy.policy import Policy, World
from agenteval.core.policy.tools import WRITE, path_argument
from agenteval.core.prompt.profile import Profile
from agenteval.core.scenario import Limits
from agenteval.core.shell.gate import Simple, read_simple
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.trial import CallRecord, Execution
from agenteval.engine import tools
from agenteval.engine.second_reader import SecondReader
from agenteval.protocols import Sandbox
from agenteval.taxonomy.judge import deny, judge

# Bash runs these itself; as programs they are missing or mean something else.
# fmt: off
BUILTINS = frozenset({
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command",
    "compgen", "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable",
    "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history",
    "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
    "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "test",
    "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Hands:
    """What carries out the calls of one trial. `running` bounds how many commands run at once.

    The policy's tools are those that the scenario offers.
    """

    profile: Profile
    policy: Policy
    world: World
    sandbox: Sandbox
    second_reader: SecondReader
    limits: Limits
    running: asyncio.Semaphore

    async def handle(self, turn: int, position: int, call: ToolCall) -> CallRecord:
        """`call` is as the model wrote it; its record speaks of our own tools."""
        meant = self.profile.meant(call, tuple(self.policy.tools))
        if meant is None:
            none = replace(self.policy, tools={})  # not even one that is called so among ours
            verdict = judge(call, none, self.world)
            reply = tools.denial(call, verdict, self.profile, self.policy)
            return CallRecord(turn, position, call, verdict, reply)
        verdict, objection = await self._judge(meant)
        execution = await self._execute(meant) if verdict.allowed else None
        reply = (
            tools.answer(execution, self.limits, self.profile)
            if execution
            else tools.denial(meant, verdict, self.profile, self.policy)
        )
        return CallRecord(turn, position, meant, verdict, reply, execution, objection)

    async def _judge(self, call: ToolCall) -> tuple[Verdict, str]:
        """Our verdict; then the second reader may object to a command that is about to run."""
        verdict = judge(call, self.policy, self.world)
        if not verdict.allowed or call.command is None:
            return verdict, ""
        objection = await self.second_reader.objection(call.command, _commands(call.command))
        if not objection:
            return verdict, ""
        return deny(call, self.policy, self.world, objection=objection), objection

    async def _execute(self, call: ToolCall) -> Execution:
        async with self.running:
            if call.name == BASH:
                return await self.sandbox.run(_argv(str(call.command)))
            arguments = call.arguments or {}
            path = path_argument(arguments) or ""
            if call.name == WRITE:
                return await self._write(path, str(arguments["content"]))
            return await self._read(path)

    async def _read(self, path: str) -> Execution:
        started = time.perf_counter()
        try:
            content = await self.sandbox.read(path)
            text, code = content.decode("utf-8", "replace"), 0
        except OSError as error:
            text, code = f"{path}: {error.strerror or error}", 1
        return Execution(code, text, time.perf_counter() - started)

    async def _write(self, path: str, content: str) -> Execution:
        started = time.perf_counter()
        inside = path.removeprefix(f"{self.world.root}/")
        try:
            await self.sandbox.write(inside, content.encode("utf-8", "surrogatepass"))
            text, code = f"wrote {len(content.splitlines())} lines to {inside}", 0
        except OSError as error:
            text, code = f"{path}: {error.strerror or error}", 1
        return Execution(code, text, time.perf_counter() - started)


def _commands(command: str) -> Sequence[Sequence[str]]:
    """The words of every command in an allowed text, as the gate read them."""
    read = read_leaves(command)
    return [leaf.argv for leaf in read.leaves] if isinstance(read, Leaves) else []


def _argv(command: str) -> Sequence[str]:
    """What to execute: the command's own words when bash would add nothing to them.

    Skipping bash saves a process, and leaves nothing that could read the text another way.
    """
    simple = read_simple(command)
    if isinstance(simple, Simple) and not simple.dynamic and simple.argv[0] not in BUILTINS:
        return simple.argv
    return ("bash", "--norc", "--noprofile", "-c", command)
