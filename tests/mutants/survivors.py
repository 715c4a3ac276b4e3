"""Which mutants need no test, and why: `explained.toml`, by the text of the lines."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from targets import ROOT


@dataclass(frozen=True)
class Explanation:
    """One change of one line of a module."""

    module: str
    was: str
    becomes: str
    because: str

    def stands(self) -> bool:
        """Whether the module still has the line."""
        return self.was in [line.strip() for line in _lines(ROOT / self.module)]

    def tells(self, difference: Sequence[str]) -> bool:
        """Of a mutant as the lines that go, with a minus, and those that come, with a plus."""
        lines = [line[0] + line[1:].strip() for line in difference]
        return lines == [f"-{self.was}", f"+{self.becomes}"]


def explanations() -> list[Explanation]:
    read = tomllib.loads((Path(__file__).parent / "explained.toml").read_text("utf-8"))
    return [Explanation(**entry) for entry in read.get("mutant", [])]


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []
