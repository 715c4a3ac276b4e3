"""A failure class: a function that looks at a denied call, with the texts that it carries.

In order: the class and the decorator that makes one; sentences; faults of a text as such (marks
of a template, typographic characters, what is left open); `DeniedCall`, with all that the
classes use of a call; evidence that several classes look for.
"""

import inspect
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import compress, pairwise
from operator import itemgetter
from types import ModuleType
from typing import Any, NamedTuple

from agenteval.policy.command_lines import normalise
from agenteval.policy.mismatch import Miss, Missed, Part
from agenteval.policy.policy import READ, WRITE, Policy, World, admits_redirect
from agenteval.policy.rules import MOVES, changes_folder
from agenteval.shell.facts import Command, Redirect, RedirectKind, ShellFacts, without_heredocs
from agenteval.shell.gate import NotSimple, Obstacle, Place, Span, compiled, names, new
from agenteval.shell.leaves import CONSTRUCT_OF, Construct
from agenteval.shell.programs import after_runner, harm, interpreter, is_familiar
from agenteval.trial.call import BASH, ToolCall


class ArticleRow(StrEnum):
    """The eleven rows of the published table, in its order."""

    FILTERS = "pipe to head / tail / grep / jq / sed"
    STDERR = "stderr redirect (2>&1, 2>/dev/null)"
    CHAIN = "shell chain (&&, or-fallbacks)"
    HEREDOC = "heredoc into uv run / python"
    TIMEOUT = "`timeout N uv run ...` prefix"
    BINARY = "bare disallowed binary (ls, head, cat, find)"
    CODE = '`uv run python -c "..."`'
    SCRIPT = "`uv run` of a script not on the allow list"
    OTHER = "other bash (argument quoting, complex uv run)"
    PATH = "read tool with a blocked path"
    TOOL = "hallucinated tool name"


class Seen(NamedTuple):
    """The part of a call that shows a class. `hint` says what is wrong where the title does not.

    `despite` says that it is closed even where the policy allows the construct as such.
    """

    span: Span
    hint: str = ""
    facets: tuple[str, ...] = ()
    despite: bool = False


Look = Callable[["DeniedCall"], Seen | None]


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One entry of the taxonomy. `cure` is how such a call is mended (`judge.Ways`).

    Where it speaks of the listed command inside the denied one, `cure_in_general` does not.
    `construct` is what a policy may allow by name: where it does, only what is closed
    `despite` that is seen. `seen_in` names the signs (`DeniedCall.signs`) of which a call must bear
    one for `look` to see anything; without it every call is looked at. `rest` marks the class that
    takes what no other explains. `slip` makes a call of this class out of a right command, `{}`
    (`{quoted}` within single quotes), for scenarios that invite it; "" where only the world can say
    how. `after` are the files that the model wrote before the examples.
    """

    id: str
    title: str
    rationale: str
    bad: tuple[ToolCall, ...]
    good: tuple[ToolCall, ...]
    look: Look
    cure: str = ""
    construct: Construct | None = None
    seen_in: frozenset[str] = frozenset()
    rest: bool = False
    cure_in_general: str = ""
    slip: str = ""
    article: ArticleRow = ArticleRow.OTHER
    after: tuple[str, ...] = ()


def failure_class(  # noqa: PLR0913 -- a class has that many texts, each named where it is given
    *,
    bad: Sequence[str | ToolCall],
    good: Sequence[str | ToolCall],
    cure: str = "",
    construct: Construct | None = None,
    seen_in: Collection[str] = (),
    rest: bool = False,
    slip: str = "",
    article: ArticleRow = ArticleRow.OTHER,
    after: Sequence[str] = (),
) -> Callable[[Look], FailureClass]:
    """Make a failure class of the function below it: id, title and rationale are its own."""

    def block(look: Look) -> FailureClass:
        title, _, rationale = inspect.cleandoc(look.__doc__ or "").partition("\n\n")
        return FailureClass(
            id=look.__name__.replace("_", "-"),
            title=title,
            rationale=rationale,
            bad=tuple(map(_call, bad)),
            good=tuple(map(_call, good)),
            look=look,
            cure=cure,
            cure_in_general=cure.replace("`{alone}`", "one listed command"),
            construct=construct,
            seen_in=frozenset(seen_in),
            rest=rest,
            slip=slip,
            article=article,
            after=tuple(after),
        )

    return block


def classes_of(family: ModuleType) -> tuple[FailureClass, ...]:
    """The classes of one module, in the order of its source."""
    return tuple(value for value in vars(family).values() if isinstance(value, FailureClass))


def tool(name: str, **arguments: Any) -> ToolCall:
    """A call as an example gives it."""
    return ToolCall("", name, json.dumps(arguments), arguments)


def malformed(name: str, raw: str) -> ToolCall:
    """A call whose argument text is no JSON object, as an example gives it."""
    return ToolCall("", name, raw, None, "not a JSON object")


def _call(example: str | ToolCall) -> ToolCall:
    return tool(BASH, command=example) if isinstance(example, str) else example


# Sentences of hints.

FAULT = 80  # characters of what is wrong


@lru_cache(maxsize=1024)
def as_fault(text: str) -> str:
    """Return a fault in one line, without backquotes: what stands between those can be sent."""
    return cut(" ".join(text.replace("`", "'").split()), FAULT)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def joined(first: str, then: str = "") -> str:
    """Two sentences, the first of which may lack its end, or the one that there is."""
    if not (first and then):
        return first or then
    return f"{first} {then}" if first[-1] in ".?!:" else f"{first}. {then}"


# Faults of a text as such.

# What chat templates put around a call, and servers take away: elements, and tokens of a tokenizer.
_NAMED = (
    r"(?:\w{0,20}tool_\w{1,20}|\w{0,20}function\w{0,20}|invoke|param(?:eter)?s?|arg(?:ument)?s?"
    r"|arg_\w{1,20}|command|bash|think(?:ing)?|thought|reasoning|answer|escape"
    r"|(?:start|end)_of_\w{1,20}|bos|eos|pad|unk|0x[0-9A-F]{2}|s)"
)
_VALUES = r"(?:=[\w.-]{1,80})?(?:\s+[\w-]{1,20}=\"[^\"<>\n]{0,80}\")*"
_BAR = "[|\uff5c]"
_MARK = (
    rf"(?:</?(?:\w{{1,20}}[:|])?{_NAMED}{_VALUES}>|</?{_BAR}\w{{1,20}}{_BAR} ?\w{{1,20}}{_VALUES}>"
    rf"|<\|(?:open|close)\|>[^<>\n]{{0,80}}<\|sep\|>|<{_BAR}[^\s<>]{{1,80}}>|<\w{{3,40}}\|>"
    r"|\]<\]minimax\[>\[(?:</?[\w.-]+>)?|<!\[CDATA\[|\]\]>"
    r"|\[/?(?:TOOL_CALLS?|TOOL_RESULTS|ARGS|INST|THINK)\])"
)
_THOUGHT = (
    r"<(?P<thought>think(?:ing)?|thought|reasoning)>[^<]*+(?:<(?!/?(?P=thought)>)[^<]*+)*+"
    r"</(?P=thought)>"
)
_HOST = r"[\w.-]{1,40}@[\w.-]{1,60}"
_WHERE = rf"{_HOST}:[^\s'\"]{{0,99}}|\[{_HOST} [^\s\]]{{1,99}}\]|(?:ba)?sh-[0-9.]{{1,9}}"
_PROMPT = rf"(?:(?:{_WHERE})[$#]|[$%])[ \t]+(?=\S)"
_SHELL = r"\[\s*+\"(?:/\w{1,9}){0,3}/?(?:ba|z)?sh\"\s*+,"  # of a command as JSON's list of words
_BEFORE = compiled(
    rf"\s*+(?:(?:```|~~~)\w*|{_PROMPT}|{_THOUGHT}|{_MARK}|{_SHELL}"
    r"|\{\s*+\"(?:command|cmd|name|arguments)\"\s*+:)"
)
_BEHIND = compiled(rf"(?:(?:{_MARK}\}}?)+|```|~~~)\s*\Z")
# What stands for a value, apart from the word before it; some tokens look like it.
_PLACEHOLDER = compiled(r"[ \t](?:<(?!(?:s|bos|eos|pad|unk)>)[a-z]+>|\[ARGS\])")
_LONGEST_TOKEN = 120
_OF_JSON = compiled(
    r"\"(?:\s*+,\s*+\"\w{1,30}\"\s*+:\s*+(?:\"[^\"\n]*+\"|[\w.]++))*+\s*+\}{1,3}\s*+\]?\s*\Z"
)


def residue(text: str) -> tuple[int, int] | None:
    """Return the place of marks of a template before or behind a command, or None."""
    # The patterns are slow: the first and the last character tell most commands from marks.
    if text.lstrip()[:1] in _FIRST or _MORE.match(text):
        before = _BEFORE.match(text)
        if before:
            start = before.end() - len(before[0].lstrip())
            return start, start + len(before[0].strip())
    if text.rstrip()[-1:] in _LAST:
        behind = _BEHIND.search(text, _start_of_last_token(text))
        if behind:
            place = _place_of(behind)
            is_placeholder = _PLACEHOLDER.fullmatch(text, place[0] - 1, place[1])
            return None if is_placeholder else place
    return _json_behind(text)


def _json_behind(text: str) -> tuple[int, int] | None:
    """Return where the call's JSON goes on behind a command: it closes a quote that is not open."""
    if text.rstrip()[-1:] not in {"}", "]"}:
        return None
    match = _OF_JSON.search(text, _start_of_last_token(text))
    if match is None:
        return None
    before = text[: match.start()]
    if "{" in before or left_open(before) or not left_open(text):
        return None
    return _place_of(match)


def _start_of_last_token(text: str) -> int:
    return max(len(text.rstrip()) - _LONGEST_TOKEN, 0)


def _place_of(match: re.Match[str]) -> tuple[int, int]:
    """Return the place of what was matched, without the blanks behind it."""
    return match.start(), match.start() + len(match[0].rstrip())


_FIRST, _LAST = frozenset("`$<[{]~%"), frozenset("`>][~")
_MORE = compiled(r"\s*+[\w.-]{1,40}[@$#]")  # a prompt that begins with a name
# With escaped quotes: they begin nothing, and each would be looked behind to the end.
_QUOTED = compiled(r"\\['\"\\]|'[^']*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
_TYPOGRAPHIC = compiled(
    "(?<=\\s)[\u2010-\u2015\u2212]+(?=[A-Za-z])|[\u200b-\u200d\u2060\ufeff]+"
    "|[\u00a0\u2000-\u200a\u202f\u3000]+|[\u201c\u201d]|(?<!\\w)[\u2018\u2019]"
)


def typographic(text: str) -> tuple[int, int] | None:
    """Return the place of a typographic character outside quotes, or None."""
    if text.isascii():
        return None
    bare = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    match = _TYPOGRAPHIC.search(bare)
    return match.span() if match else None


def without_residue(text: str) -> str:
    """The command that stands between marks of a template, or in the JSON of the call."""
    while found := residue(text):
        if text.startswith(("{", '["'), found[0]):
            return _in_json(text)
        text = (text[: found[0]] + text[found[1] :]).strip()
    return text


def _in_json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        value = value.get("arguments", value)
    if isinstance(value, dict):
        value = value.get("command", value.get("cmd", ""))
    match value:
        case str():
            return value
        case [_, "-c" | "-lc", str(command)]:  # what a shell is given
            return command
    return ""


def plain_for(character: str) -> str:
    """Return the clause that says what should stand in place of a typographic character."""
    category = unicodedata.category(character)
    plain = {"Cf": "nothing", "Pd": "--", "Zs": "a plain blank"}.get(category, "' or \"")
    return f"stands where {plain} should"


_URL = compiled(r"(?<!\S)(?=[^\s&]*&)[a-z]+://[^\s'\"\\|;<>()$`]+(?!\S)")


def with_quoted_urls(text: str) -> str:
    """The command with each URL in quotes that an & would cut in two."""
    return _URL.sub(lambda found: f"'{found[0]}'", text)


_PLAIN = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}


def untyped(text: str) -> str:
    """Return the command with plain characters in place of typographic ones."""
    while place := typographic(text):
        start, end = place
        character = text[start]
        if character in _PLAIN:
            end = start + 1
            plain = _PLAIN[character]
        else:
            plain = _PLAIN_BY_CATEGORY.get(unicodedata.category(character), "")
        text = text[:start] + plain + text[end:]
    return text


_PLAIN_BY_CATEGORY = {"Pd": "--", "Zs": " ", "Sm": "--"}
_OPENS = {"if": "fi", "do": "done", "case": "esac", "{": "}", "[[": "]]", "(": ")", "$(": ")"}
_CLOSES = frozenset(_OPENS.values())
_GOES_ON = names("then else elif do while until if ! { ( $(")
_PIECE = compiled(
    r"\\(?s:.)|'[^']*+'|\"(?:[^\"\\]++|\\(?s:.))*+\"|`[^`]*+`|(?<!\S)#[^\n]*+"
    r"|(?P<quote>['\"`])|(?P<joint>[;&|\n]++)|(?P<bracket>\$?\(|\))|(?P<word>[^\s;&|()'\"`\\]++)"
)


def left_open(text: str) -> str:
    """Return what is never closed in a text, or closes what nothing began, or ""."""
    opened: list[str] = []
    is_start = True  # of a command
    for piece in _PIECE.finditer(without_heredocs(text)[0]):
        mark = piece["word"] or piece["bracket"] or ""
        if piece["quote"]:
            return f"{piece['quote'].replace('`', 'a backquote')} is never closed"
        is_keyword = bool(piece["bracket"]) or is_start or mark in {"]]", "}", "do"}
        if is_keyword and mark in _CLOSES and not (mark == ")" and opened[-1:] == ["case"]):
            if not opened:
                return f"{mark} closes nothing"
            if _OPENS[opened[-1]] != mark:
                break
            opened.pop()
        elif is_keyword and mark in _OPENS:
            opened.append(mark)
        is_start = bool(piece["joint"]) or mark in _GOES_ON or mark == ")"
    return f"{opened[-1]} is never closed by {_OPENS[opened[-1]]}" if opened else ""


# A denied call.


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
        files = self.world.files
        if files is None:
            files = self.policy.files
            if not files or path in self.policy.bash.listed:
                return "there"
        return "there" if path in files else "nowhere"

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
            CONSTRUCT_OF[redirect.kind] in self.policy.bash.constructs
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
        facets: set[str] = set()
        for part in self.parts:
            if not part.admitted:
                facets.update(harm(part.words))
        return tuple(facet for facet in _HARMS if facet in facets)

    @property
    def move(self) -> Span | None:
        """The change of folder that no construct allows together with other commands."""
        if not self.policy.bash.constructs or len(self.parts) == 1:
            return None
        shell, stop = self.shell, self.stop
        beside = shell.chains or shell.pipelines or shell.background or shell.substitutions
        if not beside and not (stop and stop.reason is Obstacle.OPERATOR):
            return None  # it stays in a shell of its own: sh -c 'cd x'
        for part in self.parts:
            if changes_folder(part.argv):
                return self.words(part)
        return None

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

# Evidence.

_NOT_LISTED = "is not listed"


def missed(
    call: DeniedCall,
    miss: Miss,
    *,
    fault: str = _NOT_LISTED,
) -> Seen | None:
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
    reader_by_place: dict[Place, Command] = {}
    for command in shell.commands:
        for redirect in command.redirects:
            reader_by_place[redirect.span[:2]] = command
    next_by_extent: dict[Place, Command] = {}
    for pipeline in shell.pipelines:
        next_by_extent.update((before.extent, after) for before, after in pairwise(pipeline))
    for redirect in shell.redirects:
        if redirect.kind not in _HERE or call.opens(redirect):
            continue
        facet = "into-program"
        if reader := reader_by_place.get(redirect.span[:2]):
            facet = _into(call, reader, next_by_extent.get(reader.extent))
        if (not facet) is to_file:
            return Seen(redirect.span, facets=(facet,) if facet else ())
    return None


_HERE = (RedirectKind.HEREDOC, RedirectKind.HERESTRING)


def _into(call: DeniedCall, reader: Command, behind: Command | None) -> str:
    """Return what a here-document of this command feeds, as a facet; "" for a file."""
    if reader.program in {"cat", ""}:
        if any(redirect.kind is RedirectKind.FILE for redirect in reader.redirects):
            return ""
        reader = behind or reader
    if reader.program == "tee":
        return ""
    argv = reader.argv
    rules, root = call.policy.bash, call.world.root
    if argv and rules.admits(argv, reader.words.dynamic, root=root):
        return "into-listed"
    at = after_runner(argv)
    is_code = at < len(argv) and interpreter(argv[at])
    return "into-interpreter" if is_code else "into-program"
