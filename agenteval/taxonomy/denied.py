"""A denied call with all that the failure classes use of it."""

from collections.abc import Mapping, Sequence
from itertools import compress, pairwise
from operator import itemgetter
from typing import NamedTuple

from agenteval.core.call import BASH, ToolCall
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.bash import MOVES, changes_folder
from agenteval.core.policy.mismatch import Miss, Missed, Part
from agenteval.core.policy.patterns import normalise
from agenteval.core.policy.policy import (
    Policy,
    World,
    admits_redirect,
)
from agenteval.core.shell.facts import Command, Redirect, RedirectKind, ShellFacts
from agenteval.core.shell.harm import harm, is_familiar
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import after_runner, interpreter
from agenteval.core.shell.simple_command import NotSimple, Obstacle
from agenteval.core.span import Span, new
from agenteval.taxonomy.failure_class import Seen
from agenteval.taxonomy.residue import residue, typographic


class DeniedCall(NamedTuple):
    """One denied call.

    `text` is what evidence points into: the command, or the argument text of another tool's call.
    `is_only_a_command` when nothing else about the call matters.
    `shell` and `parts` are empty without a command. `misses` holds for each reason the first part
    that no rule fits for it. `stop` is where the reader that decides for this policy gave up.
    """

    call: ToolCall
    text: str
    policy: Policy
    world: World
    shell: ShellFacts
    parts: Sequence[Part]
    misses: Mapping[Miss, Missed]
    is_only_a_command: bool
    stop: NotSimple | None = None
    objection: str = ""

    @property
    def whole(self) -> Span:
        return Span(0, len(self.text), self.text)

    def span(self, start: int, end: int) -> Span:
        return new(Span, (start, end, self.text[start:end]))

    def _whereabouts(self, missed: Missed) -> str:
        """Return "own" for a script that the model wrote, "there" for one that may exist.

        Return "nowhere" for any other.
        """
        part, at = missed.part, missed.mismatch.at
        path = normalise(part.argv[at], self.world.root)
        if path is None or at in part.words.dynamic:
            return "there"
        if path in self.world.written:
            return "own"
        files = self.policy.files if self.world.files is None else self.world.files
        is_known = self.world.files is not None or bool(files)
        is_listed = self.world.files is None and path in self.policy.bash.listed
        return "there" if not is_known or is_listed or path in files else "nowhere"

    def words(self, part: Part) -> Span:
        """The words of a command, from the first to the last."""
        return self.span(*part.words.extent)

    def word(self, part: Part, at: int) -> Span:
        """A word of a command; the last one when there are not so many."""
        start, end = part.words.place(min(at, len(part.argv) - 1) if at else 0)
        return new(Span, (start, end, self.text[start:end]))

    def opens(self, redirect: Redirect) -> bool:
        """Return True if the policy opens such redirects, and to that file."""
        return (
            _CONSTRUCTS[redirect.kind] in self.policy.bash.constructs
            and bool(self.parts)  # without a command no redirect is admitted
            and not (self.stop and redirect.span.start <= self.stop.start < redirect.span.end)
            and admits_redirect(redirect, self.policy, self.world)
        )

    @property
    def signs(self) -> frozenset[str]:
        """The signs in the call, for a class to be seen in: most classes need no closer look.

        The fields of the facts that hold something and the kinds in two of them; the reasons for
        which a part is missed, and for which the reader stopped, or the operator where it did; and
        some names of our own.
        """
        signs = self._signs_of_shell() if self.shell.text else []
        signs += self._signs_of_parts()
        if self.stop:
            reason, at = self.stop
            signs.append(self.text[at : at + 1] if reason is Obstacle.OPERATOR else reason)
        is_command = self.is_only_a_command or self.call.command is not None
        if is_command and (residue(self.text) or typographic(self.text)):
            signs.append("residue")
        if self.objection:
            signs.append("objection")
        if not self.is_only_a_command:
            signs.append("call")
        return frozenset(signs)

    def _signs_of_parts(self) -> list[str]:
        misses, tools = self.misses, self.policy.tools
        signs: list[str] = [*misses]
        if Miss.SCRIPT in misses:
            signs.append(self._whereabouts(misses[Miss.SCRIPT]))
        for _, program, code, _, via, _ in self.parts:
            if program.lower() in tools:
                signs.append("tool")
            if via:
                signs.append("wrapped")
            if code or program == "eval":
                signs.append("code")
        return signs

    def _signs_of_shell(self) -> list[str]:
        shell = self.shell
        signs = [*compress(_FIELDS, shell)]
        if shell.substitutions:
            signs += map(_KIND, shell.substitutions)
        if shell.redirects:
            signs += map(_KIND, shell.redirects)
        if self.policy.bash.constructs and self.move:
            signs.append("move")
        return signs

    def calls_tool(self, part: Part) -> bool:
        """Return True if a tool is meant, and no program of its name, nor the builtin read."""
        name = part.program.lower()
        if name not in self.policy.tools or part.admitted:
            return False
        if name not in {READ, WRITE}:
            return name != BASH and not is_familiar(name)
        first = part.argv[1] if len(part.argv) > 1 else "-"
        is_path = "." in first or "/" in first
        return not first.startswith("-") and (is_path or len(self.parts) == 1)

    def folder(self, at: int | None) -> str | None:
        """The folder in which a command runs that begins there; None where that is unknown."""
        moves = [each for each in self.shell.commands if each.program in MOVES]
        shells = [part.words.extent for part in self.parts if part.code]
        return self.shell.folder(self.world.root, at, moves, shells)

    @property
    def harms(self) -> tuple[str, ...]:
        """The effects beyond reading that any command in it could have, whatever stands around it.

        The effects of a single command are those of its own class.
        """
        if len(self.parts) < 2 and not self.shell.substitutions:
            return ()
        found = {each for part in self.parts if not part.admitted for each in harm(part.words)}
        return tuple(each for each in _HARMS if each in found)

    @property
    def move(self) -> Span | None:
        """The change of folder that no construct allows together with other commands."""
        if not self.policy.bash.constructs or len(self.parts) == 1:
            return None
        shell, stop = self.shell, self.stop
        beside = shell.chains or shell.pipelines or shell.background or shell.substitutions
        if not beside and not (stop and stop.reason is Obstacle.OPERATOR):
            return None  # it stays in a shell of its own: sh -c 'cd x'
        moves = (part for part in self.parts if changes_folder(part.argv))
        return next((self.words(part) for part in moves), None)

    @property
    def alone(self) -> str:
        """The listed command inside the denied one, as the model wrote it; "" without one."""
        for part in self.parts:
            if part.admitted and not part.nested:
                return self.words(part).text
        return ""


_HARMS = ("network", "destructive")
_FIELDS = ShellFacts._fields
_KIND = itemgetter(0)
_CONSTRUCTS = {
    RedirectKind.STDERR: Construct.STDERR_REDIRECT,
    RedirectKind.FILE: Construct.FILE_REDIRECT,
    RedirectKind.INPUT: Construct.INPUT_REDIRECT,
    RedirectKind.HEREDOC: Construct.HEREDOC,
    RedirectKind.HERESTRING: Construct.HERESTRING,
}


_NOT_LISTED = "is not listed"


def missed(call: DeniedCall, miss: Miss, *, fault: str = _NOT_LISTED) -> Seen | None:
    """Return the first command that no rule fits for this reason, at the word that shows it.

    `fault` is what a class knows better of a name that is not listed.
    """
    found = call.misses.get(miss)
    if found is None:
        return None
    part, (_, at, hint, _, _) = found
    facets = harm(part.words) if miss is Miss.WORDS or miss is Miss.PROGRAM else ()
    hint = hint if fault is _NOT_LISTED else hint.replace(_NOT_LISTED, fault, 1)
    return new(Seen, (call.word(part, at), hint, facets, False))


ALONE = "Run `{alone}` alone"  # how many cures begin


def redirected(call: DeniedCall, *wanted: RedirectKind) -> Seen | None:
    """The first redirect of these kinds that the policy does not open, or not to that file."""
    for redirect in call.shell.redirects:
        if redirect.kind in wanted and not call.opens(redirect):
            return new(Seen, (redirect.span, "", (), False))
    return None


def fed(call: DeniedCall, *, to_file: bool) -> Seen | None:
    """The first here-document that goes into a file, or to a program."""
    shell = call.shell
    by_place = {one.span[:2]: each for each in shell.commands for one in each.redirects}
    behind = {a.extent: b for line in shell.pipelines for a, b in pairwise(line)}
    for redirect in shell.redirects:
        if redirect.kind in _HERE and not call.opens(redirect):
            fed = by_place.get(redirect.span[:2])
            target = _into(call, fed, behind.get(fed.extent)) if fed else "into-program"
            if (not target) is to_file:
                return Seen(redirect.span, facets=(target,) if target else ())
    return None


_HERE = (RedirectKind.HEREDOC, RedirectKind.HERESTRING)


def _into(call: DeniedCall, fed: Command, behind: Command | None) -> str:
    """Return what a here-document of this command feeds, as a facet; "" for a file."""
    kinds = {redirect.kind for redirect in fed.redirects}
    if fed.program in {"cat", ""}:
        if RedirectKind.FILE in kinds:
            return ""
        fed = behind or fed
    if fed.program == "tee":
        return ""
    rules, root = call.policy.bash, call.world.root
    if fed.argv and rules.admits(fed.argv, fed.words.dynamic, root=root):
        return "into-listed"
    at = after_runner(fed.argv)
    is_code = at < len(fed.argv) and interpreter(fed.argv[at])
    return "into-interpreter" if is_code else "into-program"
