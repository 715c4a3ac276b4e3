"""The scenario and the calls so far, as a simulated model reads them in a request."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agenteval.core.prompt.prompt import Prompt
from agenteval.core.scenario import Scenario
from agenteval.models.player import PastCall
from agenteval.sandbox.maker import recognised, render_all

# How the harnesses begin a denial. Anchored: what a script prints later is no denial.
_DENIAL = re.compile(
    r"\s*(?:<tool_use_error>)?(?:Error: )?(?:"
    r"Permission denied:|Permission to use |Unknown tool|Invalid tool call|No such tool available"
    r"|Permission(?:Denied|Rejected)Error|The user has (?:specifically restricted|specified a rule)"
    r"|Model tried to call unavailable tool|The arguments provided to the tool are invalid"
    r"|The user has declined|Claude requested permissions|InputValidationError"
    r"|The user doesn't want to proceed"
    r"|(?:\w+ failed: )?Rejected\(|approval policy is Never|unsupported call:"
    r"|failed to parse function arguments)"
)


def user_words(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return all the text of the user's messages."""
    return "\n".join(text(message) for message in messages if message.get("role") == "user")


def since(messages: Sequence[Mapping[str, Any]], task: str) -> Sequence[Mapping[str, Any]]:
    """Return the messages after the last one that gives the task; earlier tasks may precede it."""
    places = (
        at
        for at, message in enumerate(messages)
        if message.get("role") == "user" and task in text(message)
    )
    return messages[max(places, default=-1) + 1 :]


def turns(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(message.get("role") == "assistant" for message in messages)


def past_calls(messages: Sequence[Mapping[str, Any]]) -> list[PastCall]:
    """Return every answered call, in order, with the verdict that its reply states."""
    calls: list[PastCall] = []
    waiting: list[Mapping[str, Any]] = []
    for message in messages:
        if message.get("role") == "assistant":
            waiting = list(message.get("tool_calls") or [])
        elif message.get("role") == "tool" and waiting:
            call = waiting.pop(_index(waiting, message.get("tool_call_id")))
            function = call.get("function") or {}
            calls.append(
                PastCall(
                    str(function.get("name")),
                    _parsed(function.get("arguments")),
                    _DENIAL.match(text(message)) is not None,
                    text(message),
                )
            )
    return calls


def _index(waiting: Sequence[Mapping[str, Any]], ident: object) -> int:
    """Return the index of the call with this id, else 0, as some servers repeat their ids."""
    return next((at for at, call in enumerate(waiting) if call.get("id") == ident), 0)


def _parsed(arguments: object) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None


def text(message: Mapping[str, Any]) -> str:
    """The message's content, whether it comes as text or as a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Known:
    """The work of an agent that was recognised, and a name that no other agent has."""

    name: str
    prompt: Prompt


class Memory:
    """The recognition of scenarios, by the user's words and the request's seed.

    Each task is rendered once for a trial and not once for a turn, so thirty scenarios stay cheap.
    """

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._scenarios = tuple(scenarios)
        self._rendered = lru_cache(maxsize=128)(self._render)
        self.recall = lru_cache(maxsize=4096)(self._search)

    def _render(self, seed: int) -> tuple[Prompt, ...]:
        return render_all(self._scenarios, seed)

    def _search(self, words: str, seed: int) -> Known | None:
        """Return the first agent whose task came last, or a sub-agent whose task came later."""
        first, after = None, 0
        prompts = self._rendered(seed)
        for scenario, prompt in zip(self._scenarios, prompts, strict=True):
            if (at := words.rfind(prompt.task)) >= 0 and at + len(prompt.task) > after:
                first, after = Known(scenario.name, prompt), at + len(prompt.task)
        later = words[after:]
        asking = zip(self._scenarios, prompts, strict=True) if later.strip() else ()
        for scenario, prompt in asking:
            variables = prompt.variables
            for agent in scenario.agents:
                if agent.program:
                    continue
                if found := recognised(scenario, agent, seed, variables, later):
                    return Known(f"{scenario.name}/{found.task}", found)
        return first
