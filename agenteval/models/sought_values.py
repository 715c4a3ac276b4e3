"""Values of a world that no prompt tells: which a call has, and what is taken for them instead."""

import json
import re
from collections.abc import Collection
from random import Random
from typing import Any

from agenteval.core.prompt.prompt import Prompt
from agenteval.core.scenario import Step

_WORD = re.compile(r"[\w.:-]*\w")


def words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def shape(word: str) -> str:
    """A word with each number as 9: what two days, sums or ids have in common."""
    return re.sub(r"\d+", "9", word)


def sought(step: Step, prompt: Prompt) -> set[str]:
    """The numbers, days and ids of this world in a call that the prompt does not tell."""
    said = words(" ".join(map(str, step.arguments.values())))
    values = said.intersection(map(str, prompt.variables.values()))
    if not any(shape(value) != value for value in values):
        return set()
    told = words(f"{prompt.system}\n{prompt.task}")
    return {value for value in values - told if shape(value) != value}


def alike(given: Any, right: Any, values: Collection[str]) -> bool:
    """Whether two calls differ at most in such values."""
    one, other = (_masked(json.dumps(each, sort_keys=True), values) for each in (given, right))
    return one == other


def _masked(text: str, values: Collection[str]) -> str:
    """The text with every word that is like one of these as its shape."""
    shapes = {shape(value) for value in values}
    return _WORD.sub(lambda at: shape(at[0]) if shape(at[0]) in shapes else at[0], text)


def mistaken(text: str, values: Collection[str], read: Collection[str], chance: Random) -> str:
    """The text with another of what was read for one of these values; else a sum done wrong."""
    value = chance.choice(sorted(values))
    like = sorted(word for word in read if shape(word) == shape(value) and word not in values)
    wrong = chance.choice(like) if like else _miscounted(value, chance)
    return _WORD.sub(lambda at: wrong if at[0] == value else at[0], text)


def _miscounted(value: str, chance: Random) -> str:
    """Its last number is some more than it should be."""
    more = chance.randint(1, 9)
    return re.sub(r"\d+(?=\D*$)", lambda at: str(int(at[0]) + more), value)
