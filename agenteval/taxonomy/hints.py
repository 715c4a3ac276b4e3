"""What to do instead: the faults of a denied call, and only what this policy allows in its place.

What stands between backquotes behind Run, Read, Write or Allowed can be sent as it stands: each was
judged first. Capitals in a listed call are values to fill in.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from agenteval.core.call import BASH
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.bash import MOVES
from agenteval.core.policy.examples import allowed, examples, nearest, readable
from agenteval.core.policy.mismatch import Miss
from agenteval.core.policy.patterns import normalise
from agenteval.core.policy.policy import Policy, World
from agenteval.core.shell.facts import RedirectKind
from agenteval.core.shell.program_specs import can_show, shown_files
from agenteval.core.shell.words import quoted
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.failure_class import FailureClass, Seen
from agenteval.taxonomy.residue import untyped, without_residue

_FAULT = 80  # characters of what is wrong
_SHOWN = 100  # characters of one call
_LISTED = 3
_LINE = 85  # characters of listed calls
_MOST = 200  # characters: two lines
_LEADING = 8  # words by which listed calls are compared


class Ways:
    """What may be done in place of one denied call.

    `own` is the first listed command in it that may be run by itself, `written` says how the first
    file that it writes may be written, `way` the nearest of what a tool does; each may be empty.
    """

    __slots__ = ("call", "own", "way", "written")

    def __init__(self, call: DeniedCall) -> None:
        self.call = call
        self.own = self.way = self.written = ""
        if call.call.command is None:
            return
        if not call.objection and any(part.admitted for part in call.parts):
            self.own = self._own()
        if call.shell.redirects or any(_has_files(part.program) for part in call.parts):
            self.written = self._tool(WRITE, self._into())
            self.way = "" if self.own else self._tool(READ, self._shown()) or self.written

    def hint(self, found: FailureClass, seen: Seen) -> str:
        """The fault and the nearest way, or how such a call is mended in general."""
        if self.call.call.command is None:
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
        return _joined(fault or found.cure_in_general, self._calls())

    def _own(self) -> str:
        call = self.call
        for is_nested in (False, True):
            for part in call.parts:
                if part.admitted and part.nested is is_nested and part.words:
                    text = call.words(part).text
                    if self._runs(text):
                        return text
        return ""

    def _tool(self, tool: str, paths: Iterator[str]) -> str:
        """What a tool does with the first of the files that it opens."""
        path = next((path for path in paths if path and self._opens(tool, path)), "")
        return f"{tool.capitalize()} `{path}` with the {tool} tool." if path else ""

    def _calls(self) -> str:
        """Calls that are allowed, nearest first."""
        call = self.call
        missed = next(iter(call.misses.values()), None)
        if missed is None:
            return listed(call.policy, call.world)
        part, mismatch = missed
        near = () if mismatch.since else tuple(mismatch.instead.split())
        if call.policy.bash.is_strange(part.program):
            return listed(call.policy, call.world, near or (part.program,))
        return listed(call.policy, call.world, near or part.argv[:_LEADING])

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
        text = mend(self.call.text) if mend else _with_near(self.call, miss) if miss else ""
        return text if text and _fits(text) and self._runs(text) else ""

    def _runs(self, text: str) -> bool:
        return allowed(self.call.policy, self.call.world, BASH, command=text)

    def _opens(self, tool: str, path: str) -> bool:
        content = {"content": ""} if tool == WRITE else {}
        found = allowed(self.call.policy, self.call.world, tool, path=path, **content)
        return found and _fits(path)

    def _shown(self) -> Iterator[str]:
        """The files that the commands show, from the folder that they change to."""
        if self.call.shell.errors:
            return
        root = folder = self.call.world.root
        for part in self.call.parts:
            program = part.program
            if program in MOVES and not part.words.dynamic:
                folder = posixpath.join(folder, part.argv[-1])
            elif program.lower() == READ and self.call.calls_tool(part):
                yield normalise(posixpath.join(folder, part.argv[1]), root) or ""
            elif can_show(program) and not part.words.dynamic:
                for path in shown_files(part.argv):
                    yield normalise(posixpath.join(folder, path), root) or ""
        for redirect in self.call.shell.redirects:
            if redirect.kind is RedirectKind.INPUT:
                yield normalise(redirect.target, root) or ""

    def _into(self) -> Iterator[str]:
        """The files that the call writes."""
        if self.call.shell.errors:
            return
        root = self.call.world.root
        for redirect in self.call.shell.redirects:
            if redirect.kind is RedirectKind.FILE:
                yield normalise(redirect.target, root) or ""
        for part in self.call.parts:
            if part.program.lower() == WRITE and self.call.calls_tool(part):
                yield from (normalise(word, root) or "" for word in part.argv[1:2])
            if part.program == "tee":
                words = (word for word in part.argv[1:] if not word.startswith("-"))
                yield from (normalise(word, root) or "" for word in words)


@lru_cache(maxsize=4096)
def listed(policy: Policy, world: World, argv: tuple[str, ...] = ()) -> str:
    """Calls that are allowed, those first that begin as `argv` does."""
    found = [each.text for each in nearest(examples(policy, world), argv)]
    shown = [text for text in found if text.isprintable() and "`" not in text]
    if shown:
        calls = [""]
        for text in shown:
            if len(calls) <= _LISTED and len("".join((*calls, text))) <= _LINE:
                calls.append(f"`{text}`")
        return f"Allowed {_words(calls[1:] or [f'`{min(shown, key=len)}`'])}."
    if path := readable(policy, world):
        return f"Read `{path}` with the read tool: bash may run nothing here."
    others = ", ".join(tool for tool in policy.tools if tool != BASH)
    return f"No call of bash is known to be allowed{f': use {others}' if others else ''}."


def _words(calls: Sequence[str]) -> str:
    *others, last = calls
    return f"are {', '.join(others)} and {last}" if others else f"is {last}"


@lru_cache(maxsize=1024)  # agents know few programs
def _has_files(program: str) -> bool:
    """Whether such a program may show or write the files that it is given, or is a tool's name."""
    return can_show(program) or program.lower() in {READ, WRITE} or program == "tee"


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


def _joined(*sentences: str) -> str:
    """Sentences, the first of which may lack its end."""
    first, *others = filter(None, sentences)
    if others and first[-1] not in ".?!:":
        first += "."
    return " ".join((first, *others))
