"""The players that prove a scenario: one that knows the answer, and one that only talks."""

import json
from collections.abc import Iterator, Mapping, Sequence

from agenteval.config.arms import spoken
from agenteval.core.call import ToolCall
from agenteval.core.prompt.profile import Profile
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Message, Turn, Usage
from agenteval.models.conversation import Known, Memory
from agenteval.models.slips import Written
from agenteval.models.turns import parse_arguments
from agenteval.protocols import ToolSchema

_NO_SLIPS: Mapping[str, Sequence[Written]] = {}


class Oracle:
    """Makes the calls of the reference solution, one a turn. Implements `protocols.Model`.

    The `slips` of a scenario, by its name, come first; they are written for the strict profile.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        slips: Mapping[str, Sequence[Written]] = _NO_SLIPS,
    ) -> None:
        self._memory = Memory(scenarios)
        self._slips = slips

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        """The next call; without any once there is none."""
        asked = "\n".join(message.content for message in messages if message.role == "user")
        recognised = self._memory.recall(asked, seed)
        task = recognised.prompt.task if recognised else ""
        said = ((at, each.content) for at, each in enumerate(messages) if each.role == "user")
        given = max((at for at, text in said if task in text), default=0)
        number = sum(message.role == "assistant" for message in messages[given:])
        plan = [*self._plan(recognised, spoken(tools))] if recognised else []
        calls = tuple(_call(number, written) for written in plan[number : number + 1])
        return _turn("", calls)

    def _plan(self, known: Known, profile: Profile) -> Iterator[Written]:
        yield from self._slips.get(known.name, ())
        for step in known.prompt.solution:
            yield Written(*profile.written(step.tool, step.arguments))


class Planned(Oracle):
    """Makes these calls of a scenario's first agent, written for the strict profile, and stops.

    Sub-agents play their solutions.
    """

    def _plan(self, known: Known, profile: Profile) -> Iterator[Written]:
        if known.name in self._slips:
            return iter(self._slips[known.name])
        return super()._plan(known, profile)


class Talker:
    """A model that makes no call: it writes one text, or none, and stops. See `protocols.Model`."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        del messages, tools, seed
        return _turn(self._text, ())


def written_calls(
    prompt: Prompt, profile: Profile, tools: Sequence[str]
) -> Iterator[ToolCall | None]:
    """Yield the solution as it is written under a profile, read back as calls of our own tools."""
    for number, step in enumerate(prompt.solution):
        name, raw = profile.written(step.tool, step.arguments)
        yield profile.as_own_call(ToolCall(f"call-{number}", name, raw, json.loads(raw)), tools)


def as_tool_call(written: Written) -> ToolCall:
    """The call that a written one becomes, once its arguments are read."""
    return _call(0, written)


def _call(number: int, written: Written) -> ToolCall:
    arguments, malformed = parse_arguments(written.arguments)
    return ToolCall(f"call-{number}", written.name, written.arguments, arguments, malformed)


def _turn(text: str, calls: tuple[ToolCall, ...]) -> Turn:
    return Turn(text, calls, "tool_calls" if calls else "stop", Usage(), raw="", seconds=0.0)
