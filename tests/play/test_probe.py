"""A probe against a model that counts who is there at the same time."""

import asyncio
from collections.abc import Sequence

import pytest

from agenteval.errors import InfrastructureError, UsageError
from agenteval.protocols import ToolSchema
from agenteval.testing import ScriptedModel, says
from agenteval.trial.trial import Message, Turn
from agenteval.workflows.preflight import _probe_prompt, probe

PROMPTS = [_probe_prompt(f"{number}", 100) for number in range(6)]


class Crowd:
    """Implements `protocols.Model`; `most` is how many requests there were at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._model = ScriptedModel()

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return await self._model.ask(messages, tools, seed=seed)


@pytest.mark.parametrize(("level", "most"), [(1, 1), (3, 3), (99, 6)])
async def test_no_more_requests_than_the_level_are_under_way(level, most) -> None:
    model = Crowd()
    found = await probe(model, PROMPTS, level)
    assert (model.most, len(found.turns), found.failures) == (most, 6, [])
    assert found.seconds >= 0.01 * 6 / most


async def test_a_request_that_failed_is_kept_with_its_reason() -> None:
    model = ScriptedModel(says("one"), InfrastructureError("gone"), says("three"))
    found = await probe(model, PROMPTS[:3], 1)
    assert ([turn.text for turn in found.turns], found.failures) == (["one", "three"], ["gone"])


async def test_what_the_user_can_mend_ends_the_probe() -> None:
    with pytest.raises(UsageError, match="wrong key"):
        await probe(ScriptedModel(UsageError("wrong key")), PROMPTS, 2)
