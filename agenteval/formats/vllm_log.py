"""vLLM's log: the line that each engine writes every ten seconds, and uvicorn's access log.

    INFO 11-21 10:13:11 [loggers.py:271] Engine 000: Avg prompt throughput: 5.1 tokens/s, Avg ...
    INFO:     10.0.0.5:53422 - "POST /v1/chat/completions HTTP/1.1" 200 OK

The engine's line of V0 and of V1 is read, whatever a container or a journal puts before it, and
also where another format of logging stands around it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from agenteval.core.windows import Access, EngineLine, Entry
from agenteval.errors import UsageError
from agenteval.formats.packed import UNREADABLE, opened

LONGEST = 1 << 16  # bytes of a line that are looked at: logged prompts can have megabytes

_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]|\0")  # and the zeros of UTF-16
# The first head of a line is vLLM's own: what a logged prompt holds comes after one.
_HEAD = re.compile(
    r"(?:INFO|DEBUG) +(?:\d{4}-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,]\d+)? "
    r"+\[?[\w./-]+:\d+\] *"
)
_ENGINE = re.compile(
    r"(?:(Engine \d+|\d+ Engines Aggregated): )?"
    r"Avg prompt throughput: (\d{1,8}\.\d) tokens/s, "
    r"Avg generation throughput: (\d{1,8}\.\d) tokens/s, "
    r"(?:# ?)?Running: (\d{1,5}) reqs, (?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (\d{1,9}) reqs"
)
_ACCESS = re.compile(
    r'INFO: +\S* ?- \\?"POST (?:/\S*)?/v1/(?:chat/completions|completions|responses|messages)'
    r'(?:\?\S*)? HTTP/[\d.]+\\?" (\d{3})\b'
)
_SPEAKS = re.compile(r"(?:(?:Engine \d+|\d+ Engines Aggregated): )?Avg prompt throughput")
# In a line that another format of logging made, such as JSON.
_STAMP = re.compile(r"\d{4}[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")
# What other servers write about their speed.
_OTHERS = {
    "SGLang": re.compile(r"(?:Decode|Prefill) batch.*#running-req: "),
    "llama.cpp": re.compile(r"slot +(?:print_timing|release|launch_slot)|eval time *= .* ms /"),
    "Ollama": re.compile(r"\[GIN\] \d{4}"),
    "LMDeploy": re.compile(r"Avg thr \(in/out\): "),
}
_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)  # before a month of a leap year


@dataclass(slots=True)
class VllmLog:
    """Gives the entries of a log one by one; how many there were is known when it has ended.

    `unread` counts lines that speak of throughput in no form known here; `other` is the server
    that wrote the log, where that shows and it is not vLLM.
    """

    lines: int = 0
    engine_lines: int = 0
    completions: int = 0
    failed: int = 0
    unread: int = 0
    other: str = ""

    def entries(self, lines: Iterable[bytes]) -> Iterator[Entry]:
        for raw in lines:
            for part in raw.split(b"\r"):  # progress bars have no line ends of their own
                self.lines += bool(part.strip())
                entry = self._entry(_COLOUR.sub(b"", part).decode("ascii", "replace"))
                if entry is not None:
                    yield entry

    def _entry(self, line: str) -> Entry | None:
        head = _HEAD.search(line)
        if head is None and (found := _ACCESS.search(line)):
            access = Access(int(found[1]))
            self.completions += access.completed
            self.failed += not access.completed
            return access
        speaks = _SPEAKS.match(line, head.end()) if head else _SPEAKS.search(line)
        if speaks is None:
            self.other = self.other or (_other_server(line) if not self.engine_lines else "")
            return None
        engine = _ENGINE.match(line, speaks.start())
        if engine is None:
            self.unread += 1
            return None
        self.engine_lines += 1
        stamp = head or _STAMP.search(line)
        return _engine_line(engine, _seconds(stamp) if stamp else None)


def _other_server(line: str) -> str:
    return next((name for name, mark in _OTHERS.items() if mark.search(line)), "")


def _engine_line(found: re.Match[str], at: float | None) -> EngineLine:
    engine, prompt, generation, running, waiting = found.groups()
    return EngineLine(
        at=at,
        engine=engine or "",
        prompt=float(prompt),
        generation=float(generation),
        running=int(running),
        waiting=int(waiting),
    )


def _seconds(head: re.Match[str]) -> float | None:
    """Since the year began, in a year of 366 days: stamps have no year. None for no real month."""
    month, day, hour, minute, second = map(int, head.groups())
    if not 1 <= month <= len(_DAYS):
        return None
    return float((((_DAYS[month - 1] + day) * 24 + hour) * 60 + minute) * 60 + second)


def log_lines(paths: Sequence[str]) -> Iterator[bytes]:
    """The lines of all files, one file after the other; `-` is the standard input.

    Packed files are unpacked as they are read. Raises UsageError.
    """
    for path in paths:
        try:
            with ExitStack() as stack:
                yield from bounded_lines(opened(path, stack))
        except UNREADABLE as error:
            raise UsageError(
                f"{path}: cannot be read ({error}); give log files of vLLM, the oldest first"
            ) from error


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines without what is beyond the longest: memory stays small, whatever is in the file."""
    whole = True
    while part := stream.readline(LONGEST):
        if whole:
            yield part
        whole = part.endswith(b"\n")
