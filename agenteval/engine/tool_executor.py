"""The tool executor: one tool call is judged, run in the sandbox or denied, and answered."""

import asyncio
from dataclasses import dataclass, field, replace

from agenteval.core.call import Allowed, BashRun, Denied, Note, Runnable, ToolCall
from agenteval.core.policy.policy import Policy, World, files_written
from agenteval.core.prompt.arm import Arm
from agenteval.core.scenario import Limits
from agenteval.core.trial import CallRecord, Execution
from agenteval.engine import tool_texts
from agenteval.engine.file_tools import carried_out
from agenteval.engine.second_reader import SecondReader
from agenteval.protocols import Judge, Sandbox


@dataclass(frozen=True, slots=True)
class ToolExecutor:
    """Carries out the calls of one trial. `running` bounds how many commands run at once.

    The policy's tools are those that are offered. All agents of a trial share `budget` and
    `written`, the files. `saved` are results too long to be shown, by the paths where the model may
    read them.
    """

    arm: Arm
    policy: Policy
    world: World
    sandbox: Sandbox
    judge: Judge
    second_reader: SecondReader
    limits: Limits
    running: asyncio.Semaphore
    saved: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    budget: tool_texts.TextBudget = field(default_factory=tool_texts.TextBudget)

    async def handle(self, turn: int, position: int, call: ToolCall) -> CallRecord:
        """`call` is as the model wrote it; its record speaks of our own tools."""
        own_call, verdict, objection = await self.judged(call)
        if isinstance(verdict, Denied):
            reply = tool_texts.denial(own_call, verdict, self.arm, self.policy)
            return CallRecord(turn, position, own_call, verdict, reply, None, objection)
        execution = self.budget.fitted(await self._execute(verdict.runs))
        if execution.exit_code == 0:
            self.written.update(files_written(own_call, self.world.root))
        reply = tool_texts.answer(execution, self.limits, self.arm, verdict.runs, self.saved)
        return CallRecord(turn, position, own_call, verdict, reply, execution, objection)

    async def judged(self, call: ToolCall) -> tuple[ToolCall, Allowed | Denied, str]:
        """Return the call as one of our own tools, our verdict, and the second reader's objection.

        A call of another tool stays as it was written.
        """
        own_call = self.arm.profile.as_own_call(call, tuple(self.policy.tools))
        if own_call is None:
            none = replace(self.policy, tools={})  # not even one that is called so among ours
            return call, self.judge.deny(call, none, self._now()), ""
        return own_call, *await self._judge(own_call)

    def _now(self) -> World:
        return replace(self.world, written=frozenset(self.written), saved=frozenset(self.saved))

    async def _judge(self, call: ToolCall) -> tuple[Allowed | Denied, str]:
        """Return our verdict, and the second reader's objection to a command about to run."""
        world = self._now()
        verdict = self.judge.judge(call, self.policy, world)
        if isinstance(verdict, Denied) or not isinstance(verdict.runs, BashRun):
            return verdict, ""
        if not (objection := await self.second_reader.objection(verdict.runs)):
            return verdict, ""
        return self.judge.deny(call, self.policy, world, objection=objection), objection

    async def _execute(self, runs: Runnable | None) -> Execution:
        async with self.running:
            match runs:
                case BashRun():
                    return await self.sandbox.run(runs.argv)
                case Note():
                    return Execution(0, runs.text, 0.0)
                case None:  # another harness's rules allow a fetch, or a search outside
                    return Execution(1, "failed: nothing of this can be reached here", 0.0)
                case _:
                    return await carried_out(runs, self.sandbox, self.policy.read, self.saved)
