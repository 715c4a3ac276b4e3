"""Remediation: the faults of a denied call, and only what this policy allows in its place.

What stands between backquotes behind Run, Read, Write or Allowed can be sent as it stands: each was
judged first. Capitals in a listed call are values to fill in.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter

from agenteval.core.call import BASH
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.bash import MOVES
from agenteval.core.policy.examples import allowed, listed, opens
from agenteval.core.policy.mismatch import Miss, Part
from agenteval.core.policy.patterns import normalise
from agenteval.core.shell.facts import RedirectKind, ShellFacts
from agenteval.core.shell.program_specs import can_show, shown_files
from agenteval.core.shell.words import quoted
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.failure_class import FailureClass, Seen
from agenteval.taxonomy.residue import untyped, with_quoted_urls, without_residue

_FAULT = 80  # characters of what is wrong
_SHOWN = 100  # characters of one call
_MOST = 200  # characters: two lines
_TRIED = 20  # listed commands of one call: each is looked for in all of it
_MENDED = 10 * _SHOWN  # characters of a call that is mended one by one: more would never fit


class Ways:
    """What may be done in place of one denied call.

    `own` is the first listed command in it that may be run by itself, `written` says how the first
    file that it writes may be written, `way` the nearest of what a tool does; each may be empty.
    """

    __slots__ = ("_calls", "_near", "call", "is_command", "own", "way", "written")

    def __init__(self, call: DeniedCall) -> None:
        self.call = call
        self.own = self.way = self.written = self._calls = ""
        self._near: tuple[str, ...] = ()  # the words of one that cannot be run as it stands
        self.is_command = call.call.command is not None
        if not self.is_command:
            return
        touched, is_listed = _touches("") if call.shell.redirects else 0, False
        for _, program, _, admitted, _, _ in call.parts:
            touched |= _touches(program)
            is_listed = is_listed or admitted
        if is_listed and not call.objection:
            self.own = self._own()
        if touched & _WRITES:
            self.written = self._tool(WRITE, self._into())
        if touched and not self.own:
            made = {*self._into()} if touched & _WRITES else ()
            shown = (path for path in self._shown() if path not in made)  # what was there before
            self.way = self._tool(READ, shown) or self.written

    def hint(self, found: FailureClass, seen: Seen) -> str:
        """The fault and the nearest way, or how such a call is mended in general."""
        if not self.is_command:
            return seen.hint or found.cure
        fault = _fault(seen.hint) if seen.hint else ""
        if way := self._mended(found.id):
            return _joined(fault, f"Run `{way}`.")
        if self.own:
            own = _told(self.own)
            if "{alone}" in found.cure:
                return self._with_written(_joined(fault, found.cured(own)))
            return self._with_written(_joined(fault or found.cure, f"Run `{own}` alone."))
        if self.way:
            return _joined(fault, self.way)
        if found.id in _WRITING and not fault and any(self._into()):
            fault = self._open_to()
        self._calls = self._calls or self._allowed()  # the same below every class
        return _joined(fault or found.cure_in_general, self._calls)

    def _own(self) -> str:
        """But for what does nothing alone: a change of folder, cat of what was handed to it."""
        call = self.call
        found = [part for part in _reached(call) if part.admitted and part.words]
        found = [part for part in found if part.program not in MOVES and part.argv != ("cat",)]
        for part in sorted(found, key=_NESTED)[:_TRIED]:
            text = call.words(part).text
            if call.shell.is_cut(part.words.extent) or _is_fed(call.shell, part):
                self._near = self._near or part.argv
            elif self._runs(text):
                return text
        return ""

    def _tool(self, tool: str, paths: Iterator[str]) -> str:
        """What a tool does with the first of the files that it opens."""
        path = next((path for path in paths if path and self._opens(tool, path)), "")
        return f"{tool.capitalize()} `{path}` with the {tool} tool." if path else ""

    def _allowed(self) -> str:
        """Calls that are allowed, nearest first."""
        _, _, policy, world, *_ = self.call
        if self._near:
            return listed(policy, world, self._near)
        for part, (_, _, _, since, instead) in self.call.misses.values():
            if instead and not since:
                return listed(policy, world, tuple(instead.split()))
            is_strange = policy.bash.is_strange(part.program)
            return listed(policy, world, (part.program,) if is_strange else part.argv)
        return listed(policy, world)

    def _open_to(self) -> str:
        """Where the write tool writes, where there is one."""
        policy = self.call.policy
        if WRITE not in policy.tools:
            return ""
        open_to = ", ".join(policy.write.allow) or "nothing"
        return _cut(f"the write tool is open to {open_to} only", _FAULT)

    def _with_written(self, told: str) -> str:
        whole = _joined(told, self.written)
        return whole if len(whole) <= _MOST else told

    def _mended(self, failure_class: str) -> str:
        """The call with what this class is about put right, where that is all that is wrong."""
        mend, miss = _MENDS.get(failure_class), _MISSES.get(failure_class)
        text = mend(self.call.text) if mend and len(self.call.text) <= _MENDED else self.call.text
        if text == self.call.text:
            text = _with_near(self.call, miss) if miss else ""
        return text if text and _fits(text) and self._runs(text) else ""

    def _runs(self, text: str) -> bool:
        return allowed(self.call.policy, self.call.world, BASH, command=text)

    def _opens(self, tool: str, path: str) -> bool:
        return _fits(path) and opens(self.call.policy, self.call.world, tool, path)

    def _shown(self) -> Iterator[str]:
        """The files that the commands show, from the folder that they change to."""
        if self.call.shell.errors:
            return
        root = folder = self.call.world.root
        for part in self.call.parts:
            program = part.program
            if program in MOVES:
                to = part.argv[-1]
                if part.words.dynamic or len(part.argv) < 2 or to[:1] in _ELSEWHERE:
                    return  # where it then is, nobody knows
                folder = posixpath.join(folder, to)
            elif program.lower() == READ and self.call.calls_tool(part):
                yield normalise(posixpath.join(folder, part.argv[1]), root) or ""
            elif can_show(program) and not part.words.dynamic:
                for path in shown_files(part.argv):
                    below = path if folder is root else posixpath.join(folder, path)
                    yield normalise(below, root) or ""
        yield from self._behind(RedirectKind.INPUT)

    def _into(self) -> Iterator[str]:
        """The files that the call writes."""
        if self.call.shell.errors:
            return
        root = self.call.world.root
        yield from self._behind(RedirectKind.FILE)
        for part in self.call.parts:
            if part.program.lower() == WRITE and self.call.calls_tool(part):
                yield from (normalise(word, root) or "" for word in part.argv[1:2])
            if part.program == "tee":
                words = (word for word in part.argv[1:] if not word.startswith("-"))
                yield from (normalise(word, root) or "" for word in words)

    def _behind(self, kind: RedirectKind) -> Iterator[str]:
        """The files behind redirects; no descriptors, and nothing that bash still works out."""
        for redirect in self.call.shell.redirects:
            if redirect.kind is kind and not _UNKNOWN.search(redirect.span.text):
                yield normalise(redirect.target, self.call.world.root) or ""


_NESTED = attrgetter("nested")


def _reached(call: DeniedCall) -> Iterator[Part]:
    """Its commands, without those that never run: behind `true ||` and `false &&`."""
    never, program, end = "", "", 0
    for part in call.parts:
        start, stop = part.words.extent
        if start >= end:  # else it stands inside the one before
            joint = call.text[end:start].strip()
            never = joint if joint and joint in (never, _NEVER_BEHIND.get(program)) else ""
            program, end = part.program, stop
        if not never:
            yield part


_NEVER_BEHIND = {"true": "||", ":": "||", "false": "&&"}


def _is_fed(shell: ShellFacts, part: Part) -> bool:
    """Whether a word of it stands for what something else hands to it."""
    if part.via and not _HANDS_ON.isdisjoint(part.via):
        return "find" not in part.via or any("{}" in word for word in part.argv)
    return not _STDIN.isdisjoint(part.argv) and shell.is_fed(part.words.extent[0])


_HANDS_ON = frozenset(("xargs", "parallel", "find"))
_STDIN = frozenset(("-", "/dev/stdin"))
_UNKNOWN = re.compile(r"[<>]&|[$`(*?{]")
_ELSEWHERE = ("-", "+", "~")
_SHOWS, _WRITES = 1, 2


@lru_cache(maxsize=1024)  # agents know few programs
def _touches(program: str) -> int:
    """Whether such a program, or a tool of its name, may show or write files; "" is a redirect."""
    writes = program == "" or program.lower() == WRITE or program == "tee"
    shows = program == "" or program.lower() == READ or can_show(program)
    return shows * _SHOWS + writes * _WRITES


def _with_near(call: DeniedCall, miss: Miss) -> str:
    """The command that is missed so, with what is like its wrong words in their place."""
    missed = call.misses.get(miss)
    if missed is None or not missed.mismatch.instead:
        return ""
    part, (_, at, _, since, instead) = missed
    (start, end), behind = part.words.extent, part.words.place(at)[1]
    instead = quoted(instead) if since else instead
    before = call.text[start : part.words.place(since)[0]]
    return f"{before}{instead}{call.text[behind:end]}"


_WRITING = ("heredoc-to-file", "file-redirect")
_MISSES = {
    "wrong-runner": Miss.RUNNER,
    "hallucinated-flag": Miss.OPTION,
    "hallucinated-sub-command": Miss.COMMAND,
    "hallucinated-value": Miss.VALUE,
    "hallucinated-script": Miss.SCRIPT,
    "unlisted-script": Miss.SCRIPT,
    "bad-arguments": Miss.WORDS,
    "bare-binary": Miss.PROGRAM,
}


_MENDS: Mapping[str, Callable[[str], str]] = {
    "template-residue": without_residue,
    "typographic-character": untyped,
    **dict.fromkeys(("background", "env-assignment", "bare-binary"), with_quoted_urls),
}


def _fits(text: str) -> bool:
    """Whether it can stand between backquotes in a line."""
    return bool(text) and len(text) <= _SHOWN and text.isprintable() and "`" not in text


def _told(text: str) -> str:
    """A command of the model, or how it begins."""
    if _fits(text):
        return text
    whole = _UNSHOWN.split(text[:_SHOWN], maxsplit=1)[0]
    return f"{whole}\N{HORIZONTAL ELLIPSIS}"


_UNSHOWN = re.compile(r"[`\x00-\x1f\x7f-\xa0\ud800-\udfff]")


@lru_cache(maxsize=1024)
def _fault(text: str) -> str:
    """In one line, without backquotes: what stands between those can be sent."""
    return _cut(" ".join(text.replace("`", "'").split()), _FAULT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _joined(first: str, then: str = "") -> str:
    """Two sentences, the first of which may lack its end, or the one that there is."""
    if not (first and then):
        return first or then
    return f"{first} {then}" if first[-1] in ".?!:" else f"{first}. {then}"
