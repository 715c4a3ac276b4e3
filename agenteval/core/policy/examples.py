"""The shortest calls that a policy allows: what a hint can show of each rule, word for word."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import NamedTuple

from agenteval.core.call import BASH, ToolCall
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.command_line import Argument, CommandLine, Kind
from agenteval.core.policy.patterns import CommandPattern, WordPattern
from agenteval.core.policy.policy import Policy, World, allows, open_path
from agenteval.core.shell.words import quoted

SHOWN = 100  # characters of one call
_LISTED = 3
_LINE = 85  # characters of listed calls
_MOST = 200  # calls of a policy; a list that allows more shows the first
_VALUES = {Kind.INT: "1", Kind.FLOAT: "1", Kind.JSON: "{}", Kind.PATH: "FILE"}


class _Example(NamedTuple):
    """A call of bash that is allowed as it stands; `rule` numbers the rule that it is of."""

    argv: tuple[str, ...]
    text: str
    rule: int
    of_script: bool


@lru_cache(maxsize=64)
def examples(policy: Policy, world: World) -> tuple[_Example, ...]:
    """Return an example for each rule for bash and each sub-command of a script.

    Words in capitals stand for values.
    """
    if BASH not in policy.tools:
        return ()
    calls = islice(_calls(policy, world.files or policy.files), _MOST)
    plain = len(policy.bash.patterns)
    candidates = (
        _Example(tuple(argv), " ".join(map(quoted, argv)), rule, rule >= plain)
        for rule, argv in calls
    )
    return tuple(each for each in candidates if allowed(policy, world, BASH, command=each.text))


@lru_cache(maxsize=64)
def readable(policy: Policy, world: World) -> str:
    """A file that is there and may be read; "" where none is known."""
    known = sorted(world.files or policy.files)
    named = (path for path in policy.read.allow if "*" not in path)
    return next((path for path in (*known, *named) if allowed(policy, world, READ, path=path)), "")


def allowed(policy: Policy, world: World, tool: str, **arguments: str) -> bool:
    """Return True if the policy has the tool and allows this call of it."""
    return tool in policy.tools and allows(ToolCall("", tool, "", arguments), policy, world)


def opens(policy: Policy, world: World, tool: str, path: str) -> bool:
    """Return True if the policy has a file tool and opens this path to it."""
    rule, rules = policy.tools.get(tool), policy.paths(tool)
    if rule and rules and policy.engine is None and not rule.schema:
        return open_path(path, tool, rules, world) is not None
    content = {"content": ""} if tool == WRITE else {}
    return allowed(policy, world, tool, path=path, **content)


def listed(policy: Policy, world: World, argv: Sequence[str] = ()) -> str:
    """Return a sentence with allowed calls, those first that begin as `argv` does."""
    return _listings(policy, world).sentence(argv)


class _Listings:
    """Sentences about the allowed calls of one policy in one `World`."""

    def __init__(self, policy: Policy, world: World) -> None:
        self._policy, self._world = policy, world
        self._examples = examples(policy, world)
        self._sentences: dict[tuple[str, ...], str] = {}  # by the words that calls begin with
        for argv in ((), *(each.argv for each in self._examples)):
            for end in range(len(argv) + 1):
                self._sentences[argv[:end]] = ""

    def sentence(self, argv: Sequence[str]) -> str:
        """Return a sentence with those calls first that begin as `argv` does."""
        sentences = self._sentences
        begun: tuple[str, ...] = ()
        for end in range(1, len(argv) + 1):
            begins = tuple(argv[:end])
            if begins not in sentences:
                break
            begun = begins
        sentences[begun] = sentences[begun] or self._compose(begun)
        return sentences[begun]

    def _compose(self, argv: Sequence[str]) -> str:
        texts = [each.text for each in nearest(self._examples, argv)]
        printable = [text for text in texts if text.isprintable() and "`" not in text]
        if printable:
            calls = [""]
            for text in printable:
                if len(calls) <= _LISTED and len("".join((*calls, text))) <= _LINE:
                    calls.append(f"`{text}`")
            return f"Allowed {_words(calls[1:] or [f'`{min(printable, key=len)}`'])}."
        if path := readable(self._policy, self._world):
            return f"Read `{path}` with the read tool: bash may run nothing here."
        others = ", ".join(tool for tool in self._policy.tools if tool != BASH)
        return f"No call of bash is known to be allowed{f': use {others}' if others else ''}."


_listings = lru_cache(maxsize=64)(_Listings)


def _words(calls: Sequence[str]) -> str:
    *others, last = calls
    return f"are {', '.join(others)} and {last}" if others else f"is {last}"


def nearest(candidates: Sequence[_Example], argv: Sequence[str]) -> list[_Example]:
    """Return the examples that begin as `argv` does.

    Without any, return one of each rule, of programs and scripts in turn.
    """
    agreeing = [_agreeing(each.argv, argv) for each in candidates]
    best = max(agreeing, default=0)
    if best:
        return [each for each, agrees in zip(candidates, agreeing, strict=True) if agrees == best]
    firsts = list({each.rule: each for each in reversed(candidates)}.values())[::-1]
    kinds = [[each for each in firsts if each.of_script is kind] for kind in (False, True)]
    return [each for both in zip_longest(*kinds) for each in both if each]


def _agreeing(words: Sequence[str], argv: Sequence[str]) -> int:
    for number, (word, other) in enumerate(zip(words, argv, strict=False)):
        if word != other:
            return number
    return min(len(words), len(argv))


def _calls(policy: Policy, files: Collection[str]) -> Iterator[tuple[int, Sequence[str]]]:
    known = sorted(files)
    for number, pattern in enumerate(policy.bash.patterns):
        yield number, _of_pattern(pattern, known)
    for number, script in enumerate(policy.bash.scripts, len(policy.bash.patterns)):
        for words in _of_line(script.line):
            yield number, (*script.runner, script.path, *words)


def _of_pattern(pattern: CommandPattern, files: Sequence[str]) -> list[str]:
    words = [_word(word, files) for word in pattern.words]
    if pattern.rest is None or pattern.fewest == len(words):
        return words
    return [*words, _word(pattern.rest, files)]


def _word(word: WordPattern, files: Sequence[str]) -> str:
    if not word.wild:
        return word.text
    return next(filter(word.matches, files), word.text.replace("*", "NAME"))


def _of_line(line: CommandLine) -> Iterator[list[str]]:
    """Yield the required words and no more, once for each sub-command."""
    words = list(_required(line))
    if line.command_optional or not line.commands:
        yield words
    for name, command in line.commands.items():
        for further in _of_line(command):
            yield [*words, name, *further]


def _required(line: CommandLine) -> Iterator[str]:
    names = {each.name for each in line.own_options() if each.required}
    for group in line.groups:
        if group.required and names.isdisjoint(group.names):
            names.add(group.names[0])
    for option in line.own_options():
        if option.name in names:
            yield option.name
            if option.kind is not Kind.FLAG:
                yield from [_value(option)] * max(option.fewest, 1)
    for positional in line.positionals:
        yield from [_value(positional)] * positional.fewest


def _value(argument: Argument) -> str:
    if argument.choices:
        return argument.choices[0]
    return _VALUES.get(argument.kind) or argument.name.strip("-+/").upper()


def fits(text: str) -> bool:
    """Return True if the text can stand between backquotes in a line."""
    return bool(text) and len(text) <= SHOWN and text.isprintable() and "`" not in text


def shortened(text: str) -> str:
    """Return a command of the model, or its beginning if it cannot be shown whole."""
    if fits(text):
        return text
    whole = _UNSHOWN.split(text[:SHOWN], maxsplit=1)[0]
    return f"{whole}\N{HORIZONTAL ELLIPSIS}"


_UNSHOWN = re.compile(r"[`\x00-\x1f\x7f-\xa0\ud800-\udfff]")
