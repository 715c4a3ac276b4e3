"""A denied call with all that the failure classes ask about it."""

import json
import re
import unicodedata
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
        if self.call.command is not None and (residue(self.text) or typographic(self.text)):
            signs.append("residue")
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


_MARK = (
    r"(?:</?(?:tool_call|tool_response|function|parameter|invoke|think|s)(?:=[\w.-]+)?>"
    r"|<\|\w+\|>|\[/?TOOL_CALLS?\])"
)
_BEFORE = re.compile(
    rf"\s*+(?:```\w*|\$[ \t]+(?=\S)|{_MARK}|\{{\s*+\"(?:command|cmd|name|arguments)\"\s*+:)"
)
_BEHIND = re.compile(rf"(?:{_MARK}|```)\s*\Z")
_LONGEST_TOKEN = 80


def residue(text: str) -> tuple[int, int] | None:
    """Where marks of a template stand before or behind a command."""
    if text.lstrip()[:1] in _FIRST and (found := _BEFORE.match(text)):
        start = found.end() - len(found[0].lstrip())
        return start, start + len(found[0].strip())
    if text.rstrip()[-1:] in _LAST and (
        found := _BEHIND.search(text, max(len(text.rstrip()) - _LONGEST_TOKEN, 0))
    ):
        return found.start(), found.start() + len(found[0].rstrip())
    return None


_FIRST, _LAST = frozenset("`$<[{"), frozenset("`>]")
_QUOTED = re.compile(r"'[^']*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
_TYPOGRAPHIC = re.compile(
    "(?<=\\s)[\u2010-\u2015\u2212]+(?=[A-Za-z])|[\u200b-\u200d\u2060\ufeff]+"
    "|[\u00a0\u2000-\u200a\u202f\u3000]+|[\u201c\u201d]|(?<!\\w)[\u2018\u2019]"
)


def typographic(text: str) -> tuple[int, int] | None:
    """Where a typographic character stands outside quotes, in place of a plain one."""
    if text.isascii():
        return None
    bare = _QUOTED.sub(lambda found: "_" * len(found[0]), text)
    found = _TYPOGRAPHIC.search(bare)
    return found.span() if found else None


def without_residue(text: str) -> str:
    """The command that stands between marks of a template, or in the JSON of the call."""
    while found := residue(text):
        if text.startswith("{", found[0]):
            return _in_json(text)
        text = (text[: found[0]] + text[found[1] :]).strip()
    return text


def _in_json(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    found = found.get("arguments", found)
    found = found.get("command", found.get("cmd", "")) if isinstance(found, dict) else ""
    return found if isinstance(found, str) else ""


_PLAIN = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}


def untyped(text: str) -> str:
    """The command with plain characters in place of typographic ones."""
    while found := typographic(text):
        one = text[found[0]]
        kind = unicodedata.category(one)
        plain = _PLAIN.get(one) or {"Pd": "--", "Zs": " ", "Sm": "--"}.get(kind, "")
        if one in _PLAIN:
            found = (found[0], found[0] + 1)
        text = text[: found[0]] + plain + text[found[1] :]
    return text


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
