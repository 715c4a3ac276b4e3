"""GNU bash as judge of our reading: every program is replaced by one that records its words.

Nothing is executed: each builtin and each expected program is a shell function that writes its
argv to a file, every other name ends in bash's own handler for unknown commands, which does the
same, and PATH is empty. One bash process runs thousands of texts.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from agenteval.shell.gate import NotSimple, Simple, Word, read_simple
from agenteval.shell.leaves import Construct, Leaves, read_leaves

BASH = shutil.which("bash") or "bash"
NOBODY = 65534
Run = tuple[str, ...]

_FUNCTION_NAME = re.compile(r"[\w./:@%+,^!\]\[-][\w./:@%+,^!=~#\]\[-]*\Z", re.ASCII)
_READ_ONLY = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}
_SAFE_TARGET = re.compile(r"[a-z]+\Z|[012]\Z|/dev/null\Z")

_HARNESS = r"""
mapfile -d '' -t _names < ../names
mapfile -d '' -t _texts < ../texts
trap '' PIPE
exec 200>&1 >/dev/null 2>&1 </dev/null
# bash writes what stands before a newline at once, and background jobs would write in between
_body='"${@//$'"'\n'/$'\2'"'}" $'"'\1'"' >&200; builtin printf S; }'
builtin eval "command_not_found_handle() { builtin printf '%s\0' \$_number $_body"
for _name in "${_names[@]}"; do
  builtin eval "function $_name { builtin printf '%s\0' \$_number \"\$FUNCNAME\" $_body"
done
for _number in "${!_texts[@]}"; do
  builtin eval "${_texts[_number]}"
done
builtin printf '\3\0' >&200
"""


@cache
def _builtins() -> frozenset[str]:
    """All of bash's builtins but the one that the harness itself runs on."""
    listing = subprocess.run([BASH, "-c", "compgen -b"], capture_output=True, text=True, check=True)
    return frozenset(listing.stdout.split()) - {"builtin"}


def can_record(program: str) -> bool:
    """Whether a program's words can be recorded: its name can be a function, or has no slash."""
    if program == "builtin":
        return False
    return _FUNCTION_NAME.match(program) is not None or "/" not in program


def run_in_bash(texts: Sequence[str], programs: Iterable[str]) -> list[list[Run]]:
    """For each text, the argv of each program that bash ran for it, in order of running.

    Raises RuntimeError when a text made bash itself stop.
    """
    names = _builtins() | {name for name in programs if _FUNCTION_NAME.match(name)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path, values in (("names", sorted(names)), ("texts", texts)):
            (folder / path).write_bytes(b"".join(value.encode() + b"\0" for value in values))
        (folder / "home").mkdir()
        (folder / "home").chmod(0o777)
        done = subprocess.run(  # returns when the last child in the background has closed the pipe
            [BASH, "--norc", "--noprofile", "-c", _HARNESS],
            cwd=folder / "home",
            env={"LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "PATH": "/nonexistent"},
            user=NOBODY if os.geteuid() == 0 else None,
            timeout=120,
            stdout=subprocess.PIPE,
            check=False,
        )
    return _sort_runs(done.stdout.decode(), texts)


def _sort_runs(record: str, texts: Sequence[str]) -> list[list[Run]]:
    *lines, end = record.split("\1\0")
    if "\3\0" not in record:
        raise RuntimeError(f"bash stopped before its end, after {lines[-1:]}")
    runs: list[list[Run]] = [[] for _ in texts]
    for line in [*lines, end]:
        number, *run = line.replace("\3\0", "").split("\0")[:-1] or [""]
        if number:
            runs[int(number)].append(tuple(word.replace("\2", "\n") for word in run))
    return runs


def _fits(words: Sequence[Word], run: Run) -> bool:
    """Whether bash ran these words; a dynamic one may have become any number of words."""
    dynamic = [number for number, word in enumerate(words) if word.dynamic]
    if not dynamic:
        return tuple(word.text for word in words) == run
    before, after = words[: dynamic[0]], words[dynamic[-1] + 1 :]
    return (
        len(run) >= len(words) - len(dynamic)
        and all(word.text == value for word, value in zip(before, run, strict=False))
        and all(w.text == v for w, v in zip(reversed(after), reversed(run), strict=False))
    )


def _runs_all(reading: Leaves, text: str) -> bool:
    """Whether every leaf must have run: nothing conditional, no redirect that may fail."""
    return (
        not any(mark in text for mark in ("&&", "||"))
        and Construct.INPUT_REDIRECT not in reading.constructs
        and all("<<" in r.span.text or _SAFE_TARGET.match(r.target) for r in reading.redirects)
        and not any(
            a.text.split("=")[0].rstrip("+") in _READ_ONLY
            for leaf in reading.leaves
            for a in leaf.assignments
        )
    )


def _unread(leaves: Sequence[Sequence[Word]], runs: Sequence[Run]) -> list[Run]:
    """The runs for which no leaf is left, when each leaf stands for one run at most."""
    taken: dict[int, int] = {}  # leaf to run

    def place(run: int, tried: set[int]) -> bool:
        for leaf, words in enumerate(leaves):
            if leaf not in tried and _fits(words, runs[run]):
                tried.add(leaf)
                if leaf not in taken or place(taken[leaf], tried):
                    taken[leaf] = run
                    return True
        return False

    return [run for number, run in enumerate(runs) if not place(number, set())]


def _complaint(text: str, reading: Simple | Leaves, runs: list[Run]) -> str:
    leaves = (
        [reading.words] if isinstance(reading, Simple) else [leaf.words for leaf in reading.leaves]
    )
    argvs = [[word.text for word in words] for words in leaves]
    if unread := _unread(leaves, runs):
        return f"{text!r}: bash ran {unread}, we read {argvs}"
    if len(runs) < len(leaves) and (isinstance(reading, Simple) or _runs_all(reading, text)):
        return f"{text!r}: bash ran only {runs}, we read {argvs}"
    return ""


def _programs(reading: Simple | Leaves) -> list[str]:
    if isinstance(reading, Simple):
        return [reading.argv[0]]
    return [leaf.argv[0] for leaf in reading.leaves]


class Judge:
    """Asks bash about accepted texts in large batches, and keeps count."""

    def __init__(self, batch: int = 4000) -> None:
        self.batch = batch
        self.waiting: list[tuple[str, Simple | Leaves]] = []
        self.simple = self.split = self.runs = 0
        self.complaints: list[str] = []

    def offer(self, text: str, *, split: bool) -> None:
        """Read a text; when our reader accepts it, bash will be asked whether it agrees."""
        reading = read_leaves(text) if split else read_simple(text)
        if isinstance(reading, NotSimple):
            return
        if not all(can_record(program) for program in _programs(reading)):
            return
        self.waiting.append((text, reading))
        if len(self.waiting) >= self.batch:
            self.flush()

    def flush(self) -> None:
        texts = [text for text, _ in self.waiting]
        programs = {program for _, reading in self.waiting for program in _programs(reading)}
        answers = run_in_bash(texts, programs) if texts else []
        for (text, reading), runs in zip(self.waiting, answers, strict=True):
            if isinstance(reading, Simple):
                self.simple += 1
            else:
                self.split += 1
            self.runs += len(runs)
            if complaint := _complaint(text, reading, runs):
                self.complaints.append(complaint)
        self.waiting.clear()
