"""The reason why a policy denies a command, and the calls that it would allow.

`mismatch` says of one command which word no rule fits. `take` judges each command of a text, as
`Part`, and collects what is missed. `examples` are the shortest calls that a policy allows, from
which `listed` makes the sentence that a hint ends with.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain, islice, takewhile, zip_longest
from operator import attrgetter
from typing import NamedTuple

from agenteval.policy.command_lines import (
    Argument,
    Argv,
    CommandLine,
    CommandPattern,
    Dynamic,
    Kind,
    WordPattern,
    normalise,
)
from agenteval.policy.parsers import misuse
from agenteval.policy.policy import READ, WRITE, Policy, World, allows, open_path
from agenteval.policy.rules import BashRules, stem
from agenteval.shell.facts import Command, Words
from agenteval.shell.gate import NEEDS_CARE, Simple, names, new, quoted
from agenteval.shell.programs import after_runner, code_at, is_familiar, only_itself, script_at
from agenteval.trial.call import BASH, ToolCall


class Miss(StrEnum):
    """The part of a command that no rule allows."""

    PROGRAM = "program"
    SCRIPT = "script"
    RUNNER = "runner"
    OPTION = "option"
    COMMAND = "sub-command"
    VALUE = "value"
    WORDS = "words"


class _Mismatch(NamedTuple):
    """The reason why no rule fits, and the word where it fails.

    The place is one past the last word if some are missing. `instead` may stand in place of the
    words from `since` to that one; "" where nothing is like it.
    """

    miss: Miss
    at: int
    hint: str
    since: int = 0
    instead: str = ""


# Agents know few programs.
@lru_cache(maxsize=1024)
def unlisted(rules: BashRules, program: str) -> _Mismatch:
    """Return the mismatch of a command that is strange to the rules."""
    return _unlisted(rules, Miss.PROGRAM, 0, program)


def mismatch(
    rules: BashRules,
    argv: Argv,
    dynamic: Dynamic = (),
    *,
    root: str = "/workspace",
) -> _Mismatch:
    """Return the reason why the command, which `rules.admits` denied, is denied."""
    rule = rules.denial(argv, dynamic)
    if rule and (rule.names(argv) or rules.fits(argv, dynamic, root)):
        return _Mismatch(Miss.WORDS, 0, f"{rule.text} is denied, whatever else is allowed")
    if not only_itself(argv[0]):
        at = script_at(argv)
        if at is not None:
            return _script_mismatch(rules, argv, at, dynamic, root)
        inner = after_runner(argv)
        if inner and inner < len(argv):
            script = _start_of_script(rules, argv, inner, root)
            return script or _unlisted(rules, Miss.PROGRAM, inner, argv[inner])
    nearest_rule = _nearest_rule(rules.rules_for(argv[0]), argv, dynamic)
    return nearest_rule or _nearest_runner(rules, argv) or unlisted(rules, argv[0])


def _script_mismatch(
    rules: BashRules,
    argv: Argv,
    at: int,
    dynamic: Dynamic,
    root: str,
) -> _Mismatch:
    path = argv[at]
    starts = rules.listed.get(normalise(path, root) or path, ())
    if not starts:
        return _start_of_script(rules, argv, at, root) or _unlisted(rules, Miss.SCRIPT, at, path)
    script = rules.script(tuple(argv[:at]), path, root)
    wrong = script and misuse(script.line, argv, at + 1, dynamic=dynamic, root=root)
    if wrong:
        miss = Miss(wrong.kind.value) if wrong.kind else Miss.WORDS
        word = argv[wrong.at] if wrong.near else ""
        instead = word.replace(wrong.invented, wrong.near, 1)
        return _Mismatch(miss, wrong.at, wrong.hint, wrong.at, instead)
    patterns = rules.rules_for(argv[0])
    near = [rule for rule in patterns if rule.agreeing(argv, dynamic) > at]
    return _nearest_rule(near, argv, dynamic) or _other_start(starts, at)


def _start_of_script(
    rules: BashRules,
    argv: Argv,
    at: int,
    root: str,
) -> _Mismatch | None:
    """Return the mismatch of a listed script whose path lacks only its ending here, or None."""
    path = normalise(argv[at], root) or argv[at]
    starts = rules.listed.get(f"{path}.py")
    return _other_start(starts, at) if starts else None


def _other_start(starts: Sequence[str], at: int) -> _Mismatch:
    if starts[0].split()[-1].startswith(("/", "../")):
        return _Mismatch(Miss.RUNNER, at, "no script outside the workspace may run")
    return _Mismatch(Miss.RUNNER, at, f"it is called as {starts[0]}", 0, starts[0])


def _nearest_rule(
    patterns: Sequence[CommandPattern], argv: Argv, dynamic: Dynamic
) -> _Mismatch | None:
    if not patterns:
        return None
    agreeing = [rule.agreeing(argv, dynamic) for rule in patterns]
    at = max(agreeing)
    best = patterns[agreeing.index(at)]
    hint = f"the rule is {best.text}" if best.wild else "it is listed with other words"
    if at in dynamic:
        hint = f"quote {argv[at]} or write it out: bash would expand it"
    elif best.wild and argv[0] in NEEDS_CARE:
        at, hint = 0, f"no rule with a star opens {argv[0]}"
    return _Mismatch(Miss.WORDS, at, hint)


def _nearest_runner(rules: BashRules, argv: Argv) -> _Mismatch | None:
    """A command that begins as the calls of scripts do, but names none: `uv pip install`."""
    script = rules.by_first_word.get(argv[0])
    if script is None:
        return None
    at = sum(a == b for a, b in zip(script.runner, argv, strict=False))
    return _Mismatch(Miss.WORDS, at, f"the rule is {script.start}")


def _unlisted(
    rules: BashRules,
    miss: Miss,
    at: int,
    program: str,
) -> _Mismatch:
    """Return the mismatch of what is not listed, with the script that its name may mean."""
    fault = f"{program} is not listed"
    near = "" if is_familiar(program) else rules.stems.nearest(stem(program))
    if not near:
        return _Mismatch(miss, at, fault)
    instead = rules.by_stem[near]
    return _Mismatch(miss, at, f"{fault}: did you mean {instead}?", 0, instead)


# The commands of a text.

# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = names(
    "builtin command coproc doas env exec ionice nice nohup setsid stdbuf sudo time timeout"
    " unbuffer"
)
_VIA = attrgetter("via")


class Part(NamedTuple):
    """One command of the text and how the policy takes it.

    `code` is the place of the option that makes an interpreter in it run code from a word.
    """

    words: Words | Simple
    program: str
    code: int | None
    admitted: bool
    via: tuple[str, ...] = ()
    nested: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return self.words.argv


class Missed(NamedTuple):
    """A part that a rule should fit and none does, and why.

    No part that another stands for is missed: a wrapper, or what a listed script's runner runs.
    """

    part: Part
    mismatch: _Mismatch


class _Parts(NamedTuple):
    """The parts of a text; for each reason to miss a part, the first that is missed so."""

    parts: Sequence[Part]
    misses: Mapping[Miss, Missed]


def take_simple(
    gate: Simple,
    rules: BashRules,
    root: str,
    *,
    fits: bool | None = None,
) -> _Parts:
    """Return the parts of a text that the gate read as one command, which wraps no other.

    `fits` says whether a rule does, where that is known already.
    """
    misses: dict[Miss, Missed] = {}
    return new(_Parts, ([_take(gate, rules, root, misses, fits=fits)], misses))


def take(commands: Sequence[Command], rules: BashRules, root: str) -> _Parts:
    """Take every command with words in it. Of a wrapped one the inner must fit the rules."""
    cores = None
    if len(commands) > 1 and any(map(_VIA, commands)):
        cores = _cores(commands)
    parts: list[Part] = []
    misses: dict[Miss, Missed] = {}
    for number, (words, _, _, _, via, nested) in enumerate(commands):
        if words.first or words:
            is_core = cores is None or number in cores
            parts.append(_take(words, rules, root, misses, via=via, nested=nested, is_core=is_core))
    return new(_Parts, (parts, misses))


def _take(  # noqa: PLR0913 -- what a Part holds, who takes it, and what is missed
    words: Words | Simple,
    rules: BashRules,
    root: str,
    misses: dict[Miss, Missed],
    *,
    via: tuple[str, ...] = (),
    nested: bool = False,
    is_core: bool = True,
    fits: bool | None = None,
) -> Part:
    program = words.first
    if rules.is_strange(program):
        part = new(Part, (words, program, None, False, via, nested))
        if is_core and Miss.PROGRAM not in misses:
            misses[Miss.PROGRAM] = new(Missed, (part, unlisted(rules, program)))
        return part
    argv, dynamic = words.argv, words.dynamic
    code = None if only_itself(program) else code_at(argv)
    admitted = rules.admits(argv, dynamic, root=root) if fits is None else fits
    part = new(Part, (words, program, code, admitted, via, nested))
    if is_core and not admitted and code is None:
        reason = mismatch(rules, argv, dynamic, root=root)
        misses.setdefault(reason.miss, new(Missed, (part, reason)))
    return part


def _cores(commands: Sequence[Command]) -> Collection[int]:
    cores: list[int] = []
    for number, command in enumerate(commands):
        if not command.words:
            continue
        if not command.via:
            cores.append(number)
        elif cores and PREFIXES.issuperset(command.via):
            cores[-1] = number
    return set(cores)


def reached(parts: Sequence[Part], text: str) -> Iterator[Part]:
    """Yield the commands of a text but those that never run: behind `true ||` and `false &&`."""
    never = program = ""
    end = 0
    for part in parts:
        start, stop = part.words.extent
        # Else it stands inside the one before.
        if start >= end:
            joint = text[end:start].strip()
            is_never = joint and joint in (never, _NEVER_BEHIND.get(program))
            never = joint if is_never else ""
            program, end = part.program, stop
        if not never:
            yield part


_NEVER_BEHIND = {"true": "||", ":": "||", "false": "&&"}

# Calls that are allowed.

# Characters of one call.
SHOWN = 100
_LISTED = 3
# Characters of listed calls.
_LINE = 85
# Calls of a policy; a list that allows more shows the first.
_MOST = 200
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
    first_of_script = len(policy.bash.patterns)
    allowed_calls = []
    for rule, argv in islice(_calls(policy, world.files or policy.files), _MOST):
        text = " ".join(map(quoted, argv))
        if allowed(policy, world, BASH, command=text):
            of_script = rule >= first_of_script
            allowed_calls.append(_Example(tuple(argv), text, rule, of_script))
    return tuple(allowed_calls)


@lru_cache(maxsize=64)
def readable(policy: Policy, world: World) -> str:
    """Return a file that is there and may be read; "" where none is known."""
    paths = sorted(world.files or policy.files)
    paths += [path for path in policy.read.allow if "*" not in path]
    return next((path for path in paths if allowed(policy, world, READ, path=path)), "")


def allowed(policy: Policy, world: World, tool: str, **arguments: str) -> bool:
    """Return True if the policy has the tool and allows this call of it."""
    return tool in policy.tools and allows(ToolCall("", tool, "", arguments), policy, world)


def opens(
    policy: Policy,
    world: World,
    tool: str,
    path: str,
) -> bool:
    """Return True if the policy has a file tool and opens this path to it."""
    rule, rules = policy.tools.get(tool), policy.paths(tool)
    if rule and rules and policy.engine is None and not rule.schema:
        return open_path(path, tool, rules, world) is not None
    content = {"content": ""} if tool == WRITE else {}
    return allowed(policy, world, tool, path=path, **content)


def listed(policy: Policy, world: World, argv: Argv = ()) -> str:
    """Return a sentence with allowed calls, those first that begin as `argv` does."""
    beginnings = _beginnings(policy, world)
    end = 0
    while end < len(argv) and tuple(argv[: end + 1]) in beginnings:
        end += 1
    return _sentence(policy, world, tuple(argv[:end]))


@lru_cache(maxsize=64)
def _beginnings(policy: Policy, world: World) -> Collection[tuple[str, ...]]:
    """Return the words that examples begin with, one word and more."""
    beginnings: set[tuple[str, ...]] = set()
    for argv, *_ in examples(policy, world):
        beginnings.update(argv[:end] for end in range(1, len(argv) + 1))
    return beginnings


@lru_cache(maxsize=1024)
def _sentence(policy: Policy, world: World, argv: Argv) -> str:
    texts = [example.text for example in nearest(examples(policy, world), argv)]
    printable = [text for text in texts if text.isprintable() and "`" not in text]
    if printable:
        return f"Allowed {_words(_that_fit(printable))}."
    if path := readable(policy, world):
        return f"Read `{path}` with the read tool: bash may run nothing here."
    others = ", ".join(tool for tool in policy.tools if tool != BASH)
    use = f": use {others}" if others else ""
    return f"No call of bash is known to be allowed{use}."


def _that_fit(texts: Sequence[str]) -> Sequence[str]:
    """Return as many calls as a line has place for, each in quotes; at least the shortest."""
    calls: list[str] = []
    for text in texts:
        length = len("".join((*calls, text)))
        if len(calls) < _LISTED and length <= _LINE:
            calls.append(f"`{text}`")
    return calls or [f"`{min(texts, key=len)}`"]


def _words(calls: Sequence[str]) -> str:
    *others, last = calls
    return f"are {', '.join(others)} and {last}" if others else f"is {last}"


def nearest(candidates: Sequence[_Example], argv: Argv) -> list[_Example]:
    """Return the examples that begin as `argv` does.

    Without any, return one of each rule, of programs and scripts in turn.
    """
    agreeing = [_agreeing(example.argv, argv) for example in candidates]
    best = max(agreeing, default=0)
    if best:
        pairs = zip(candidates, agreeing, strict=True)
        return [example for example, number in pairs if number == best]
    first_of_rule: dict[int, _Example] = {}
    for example in candidates:
        first_of_rule.setdefault(example.rule, example)
    firsts = first_of_rule.values()
    programs = [example for example in firsts if not example.of_script]
    scripts = [example for example in firsts if example.of_script]
    in_turn = chain.from_iterable(zip_longest(programs, scripts))
    return [example for example in in_turn if example]


def _agreeing(words: Argv, argv: Argv) -> int:
    """Return the number of words at the beginning that are the same."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(words, argv, strict=False))
    return sum(1 for _ in same)


def _calls(policy: Policy, files: Collection[str]) -> Iterator[tuple[int, Argv]]:
    known = sorted(files)
    for number, pattern in enumerate(policy.bash.patterns):
        yield number, _of_pattern(pattern, known)
    first = len(policy.bash.patterns)
    for number, script in enumerate(policy.bash.scripts, first):
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
    made_up = word.text.replace("*", "NAME")
    return next(filter(word.matches, files), made_up)


def _of_line(line: CommandLine) -> Iterator[list[str]]:
    """Yield the required words and no more, once for each sub-command."""
    words = list(_required(line))
    if line.command_optional or not line.commands:
        yield words
    for name, command in line.commands.items():
        for further in _of_line(command):
            yield [*words, name, *further]


def _required(line: CommandLine) -> Iterator[str]:
    required = {option.name for option in line.own_options() if option.required}
    for group in line.groups:
        if group.required and required.isdisjoint(group.names):
            required.add(group.names[0])
    for option in line.own_options():
        if option.name not in required:
            continue
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
