"""The pages of the documentation, and the blocks in them that a machine can run.

A fence says in its info string what is done with it; readers of the page do not see that:

    console run     each line that begins with `$ ` is run; the lines below it are what it prints
    sh run          every line is run, and shows nothing
    toml file=NAME  written to NAME, in the folder where the page's commands run
    sh from=PATH    the text of this file of the project

`exit=3` is the exit code of the block's last command, `exit=0,1,3` any of these; `width=100` the
columns of its terminal; `quick="--trials 1 mail"` is added to each `agenteval run`, so that seconds
will do where a reader's run takes hours;
`show="A...B"` the part of an output that the page shows: from the first line that A matches to the
next that B matches (nothing: from the start, to the end), and more than one where it is repeated;
`numbers=vary` lets figures differ, such as times; `folder=checkout` runs it where the project's own
folders are, and not in an empty one.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGES = (PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md")))
GAP = "..."  # a line of a page that stands for the lines left out

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[\w-]+)(?P<info>[^`{]*)$")
_WORD = re.compile(r'(?P<key>\w+)(?:=(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+)))?')


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block, and the lines of the page that show what it prints."""

    text: str
    first: int
    last: int
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A fence of a page. `line` is that of its first line of text, counted from 0."""

    language: str
    line: int
    lines: tuple[str, ...]
    flags: dict[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return "run" in self.flags

    def commands(self) -> list[Command]:
        """Those of a block that runs, in order."""
        if self.language == "sh":
            joined = _joined(self.lines)
            return [Command(text, at, at, ()) for at, text in joined if not text.startswith("#")]
        starts = [at for at, line in enumerate(self.lines) if line.startswith("$ ")]
        return [
            self._prompted(start, end)
            for start, end in zip(starts, [*starts[1:], len(self.lines)], strict=True)
        ]

    def _prompted(self, start: int, end: int) -> Command:
        text, at = self.lines[start][2:], start + 1
        while text.endswith("\\"):
            text = text[:-1].rstrip() + " " + self.lines[at].lstrip("> ").strip()
            at += 1
        return Command(text, self.line + at, self.line + end, self.lines[at:end])


def _joined(lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """Lines that a backslash ends, joined with the next."""
    found: list[tuple[int, str]] = []
    for at, line in enumerate(lines):
        if found and found[-1][1].endswith("\\"):
            found[-1] = (found[-1][0], found[-1][1][:-1].rstrip() + " " + line.strip())
        elif line.strip():
            found.append((at, line.split("  # ")[0].strip()))
    return found


def blocks(text: str) -> list[Block]:
    """Every fence of a page, in order."""
    found: list[Block] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        at += 1
        if opened:
            start = at
            while lines[at] != opened["fence"]:
                at += 1
            found.append(_block(opened, start, tuple(lines[start:at])))
            at += 1
    return found


def _block(opened: re.Match[str], start: int, lines: tuple[str, ...]) -> Block:
    words = list(_WORD.finditer(opened["info"]))
    flags = {word["key"]: word["quoted"] or word["plain"] or "" for word in words}
    shows = tuple(word["quoted"] for word in words if word["key"] == "show")
    return Block(opened["language"], start, lines, flags, shows)


def part(lines: list[str], shows: tuple[str, ...]) -> list[str]:
    """What a page shows of an output."""
    if not shows:
        return lines
    shown: list[str] = []
    for show in shows:
        begin, _, end = show.partition(GAP)
        first = next((at for at, line in enumerate(lines) if re.search(begin, line)), None)
        if first is None:
            raise LookupError(f"no line of the output matches {begin!r}")
        last = next(
            (at for at in range(first, len(lines)) if end and re.search(end, lines[at])), None
        )
        stop = len(lines) if last is None else last + 1
        shown += [*([GAP] if shown else []), *lines[first:stop]]
    return shown
