"""Prompts that measure speed: as long as wanted, and from their first word on like no other."""

from collections.abc import Iterator

from agenteval.core.chance import Chance
from agenteval.core.prompt.context import AREAS, DOING, PLACES, THINGS
from agenteval.core.trial import Message

TASK = "Write the longest story you can about all of this, and do not stop early."


def probe_prompt(key: str, characters: int) -> tuple[Message, ...]:
    """One message of about so many characters; keys that differ give prompts that do."""
    return (Message("user", f"{''.join(_text(key, characters))}\n\n{TASK}"),)


def _text(key: str, characters: int) -> Iterator[str]:
    chance, left = Chance(key), characters - len(TASK)
    line = f"{chance.integer(0, 10**18):018}"
    while left > 0:
        yield line
        left -= len(line)
        line = "\n" + " ".join(map(chance.choice, (AREAS, DOING, THINGS, PLACES)))
