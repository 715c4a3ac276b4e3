"""The agent loop: ask, judge, run or deny, answer; until the model stops, or a limit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agenteval.core.loops import looped
from agenteval.core.outcome import Ending
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.served import Sent, least, sent
from agenteval.core.trial import CallRecord, Message, Turn
from agenteval.engine import tool_texts
from agenteval.engine.retrying_model import RetryingModel
from agenteval.engine.tool_executor import ToolExecutor
from agenteval.errors import OutgrownError
from agenteval.protocols import TrialContext


@dataclass(slots=True)
class AgentLoop:
    """An agent at work. What it gathered is true at any moment, however it ends.

    `agent` is its label in the trial; `reason` says what it did again and again, or outgrew.
    """

    agent: str
    prompt: Prompt
    tools: Sequence[str]
    seed: int
    max_turns: int
    model: RetryingModel
    executor: ToolExecutor
    context: TrialContext
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    requests: list[Sent] = field(default_factory=list)
    reason: str = ""

    async def play(self) -> Ending:
        """Raises InfrastructureError when the server or the sandbox fails."""
        self.messages += self.prompt.messages
        try:
            return await self._turns()
        except (TimeoutError, OutgrownError) as error:
            self.reason = str(error)
            return Ending.CONTEXT if isinstance(error, OutgrownError) else Ending.TIME

    async def _turns(self) -> Ending:
        """Only waiting for the model is cut short, by `retrying_model`: commands have limits."""
        arm, policy = self.executor.arm, self.executor.policy
        schemas = tool_texts.schemas(arm.profile, arm.offered(self.tools, visible=policy.tools))
        for number in range(self.max_turns):
            turn = await self.model.ask(self.messages, schemas, seed=self.seed)
            await self._record_turn(number, turn)
            for position, call in enumerate(turn.calls):
                if position and self._leaves_the_rest():
                    break
                await self._record_call(await self.executor.handle(number, position, call))
            if ending := await self._ending(turn):
                return ending
        return Ending.TURNS

    def _leaves_the_rest(self) -> bool:
        """Return True if a turn's other calls are skipped. Raises TimeoutError, as `ask` would."""
        self.model.check_time()
        return bool(self.executor.budget.outgrown or looped(self.calls))

    async def _record_turn(self, number: int, turn: Turn) -> None:
        self.turns.append(turn)
        self.context.record_turn(self.agent, number, turn)
        self.requests.append(sent(self.messages, turn.usage.prompt_tokens, self.requests))
        await self.context.read(self.requests)
        self.messages.append(Message("assistant", turn.text, turn.calls, "", turn.reasoning))

    async def _record_call(self, record: CallRecord) -> None:
        self.calls.append(record)
        self.messages.append(Message("tool", record.reply, call_id=record.call.id))
        await self.context.follow_call(self.agent, record)

    async def _ending(self, turn: Turn) -> Ending | None:
        """Return the ending of this agent's work after this turn; None if it goes on."""
        ended = await self.context.ended()
        if again := turn.repeats or looped(self.calls):
            self.reason = f"wrote again and again: {again}" if turn.repeats else str(again)
            return Ending.LOOPED
        filled, why = await self.context.cut(turn, least(self.requests))
        if filled or not turn.calls:
            self.reason = why
            return filled or Ending.STOPPED
        return ended
