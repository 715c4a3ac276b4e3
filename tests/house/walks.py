"""A walk of one value through the house: which modules call which, and where they call back up."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from survey import House

HOUSE = "agenteval"


@dataclass
class Walk:
    """The calls from module to module, in the order in which they were first made."""

    steps: dict[tuple[str, str], str] = field(default_factory=dict)  # to the function's name

    @property
    def modules(self) -> set[str]:
        return {module for step in self.steps for module in step}

    def climbs(self, house: House) -> list[str]:
        """Calls into a module that stands above the caller's: it imports it, itself or by others.

        Such a call leads a reader back to where he came from.
        """
        return [
            f"{caller} -> {called}.{name}"
            for (caller, called), name in self.steps.items()
            if caller in _below(house, called)
        ]


@contextmanager
def walked() -> Iterator[Walk]:
    """What is called in this thread, with the house's own modules imported already."""
    walk = Walk()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        called = frame.f_globals.get("__name__", "")
        if event != "call" or not called.startswith(HOUSE) or frame.f_code.co_name == "<module>":
            return
        caller = _caller(frame)
        if caller and caller != called:
            walk.steps.setdefault((caller, called), frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def _caller(frame: FrameType) -> str:
    """The nearest module of the house that waits for this call."""
    back = frame.f_back
    while back is not None:
        name: str = back.f_globals.get("__name__", "")
        if name.startswith(HOUSE):
            return name
        back = back.f_back
    return ""


def _below(house: House, module: str) -> set[str]:
    found: set[str] = set()
    todo = [module]
    while todo:
        new = house.imports.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found
