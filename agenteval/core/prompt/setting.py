"""How a run puts its prompts: under which profile, with which rules, and where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agenteval.core.prompt.profile import STRICT, Profile
from agenteval.core.prompt.rules import PLAIN, VERSION
from agenteval.core.prompt.template import fill

Place = Literal["start", "end", "both"]


@dataclass(frozen=True, slots=True)
class Setting:
    """`rules` is a template (see core/prompt/rules.py), `place` where it stands in the prompt.

    `start` is in the system message, where the scenario has it; `end` is after the task.
    `rules_name` is what a run records of the rules: their name and version. `context` is how many
    tokens a prompt is filled up to, 0 for none, at `per_token` characters a token.
    """

    profile: Profile = STRICT
    rules: str = PLAIN
    rules_name: str = f"plain/{VERSION}"
    place: Place = "start"
    context: int = 0
    per_token: float = 4.0

    @property
    def protocol(self) -> str:
        """Everything about the words that a model reads; two runs are alike when it is equal."""
        said = f"{self.profile.protocol}, rules {self.rules_name} at {self.place}"
        return f"{said}, context {self.context}" if self.context else said

    def rules_for(self, tools: Sequence[str]) -> str:
        """The rules as the model reads them that is offered these tools of ours."""
        shown = [self.profile.forms[tool].name for tool in tools]
        names = self.profile.names(tuple(self.profile.forms))
        return fill(self.rules, {**names, "tools": tools, "shown": shown})


DEFAULT = Setting()
