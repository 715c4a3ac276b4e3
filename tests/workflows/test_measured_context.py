"""How many characters a token has, by the server's own count of a first prompt."""

from dataclasses import dataclass, replace

import pytest

from agenteval.prompt.prompt import DEFAULT, Earlier
from agenteval.testing import ScriptedModel
from agenteval.trial.trial import Message, Usage
from agenteval.workflows.stages import load_stages, measured


@dataclass
class Counts:
    """Counts a token for so many characters, or always the same."""

    per_token: float = 0.0
    always: int = 0

    async def ask(self, messages, tools, *, seed):
        turn = await ScriptedModel("pwd").ask(messages, tools, seed=seed)
        characters = sum(len(message.content) for message in messages)
        counted = round(characters / self.per_token) if self.per_token else self.always
        return replace(turn, usage=Usage(counted, 9))


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (Counts(per_token=3.2), 3.2),
        (Counts(always=0), 4.0),  # a server that does not count
        (Counts(always=7), 4.0),  # and one that leaves out what it had cached
    ],
)
async def test_a_count_that_cannot_be_of_the_prompt_is_not_believed(project, model, found) -> None:
    (stage,) = load_stages(["media/rendered-plot"])
    report = Earlier("a/b", "c", (Message("user", "Words. " * 5000),), 0, 0)
    asked = replace(DEFAULT, context=8000, earlier={"media/rendered-plot": (report,)})
    setting = await measured(model, stage, asked)
    assert round(setting.per_token, 2) == found
