"""A check of the things that a prompt names: scripts, their usage, and the tools."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from agenteval.config.arms import arms
from agenteval.core.policy.command_line import Argument, CommandLine, Kind
from agenteval.core.policy.mismatch import mismatch
from agenteval.core.policy.patterns import normalise
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.shell.programs import script_at

_TOKEN = re.compile(r"""[\[\]]|\.\.\.(?=[\s\]]|\Z)|(?:"[^"]*"|'[^']*'|[^\s\[\]"'])+""")
_INDENTED = re.compile(r"^(?: {4,}|\t)(?:\$ )?(\S.*?)(?: {2,}.*| #.*)?$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+)`")
_SAMPLES = {Kind.INT: "1", Kind.FLOAT: "1.5", Kind.JSON: "{}", Kind.PATH: "file.txt"}


def usages(text: str) -> list[str]:
    """The usage lines of scripts: indented lines, and quoted text that says more than a name."""
    lines = [line for line in _INDENTED.findall(text) if _script_at(line) is not None]
    return lines + [part for part in _QUOTED.findall(text) if _goes_on(part)]


def fillings(usage: str, line: CommandLine, start: int) -> Iterator[tuple[str, ...]]:
    """Yield the words of real calls: the shortest, then the whole usage with each alternative.

    `line` is what may follow the word before `start`; it says which values fit a placeholder.
    """
    tokens = _TOKEN.findall(usage)
    short, whole = _words(tokens, optional=False), _words(tokens, optional=True)
    yield tuple(_filled(short, line, start, 0))
    most = max((word.count("|") + 1 for word in whole if not _is_quoted(word)), default=1)
    for turn in range(most):
        yield tuple(_filled(whole, line, start, turn))


def script_of(usage: str) -> tuple[tuple[str, ...], str]:
    """Return the words before the script of a usage line, and the script."""
    words = _TOKEN.findall(usage)
    at = script_at(words) or 0
    return tuple(words[:at]), words[at]


def _script_at(usage: str) -> int | None:
    words = _TOKEN.findall(usage)
    at = script_at(words) if words else None
    return at if at is not None and words[at].endswith((".py", ".sh")) else None


def _goes_on(quoted: str) -> bool:
    at = _script_at(quoted)
    return at is not None and len(_TOKEN.findall(quoted)) > at + 1


def _words(tokens: Sequence[str], *, optional: bool) -> list[str]:
    words, depth = [], 0
    for token in tokens:
        depth += (token == "[") - (token == "]")  # noqa: S105 -- a bracket
        if token not in {"[", "]", "..."} and (optional or not depth):
            words.append(token)
    return words


def _filled(words: Sequence[str], line: CommandLine, start: int, turn: int) -> Iterator[str]:
    yield from words[:start]
    option: Argument | None = None
    place = 0
    for word in words[start:]:
        if word.startswith("-"):
            option = line.options.get(word)
            yield word
        elif option is None and word in line.commands:
            line, place = line.commands[word], 0
            yield word
        elif option is not None and option.kind is not Kind.FLAG:
            yield _value(word, option, turn)
            option = option if option.most != 1 else None
        else:
            argument = next(iter(line.positionals[place : place + 1]), None)
            yield _value(word, argument, turn)
            place += argument is None or argument.most is not None


def _value(word: str, argument: Argument | None, turn: int) -> str:
    if _is_quoted(word):
        return _sample(word[1:-1], argument, turn)
    if "|" in word:
        return _value(word.split("|")[turn % (word.count("|") + 1)], None, turn)
    is_placeholder = word.startswith("<") or (word.upper() == word and word.lower() != word)
    return _sample(word, argument, turn) if is_placeholder else word


def _sample(text: str, argument: Argument | None, turn: int) -> str:
    if argument is None:
        return text
    if argument.choices:
        return argument.choices[turn % len(argument.choices)]
    return _SAMPLES.get(argument.kind, text)


def _is_quoted(word: str) -> bool:
    return word[:1] in {'"', "'"}


_ROOT = "/workspace"
_SCRIPT = re.compile(r"(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.(?:py|sh)\b")
_TOOL = re.compile(r"\*\*(\w+)\*\*|\b(?:the|The) `?(\w+)`? tool\b")


def prompt_faults(
    render: Callable[[Setting], Prompt],
    tools: Sequence[str],
    policy: Policy,
    files: Collection[str],
) -> Iterator[str]:
    """Yield each thing that a prompt names and that is missing or not allowed, with the fix.

    `render` renders the prompt; its agent is offered `tools`.
    """
    prompt = render(DEFAULT)
    yield from _scripts(prompt, policy, files)
    for usage in usages(f"{prompt.system}\n{prompt.task}"):
        yield from _usage(usage, policy)
    yield from _tools(render, tools)


def _scripts(prompt: Prompt, policy: Policy, files: Collection[str]) -> Iterator[str]:
    folders = {posixpath.dirname(path) for path in policy.bash.listed}
    named = dict.fromkeys(_SCRIPT.findall(f"{prompt.system}\n{prompt.task}"))
    for script in named:
        if posixpath.dirname(script) not in folders:
            continue
        if script not in files:
            yield f"the prompt names {script}, which the fixture lacks: add it, or mend the name"
        elif script not in policy.bash.listed:
            yield (
                f"the prompt names {script}, which allow list {policy.name} does not allow: add a "
                "[[bash.script]], or leave it out"
            )


def _usage(usage: str, policy: Policy) -> Iterator[str]:
    runner, path = script_of(usage)
    rule = policy.bash.script(runner, path, _ROOT)
    line = rule.line if rule else CommandLine.of()
    if normalise(path, _ROOT) not in policy.bash.listed:
        return  # said already
    for argv in fillings(usage, line, len(runner) + 1):
        if not policy.bash.admits(argv, root=_ROOT):
            hint = mismatch(policy.bash, argv, root=_ROOT).hint
            yield (
                f"the prompt's usage `{usage}` is no allowed command line ({hint}): mend the line "
                f"or allow list {policy.name}"
            )
            return


def _tools(render: Callable[[Setting], Prompt], tools: Sequence[str]) -> Iterator[str]:
    frameless_arms = [replace(arm, frame="") for arm in arms().values()]  # a frame may name others
    names = {form.name for arm in frameless_arms for form in arm.profile.forms.values()}
    for arm in frameless_arms:
        prompt = render(Setting(arm))
        offered = set(arm.profile.names(arm.offered(tools)).values())
        found = _TOOL.findall(f"{prompt.system}\n{prompt.task}")
        named = dict.fromkeys(bold or spoken for bold, spoken in found)
        for name in named:
            if name in names - offered:
                yield (
                    f"the prompt names the tool {name}, which arm {arm.name} does not have "
                    f"here: write {{{{ bash }}}}, {{{{ read }}}} or {{{{ write }}}}, one of tools"
                )
                return
