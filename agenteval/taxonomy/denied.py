"""A denied call with all that the failure classes ask about it."""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from agenteval.core.call import ToolCall
from agenteval.core.policy.bash import changes_folder
from agenteval.core.policy.mismatch import Miss, Missed, Part
from agenteval.core.policy.patterns import normalise
from agenteval.core.policy.policy import (
    Policy,
    World,
    admits_redirect,
)
from agenteval.core.shell.facts import Redirect, RedirectKind, ShellFacts
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.simple_command import NotSimple, Obstacle
from agenteval.core.span import Span, new
from agenteval.taxonomy.failure_class import Seen


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

    def _may_exist(self, missed: Missed) -> bool:
        """Whether the world has such a script, or nobody says which files it has."""
        part, at = missed.part, missed.mismatch.at
        path = normalise(part.argv[at], self.world.root)
        if path is None or at in part.words.dynamic:
            return True
        if self.world.files is not None:
            return path in self.world.files
        files = self.policy.files
        return not files or path in files or path in self.policy.bash.listed

    def words(self, part: Part) -> Span:
        """The words of a command, from the first to the last."""
        return self.span(*part.words.extent)

    def word(self, part: Part, at: int) -> Span:
        """A word of a command; the last one when there are not so many."""
        start, end = part.words.place(min(at, len(part.argv) - 1) if at else 0)
        return new(Span, (start, end, self.text[start:end]))

    def opens(self, redirect: Redirect) -> bool:
        """Whether the policy opens such redirects, and to that file."""
        return (
            _CONSTRUCTS[redirect.kind] in self.policy.bash.constructs
            and bool(self.parts)  # without a command no redirect is admitted
            and not (self.stop and redirect.span.start <= self.stop.start < redirect.span.end)
            and admits_redirect(redirect, self.policy, self.world)
        )

    @property
    def signs(self) -> frozenset[str]:
        """What there is in the call, for a class to be seen in: most classes need no closer look.

        The fields of the facts that hold something and the kinds in two of them; the reasons for
        which a part is missed, and for which the reader stopped, or the operator where it did; and
        some names of our own.
        """
        signs = self._signs_of_shell() if self.shell.text else []
        signs += self.misses
        if Miss.SCRIPT in self.misses:
            signs.append("there" if self._may_exist(self.misses[Miss.SCRIPT]) else "nowhere")
        for part in self.parts:
            if part.via:
                signs.append("wrapped")
            if part.code or part.program == "eval":
                signs.append("code")
        if self.stop:
            reason, at = self.stop
            signs.append(self.text[at : at + 1] if reason is Obstacle.OPERATOR else reason)
        if self.objection:
            signs.append("objection")
        if not self.is_only_a_command:
            signs.append("call")
        return frozenset(signs)

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

    @property
    def move(self) -> Span | None:
        """The change of folder that no construct allows beside other commands."""
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


_FIELDS = ShellFacts._fields
_KIND = itemgetter(0)
_CONSTRUCTS = {
    RedirectKind.STDERR: Construct.STDERR_REDIRECT,
    RedirectKind.FILE: Construct.FILE_REDIRECT,
    RedirectKind.INPUT: Construct.INPUT_REDIRECT,
    RedirectKind.HEREDOC: Construct.HEREDOC,
    RedirectKind.HERESTRING: Construct.HERESTRING,
}


ALONE = "Run `{alone}` alone"  # how many cures begin


def redirected(call: DeniedCall, *wanted: RedirectKind) -> Seen | None:
    """The first redirect of these kinds that the policy does not open, or not to that file."""
    for redirect in call.shell.redirects:
        if redirect.kind in wanted and not call.opens(redirect):
            return new(Seen, (redirect.span, "", (), False))
    return None
