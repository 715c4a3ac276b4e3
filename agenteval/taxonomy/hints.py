"""Remediation: the faults of a denied call, and only what this policy allows in its place.

What stands between backquotes behind Run, Read, Write or Allowed can be sent as it stands: each was
judged first. Capitals in a listed call are values to fill in.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from agenteval.core.call import BASH
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.bash import MOVES
from agenteval.core.policy.examples import SHOWN, allowed, fits, listed, opens, shortened
from agenteval.core.policy.mismatch import Miss, Part, reached
from agenteval.core.policy.patterns import normalise
from agenteval.core.shell.facts import RedirectKind
from agenteval.core.shell.harm import NO_OPS
from agenteval.core.shell.program_specs import can_show, shown_files, wants_input
from agenteval.core.shell.words import quoted
from agenteval.core.shell.wrappers import passes_arguments
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.failure_class import FAULT, FailureClass, Seen, as_fault, cut, joined
from agenteval.taxonomy.residue import untyped, with_quoted_urls, without_residue

_MOST = 200  # characters: two lines
_TRIED = 20  # listed commands of one call: each is looked for in all of it
_MENDED = 10 * SHOWN  # characters of a call that is mended one by one: more would never fit


class Ways:
    """The ways to replace one denied call.

    `own` is the first listed command in it that may be run by itself, `written` says how the first
    file that it writes may be written, `way` the nearest of what a tool does; each may be empty.
    """

    __slots__ = ("_calls", "_moves", "_near", "call", "is_command", "own", "way", "written")

    def __init__(self, call: DeniedCall) -> None:
        self.call = call
        self.own = self.way = self.written = self._calls = ""
        self._near: tuple[str, ...] = ()  # the words of one that cannot be run as it stands
        self.is_command = call.call.command is not None
        if not self.is_command:
            return
        self._moves = any(part.program in MOVES for part in call.parts)
        touched, is_listed = _touches("") if call.shell.redirects else 0, False
        for _, program, _, admitted, _, _ in call.parts:
            touched |= _touches(program)
            is_listed = is_listed or admitted
        if is_listed and not call.objection:
            self.own = self._own()
        if touched & _WRITES:
            self.written = self._written()
        if touched and not self.own:
            made = {path for path, _ in self._into()} if touched & _WRITES else ()
            shown = (path for path in self._shown_files() if path not in made)  # not written here
            self.way = self._tool(READ, shown) or self.written

    def hint(self, failure_class: FailureClass, evidence: Seen) -> str:
        """Return the fault and the nearest way, or how such a call is fixed in general."""
        if not self.is_command:
            return evidence.hint or failure_class.cure_in_general
        fault = as_fault(evidence.hint) if evidence.hint else ""
        if way := self._mended(failure_class.id):
            return joined(fault, f"Run `{way}`.")
        if self.own:
            own = shortened(self.own)
            if "{alone}" in failure_class.cure:
                return self._with_written(joined(fault, failure_class.cured(own)))
            return self._with_written(joined(fault or failure_class.cure, f"Run `{own}` alone."))
        if self.way:
            return joined(fault, self.way)
        if failure_class.id in _WRITING and not fault and any(path for path, _ in self._into()):
            fault = self._open_to()
        self._calls = self._calls or self._allowed()  # the same below every class
        return joined(fault or failure_class.cure_in_general, self._calls)

    def _own(self) -> str:
        """But for what does nothing alone."""
        call = self.call
        found = [part for part in reached(call.parts, call.text) if part.admitted and part.words]
        found = [part for part in found if not self._is_idle(part)]
        for part in sorted(found, key=lambda part: part.nested)[:_TRIED]:
            text = call.words(part).text
            if call.shell.is_cut(part.words.extent) or self._is_fed(part):
                self._near = self._near or part.argv
            elif self._runs(text):
                return text
        return ""

    def _is_idle(self, part: Part) -> bool:
        """Return True if it changes the folder, filters what is piped into it, or prints.

        A no-op such as echo counts only next to another command that no rule fits.
        """
        if part.program in MOVES or part.argv == ("cat",):
            return True
        if part.program in NO_OPS:
            return bool(self.call.misses)
        return wants_input(part.argv) and self.call.shell.is_piped(part.words.extent[0])

    def _is_fed(self, part: Part) -> bool:
        """Return True if a word of it stands for what something else passes to it."""
        is_fed = self.call.shell.is_fed(part.argv, part.words.extent[0])
        return is_fed or passes_arguments(part.via, part.argv)

    def _tool(self, tool: str, paths: Iterator[str]) -> str:
        """Return a sentence that uses a tool on the first file that it opens, or ""."""
        path = next((path for path in paths if path and self._opens(tool, path)), "")
        return f"{tool.capitalize()} `{path}` with the {tool} tool." if path else ""

    def _written(self) -> str:
        """Return how the first file that the call writes may be written.

        The write tool replaces a file.
        """
        world = self.call.world
        for path, is_added in self._into():
            if path and self._opens(WRITE, path):
                is_new = world.files is not None and path not in world.files | world.written
                if is_new or not is_added:
                    return f"Write `{path}` with the write tool."
                if self._opens(READ, path):
                    return (
                        f"Read `{path}` with the read tool and write it whole, with what is added."
                    )
                return "The write tool can only replace that file as a whole."
        return ""

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
        """Return the fault that names where the write tool writes; "" without that tool."""
        policy = self.call.policy
        if WRITE not in policy.tools:
            return ""
        open_to = ", ".join(policy.write.allow) or "nothing"
        return cut(f"the write tool is open to {open_to} only", FAULT)

    def _with_written(self, text: str) -> str:
        whole = joined(text, self.written)
        return whole if len(whole) <= _MOST else text

    def _mended(self, failure_class: str) -> str:
        """The call with what this class is about put right, where that is all that is wrong."""
        mend, miss = _MENDS.get(failure_class), _MISSES.get(failure_class)
        text = mend(self.call.text) if mend and len(self.call.text) <= _MENDED else self.call.text
        if text == self.call.text:
            text = _with_near(self.call, miss) if miss else ""
        return text if text and fits(text) and self._runs(text) else ""

    def _runs(self, text: str) -> bool:
        return allowed(self.call.policy, self.call.world, BASH, command=text)

    def _opens(self, tool: str, path: str) -> bool:
        return fits(path) and opens(self.call.policy, self.call.world, tool, path)

    @property
    def _plain(self) -> Iterator[Part]:
        """The commands in which bash has no word left to work out."""
        return (part for part in self.call.parts if not part.words.dynamic)

    def _shown_files(self) -> Iterator[str]:
        """The files that the commands show."""
        if self.call.shell.errors:
            return
        for part in self._plain:
            program, at = part.program, part.words.extent[0]
            if program.lower() == READ and self.call.calls_tool(part):
                yield self._path(part.argv[1], at)
            elif can_show(program):
                yield from (self._path(path, at) for path in shown_files(part.argv))
        yield from (path for path, _ in self._behind(RedirectKind.INPUT))

    def _into(self) -> Iterator[tuple[str, bool]]:
        """The files that the call writes, and whether what was in one stays."""
        if self.call.shell.errors:
            return
        yield from self._behind(RedirectKind.FILE)
        for part in self._plain:
            at = part.words.extent[0]
            if part.program.lower() == WRITE and self.call.calls_tool(part):
                yield from ((self._path(word, at), False) for word in part.argv[1:2])
            if part.program == "tee":
                is_added = any(map(_APPENDS.match, part.argv))
                words = (word for word in part.argv[1:] if not word.startswith("-"))
                yield from ((self._path(word, at), is_added) for word in words)

    def _behind(self, kind: RedirectKind) -> Iterator[tuple[str, bool]]:
        """The files behind redirects; no descriptors, and nothing that bash still works out."""
        shell = self.call.shell
        begins = {one.span[:2]: each.extent[0] for each in shell.commands for one in each.redirects}
        for redirect in shell.redirects:
            if redirect.kind is kind and not _UNKNOWN.search(redirect.span.text):
                path = self._path(redirect.target, begins.get(redirect.span[:2]))
                yield path, ">>" in redirect.span.text

    def _path(self, path: str, at: int | None) -> str:
        """Return the place of a path in the command that begins at `at`; "" if it is unknown."""
        root = self.call.world.root
        folder = self.call.folder(at) if self._moves else root
        if folder is None:
            return ""
        return normalise(path if folder == root else posixpath.join(folder, path), root) or ""


_UNKNOWN = re.compile(r"[<>]&|[$`(*?{]")
_APPENDS = re.compile(r"-[a-z]*a|--a")  # of tee
_SHOWS, _WRITES = 1, 2


@lru_cache(maxsize=1024)  # agents know few programs
def _touches(program: str) -> int:
    """Return flags for a program, or tool of its name, that may show or write files.

    The program "" is a redirect.
    """
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
    "ambiguous-shell": lambda text: text.replace("\r", "").strip(),
    **dict.fromkeys(("background", "env-assignment", "bare-binary"), with_quoted_urls),
}
