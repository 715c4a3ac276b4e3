"""How a persona plays the next turn of a trial: along the reference solution, with slips. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.scenario import Step
from agenteval.models.persona import Persona
from agenteval.models.slips import KINDS, READS, Right, Written

_RENDERED = re.compile(r"/data/rendered/[\w.-]+\.png")


@dataclass(frozen=True, slots=True)
class PastCall:
    """An earlier call of the conversation, and whether it was denied."""

    name: str
    arguments: Any
    denied: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A turn to be: what it thinks, what it says, and its calls."""

    thought: str
    text: str
    calls: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class Player:
    """One persona before one prompt. `tools` names the tools that the request offers."""

    persona: Persona
    prompt: Prompt
    tools: frozenset[str]
    chance: Random

    def reply(self, past: Sequence[PastCall]) -> Reply:
        place = self._place(past)
        if place == len(self.prompt.solution):
            return Reply("", self.chance.choice(self.persona.thoughts.done))
        if past and past[-1].denied:
            return self._after_denial(place, past[-1])
        stop = self.persona.closing.stop_denied if _any_denied(past) else self.persona.closing.stop
        if place >= self._closing and self._happens(stop):
            return self._words()
        return self._forward(place)

    @property
    def _closing(self) -> int:
        """The place of the first closing call."""
        return len(self.prompt.solution) - self.prompt.closing

    def _place(self, past: Sequence[PastCall]) -> int:
        """How many steps of the solution are done."""
        place = 0
        for call in past:
            for step in self.prompt.solution[place : place + 1]:
                if not call.denied and (call.name, call.arguments) == (step.tool, step.arguments):
                    place += 1
        return place

    def _forward(self, place: int) -> Reply:
        """The next step or a slip; now and then the step after it in the same turn."""
        call, slipped = self._attempt(place)
        calls = [call]
        if not slipped and place + 1 < self._closing and self._happens(self.persona.parallel):
            calls.append(self._attempt(place + 1)[0])
        return self._acting(self.persona.thoughts.before, *calls)

    def _attempt(self, place: int) -> tuple[Written, bool]:
        if self._happens(self.persona.slip_after_allowed):
            return self._slip(place), True
        return _written(self.prompt.solution[place]), False

    def _after_denial(self, place: int, denied: PastCall) -> Reply:
        recovery, drawn = self.persona.recovery, self.chance.random()
        if drawn < recovery.again:
            return self._acting(self.persona.thoughts.denied, self._slip(place))
        if drawn < recovery.again + recovery.stop:
            return self._words()
        others = self._others(place, denied)
        step = self.prompt.solution[place]
        if others and self._happens(recovery.pivot):
            step = self.chance.choice(others)
        return self._acting(self.persona.thoughts.denied, _written(step))

    def _others(self, place: int, denied: PastCall) -> list[Step]:
        """Calls to turn to: listed, without harm, and of another script than the denied call."""
        avoided = {_script(self.prompt.solution[place].arguments), _script(denied.arguments)}
        return [
            step
            for step in self.prompt.solution[: self._closing]
            if step.tool == BASH and _script(step.arguments) not in avoided
        ]

    def _slip(self, place: int) -> Written:
        return KINDS[self.kind()](self.right(place), self.chance)

    def kind(self) -> str:
        """Which kind of slip comes next, among those that the offered tools make possible."""
        shares = self.persona.weights()
        kinds = [kind for kind in shares if kind not in READS or "read" in self.tools]
        (kind,) = self.chance.choices(kinds, [shares[kind] for kind in kinds])
        return kind

    def right(self, place: int) -> Right:
        """What a slip at this step is made from."""
        rendered = _RENDERED.search(self.prompt.task)
        return Right(self._bash_command(place), rendered.group() if rendered else "")

    def _bash_command(self, place: int) -> str:
        """The right bash command: of this step, else of the nearest after or before it."""
        after_and_before = (*self.prompt.solution[place:], *reversed(self.prompt.solution[:place]))
        return next(str(s.arguments["command"]) for s in after_and_before if s.tool == BASH)

    def _acting(self, thoughts: Sequence[str], *calls: Written) -> Reply:
        return Reply(self.chance.choice(thoughts), "", calls)

    def _words(self) -> Reply:
        return Reply("", self.chance.choice(self.persona.thoughts.words))

    def _happens(self, probability: float) -> bool:
        return self.chance.random() < probability


def _any_denied(past: Sequence[PastCall]) -> bool:
    return any(call.denied for call in past)


def _written(step: Step) -> Written:
    return Written(step.tool, json.dumps(dict(step.arguments)))


def _script(arguments: Any) -> str:
    """The script that a bash call runs, as far as its text shows it."""
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    found = re.search(r"scripts/\w+\.py", command) if isinstance(command, str) else None
    return found.group() if found else ""
