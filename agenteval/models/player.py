"""The next turn of a trial, as a persona plays it: a known way to the goal, with slips. Pure.

The player knows those values of a call that its prompt states and those that it has read. It works
out the others, and may get them wrong.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Any

from agenteval.models.persona import READS, Persona, Right, Written, slips
from agenteval.prompt.prompt import Prompt
from agenteval.trial.call import BASH
from agenteval.trial.trial import Step

_RENDERED = re.compile(r"/data/rendered/[\w.-]+\.png")
_SCRIPT = re.compile(r"scripts/\w+\.py")
_WORD = re.compile(r"[\w.:-]*\w")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True, slots=True)
class PastCall:
    """An earlier call of the conversation, whether it was denied, and what was read of it."""

    name: str
    arguments: Any
    denied: bool
    reply: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """A turn to be: its thoughts, its text, and its calls."""

    thought: str
    text: str
    calls: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state of a trial: the way taken, the number of steps done, and the values read."""

    way: Sequence[Step]
    place: int
    closing: int  # the place of the first closing call
    past: Sequence[PastCall]
    read: AbstractSet[str]

    @property
    def step(self) -> Step:
        return self.way[self.place]


@dataclass(frozen=True, slots=True)
class Player:
    """One persona before one prompt. `tools` names the tools that the request offers."""

    persona: Persona
    prompt: Prompt
    tools: frozenset[str]
    chance: Random

    def reply(self, past: Sequence[PastCall]) -> Reply:
        at = self.standing(past)
        if at.place == len(at.way):
            return self._words(self.persona.thoughts.done)
        if past and past[-1].denied:
            return self._after_denial(at)
        stop = self.persona.closing.stop
        if any(call.denied for call in past):
            stop = self.persona.closing.stop_denied
        # Work is left undone only where nothing but its closing calls is left of it.
        if at.place >= at.closing and self._happens(stop):
            return self._words(self.persona.thoughts.words)
        return self._forward(at)

    def standing(self, past: Sequence[PastCall]) -> _Standing:
        """Return the state of the trial.

        The way is the solution, until a call was made that only the author's second way has.
        """
        allowed = [call.arguments for call in past if not call.denied]
        has_turned = any(step.arguments in allowed for step in self._new)
        way = self.prompt.another if has_turned else self.prompt.solution
        return _Standing(
            way,
            place=self._place(past, way),
            closing=len(way) - self.prompt.closing,
            past=past,
            read=_words_of("\n".join(call.reply for call in past)),
        )

    def _place(self, past: Sequence[PastCall], way: Sequence[Step]) -> int:
        """Return the number of steps done, rightly or with a wrong value."""
        place = 0
        for call in past:
            if place == len(way):
                break
            if not call.denied and self._is_step(call, way[place], way):
                place += 1
        return place

    def _is_step(
        self,
        call: PastCall,
        step: Step,
        way: Sequence[Step],
    ) -> bool:
        if call.name != step.tool:
            return False
        if call.arguments == step.arguments:
            return True
        if any(call.arguments == other.arguments for other in way):
            return False
        shapes = {_shape(value) for value in self.sought(step)}
        if not shapes:
            return False
        return _masked(call.arguments, shapes) == _masked(step.arguments, shapes)

    @property
    def _new(self) -> list[Step]:
        """Return the steps of the second way that the solution lacks."""
        return [step for step in self.prompt.another if step not in self.prompt.solution]

    def sought(self, step: Step) -> set[str]:
        """Return the numbers, days and ids in a call that the prompt does not state."""
        arguments = " ".join(map(str, step.arguments.values()))
        variables = set(map(str, self.prompt.variables.values()))
        values = _words_of(arguments) & variables
        with_number = {value for value in values if _shape(value) != value}
        if not with_number:  # spares reading the prompt, which is long
            return set()
        return with_number - _words_of(f"{self.prompt.system}\n{self.prompt.task}")

    def _forward(self, at: _Standing) -> Reply:
        """The next step or a slip; now and then the step after it in the same turn.

        That one goes out at once only where nothing in it is still to be found out.
        """
        call, slipped = self._attempt(at, at.step)
        calls = [call]
        rest = at.way[at.place + 1 : at.closing]
        possible = self._possible(rest[:1], at)
        if not slipped and possible and self._happens(self.persona.parallel):
            second, _ = self._attempt(at, possible[0])
            calls.append(second)
        return self._acting(self.persona.thoughts.before, *calls)

    def _attempt(self, at: _Standing, step: Step) -> tuple[Written, bool]:
        if self._happens(self.persona.slip_after_allowed):
            return self._slip(at, step), True
        return self._write(at, step), False

    def _write(self, at: _Standing, step: Step) -> Written:
        """Write the right step, or the step with another value where one had to be found out."""
        written = _written(step)
        values = self.sought(step)
        if not values or not self._happens(self.persona.work.wrong):
            return written
        value = self.chance.choice(sorted(values))
        wrong = self._wrong_value(value, at.read - values)
        arguments = _WORD.sub(
            lambda word: wrong if word[0] == value else word[0],
            written.arguments,
        )
        return Written(step.tool, arguments)

    def _wrong_value(self, value: str, read: Collection[str]) -> str:
        """Return a value like this one; without one, its last number as more than it should be."""
        shape = _shape(value)
        alike = sorted(word for word in read if _shape(word) == shape)
        if alike:
            return self.chance.choice(alike)
        more = self.chance.randint(1, 9)

        def add(number: re.Match[str]) -> str:
            return str(int(number[0]) + more)

        return _LAST_NUMBER.sub(add, value)

    def _after_denial(self, at: _Standing) -> Reply:
        recovery = self.persona.recovery
        thoughts = self.persona.thoughts.denied
        drawn = self.chance.random()
        if drawn < recovery.again:
            return self._acting(thoughts, self._slip(at, at.step))
        if drawn < recovery.again + recovery.stop:
            return self._words(self.persona.thoughts.words)
        # Recovered: by another way if one is near and chance has it, else by a repair.
        others = self.pivots(at)
        if others and self._happens(recovery.pivot):
            other = self.chance.choice(others)
            return self._acting(thoughts, _written(other))
        return self._acting(thoughts, self._write(at, at.step))

    def pivots(self, at: _Standing) -> Sequence[Step]:
        """Other ways to turn to from a denied call, without harm; none that was tried already.

        The author's second way, where the work is not yet being closed; else a call of another
        script, or what another script says of itself.
        """
        if at.place < at.closing and at.way is self.prompt.solution:
            new = self._possible(self._new, at)
            if new:
                return new[:1]
        before_closing = at.way[: at.closing]
        steps = [step for step in before_closing if step.tool == BASH]
        scripts = dict.fromkeys(_SCRIPT.findall(self.prompt.system))
        steps += [Step(BASH, {"command": f"uv run {script} --help"}) for script in scripts]
        denied = at.past[-1]
        avoided = {_script(at.step.arguments), _script(denied.arguments)}
        others = [step for step in steps if _script(step.arguments) not in avoided]
        return self._possible(others, at)

    def _possible(self, steps: Sequence[Step], at: _Standing) -> Sequence[Step]:
        """Return the steps that were not made yet and whose values are all known."""
        past = [call.arguments for call in at.past]
        new = [step for step in steps if step.arguments not in past]
        return [step for step in new if self.sought(step) <= at.read]

    def _slip(self, at: _Standing, step: Step) -> Written:
        write = slips()[self.kind()]
        right = self.right(at.way, at.way.index(step))
        return write(right, self.chance)

    def kind(self) -> str:
        """Choose the kind of the next slip, among those that the offered tools make possible."""
        shares = self.persona.weights()
        if "read" not in self.tools:
            shares = {kind: share for kind, share in shares.items() if kind not in READS}
        # The shares need not add up to 1.
        kinds = self.chance.choices([*shares], [*shares.values()])
        return kinds[0]

    def right(self, way: Sequence[Step], place: int) -> Right:
        """Return the base of a slip at this step: its command, else the nearest after or before."""
        rendered = _RENDERED.search(self.prompt.task)
        nearest = [*way[place:], *reversed(way[:place])]
        bash_steps = [step for step in nearest if step.tool == BASH]
        command = str(bash_steps[0].arguments["command"])
        picture = rendered.group() if rendered else ""
        return Right(command, picture)

    def _acting(self, thoughts: Sequence[str], *calls: Written) -> Reply:
        return Reply(self.chance.choice(thoughts), "", calls)

    def _words(self, words: Sequence[str]) -> Reply:
        return Reply("", self.chance.choice(words))

    def _happens(self, probability: float) -> bool:
        return self.chance.random() < probability


def _written(step: Step) -> Written:
    return Written(step.tool, json.dumps(dict(step.arguments)))


def _script(arguments: Any) -> str:
    """The script that a bash call runs, as far as its text shows it."""
    command = arguments.get("command") if isinstance(arguments, Mapping) else ""
    script = _SCRIPT.search(command) if isinstance(command, str) else None
    return script[0] if script else ""


def _words_of(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _shape(word: str) -> str:
    """A word with each number as 9: what two days, sums or ids have in common."""
    return re.sub(r"\d+", "9", word)


def _masked(arguments: Any, shapes: Collection[str]) -> str:
    """The text of a call, with each word of one of these shapes as its shape."""

    def mask(word: re.Match[str]) -> str:
        shape = _shape(word[0])
        return shape if shape in shapes else word[0]

    return _WORD.sub(mask, json.dumps(arguments, sort_keys=True))
