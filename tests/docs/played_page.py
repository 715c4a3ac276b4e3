"""A page played from top to bottom: each command is run, and held against what is shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from page_world import SERVED, World
from pages import Block, Command, blocks, part
from served_model import serving


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command of a page did."""

    command: Command
    block: Block
    code: int | None  # None where the output has not what the page shows of it
    printed: tuple[str, ...]
    errors: str

    @property
    def fault(self) -> str:
        """Why it is not what the page says; nothing when it is."""
        if not self.ended_well:
            wanted = " or ".join(self._asked_code())
            return (
                f"{self.command.text}\nexit code {self.code}, not {wanted}: {self.errors[-2000:]}"
            )
        return "" if self.alike else "\n".join([self.command.text, "prints", *self.printed])

    @property
    def ended_well(self) -> bool:
        return self.code is not None and str(self.code) in self._asked_code()

    @property
    def alike(self) -> bool:
        if not self.command.shown and not self.block.shows:
            return True
        shown = tuple(line.rstrip() for line in self.command.shown)
        if "numbers" in self.block.flags:
            return _without_figures(shown) == _without_figures(self.printed)
        return shown == self.printed

    def _asked_code(self) -> list[str]:
        is_last = self.command == self.block.commands()[-1]
        return self.block.flags.get("exit", "0").split(",") if is_last else ["0"]


def _without_figures(lines: tuple[str, ...]) -> list[str]:
    """Figures and what their widths decide are left out."""
    return [re.sub(r"[\s\d.,─]+", " ", line).strip() for line in lines]


def played(text: str, folder: Path) -> Iterator[Outcome]:
    """Every command of a page, in order. Blocks that name a file are written as they come."""
    found = blocks(text)
    if not any(block.runs for block in found):
        return
    with serving({name: model for name, (_, model) in SERVED.items()}) as urls:
        world = World(folder, urls)
        for block in found:
            if "file" in block.flags:
                world.write(block)
            for command in block.commands() if block.runs else ():
                code, printed, errors = world.run(command.text, block)
                try:
                    shown = part(printed, block.shows)
                except LookupError as missing:
                    shown, errors = list(command.shown), f"{errors}{missing}"
                    code = None
                yield Outcome(command, block, code, tuple(shown), errors)


def renewed(text: str, outcomes: list[Outcome]) -> str:
    """The page, with what its commands print now."""
    lines = text.split("\n")
    for outcome in reversed(outcomes):
        if not outcome.alike:
            lines[outcome.command.first : outcome.command.last] = outcome.printed
    return "\n".join(lines)
