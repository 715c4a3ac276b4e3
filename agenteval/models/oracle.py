"""The players that prove a scenario: one that knows the answer, and one that only talks.

An oracle plays the reference solution. It may begin with the faults that a scenario invites: one
for each failure class, made from a right call and from what lies in the sandbox.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agenteval.classes.catalogue import failure_classes
from agenteval.config.prompts import spoken
from agenteval.models.persona import Written, bash_call
from agenteval.models.request import parsed_call
from agenteval.models.simulated import Known, Memory
from agenteval.policy.command_lines import Argument, CommandLine, normalise
from agenteval.policy.policy import READ, WRITE, Policy, admitted_path
from agenteval.policy.policy import UNKNOWN_WORLD as _WORLD
from agenteval.policy.rules import ScriptRule
from agenteval.prompt.arm import Profile
from agenteval.prompt.prompt import Prompt
from agenteval.protocols import ToolSchema
from agenteval.shell.gate import Simple, read_simple
from agenteval.shell.wrappers import base_name
from agenteval.trial.call import BASH, ToolCall
from agenteval.trial.trial import Message, Scenario, Turn, Usage

_NO_SLIPS: Mapping[str, Sequence[Written]] = {}


class Oracle:
    """Makes the calls of the reference solution, one a turn. Implements `protocols.Model`.

    The `slips` of a scenario, by its name, come first; they are written for the strict profile.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        slips: Mapping[str, Sequence[Written]] = _NO_SLIPS,
    ) -> None:
        self._memory = Memory(scenarios)
        self._slips = slips

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        """The next call; without any once there is none."""
        words = "\n".join(message.content for message in messages if message.role == "user")
        work = self._memory.recall(words, seed)
        # Each earlier turn of the model made one call of the plan.
        number = 0
        for message in messages:
            if message.role == "assistant":
                number += 1
            elif work and message.role == "user" and work.prompt.task in message.content:
                number = 0  # the task is given, perhaps once more
        plan = [*self._plan(work, spoken(tools))] if work else []
        if number >= len(plan):
            return _turn("")
        return _turn("", as_tool_call(plan[number], number))

    def _plan(self, known: Known, profile: Profile) -> Iterator[Written]:
        yield from self._slips.get(known.name, ())
        for step in known.prompt.solution:
            yield Written(*profile.written(step.tool, step.arguments))


class Planned(Oracle):
    """The maker of these calls of a scenario's first agent, written for the strict profile.

    Sub-agents play their solutions.
    """

    def _plan(self, known: Known, profile: Profile) -> Iterator[Written]:
        if known.name in self._slips:
            return iter(self._slips[known.name])
        return super()._plan(known, profile)


class Talker:
    """A model that makes no call: it writes one text, or none, and stops. See `protocols.Model`."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        del messages, tools, seed
        return _turn(self._text)


def written_calls(
    prompt: Prompt, profile: Profile, tools: Sequence[str]
) -> Iterator[ToolCall | None]:
    """Yield the solution as it is written under a profile, read back as calls of our own tools."""
    for number, step in enumerate(prompt.solution):
        name, raw = profile.written(step.tool, step.arguments)
        call = ToolCall(f"call-{number}", name, raw, json.loads(raw))
        yield profile.as_own_call(call, tools)


def as_tool_call(written: Written, number: int = 0) -> ToolCall:
    """Return the call that a written one becomes, once its arguments are read."""
    return parsed_call(f"call-{number}", written.name, written.arguments)


def _turn(text: str, *calls: ToolCall) -> Turn:
    return Turn(
        text,
        calls,
        "tool_calls" if calls else "stop",
        Usage(),
        raw="",
        seconds=0.0,
    )


@dataclass(frozen=True, slots=True)
class Ground:
    """The material of a slip: one trial's prompt, its policy, and the files of its sandbox."""

    prompt: Prompt
    policy: Policy
    files: Mapping[str, bytes]

    @property
    def commands(self) -> Iterator[str]:
        """The right bash commands, in the order of the solution."""
        for step in self.prompt.solution:
            if step.tool == BASH:
                yield str(step.arguments["command"])

    @property
    def script_calls(self) -> Iterator[tuple[str, ScriptRule]]:
        """The right commands that run a script whose command line is known, each with its rule."""
        for command in self.commands:
            read = read_simple(command)
            argv = read.argv if isinstance(read, Simple) else ()
            for script in self.policy.bash.scripts:
                at = len(script.runner)
                runs = tuple(argv[:at]) == script.runner and len(argv) > at
                if runs and normalise(argv[at], _WORLD.root) == script.path:
                    yield command, script


# The faults that a scenario invites.

_FORMS = {failure.id: failure.slip for failure in failure_classes() if failure.slip}
_FLAGS = ("--verbose", "--pretty", "--max-results", "--summary-only")
_VALUE = re.compile(r'"[^"]*"')
_PATH = re.compile(rb"(?<![\w./:~!-])/(?:[\w.-]+/)+[\w.-]*\w|(?<![\w./:~!-])/(?:[\w-]+/)+")


def slip(failure_class: str, ground: Ground) -> Written | None:
    """Return the wrong call of this class; None if nothing in this task instance leads to one."""
    form = _FORMS.get(failure_class)
    if not form:
        write = _SLIPS.get(failure_class)
        return write(ground) if write else None
    right = next(ground.commands, "")
    if not right:
        return None
    quoted = right.replace("'", "'\\''")
    command = form.replace("{quoted}", quoted)
    return bash_call(command.replace("{}", right))


def _malformed_arguments(ground: Ground) -> Written | None:
    """The JSON ends too early."""
    step = ground.prompt.solution[0]
    whole = json.dumps(dict(step.arguments))
    return Written(step.tool, whole[:-2])


def _hallucinated_tool(ground: Ground) -> Written | None:
    """A script's name called as if it were a tool."""
    name = "web_search"
    for path in ground.policy.bash.listed:
        stem, _, _ = base_name(path).partition(".")
        if stem not in ground.policy.tools:
            name = stem
            break
    return Written(name, json.dumps({"query": "all"}))


def _blocked_path(ground: Ground) -> Written | None:
    """Return a closed path named by the prompt or the files, or a closed file of the sandbox."""
    paths: list[str] = []
    texts = [ground.files[path] for path in sorted(ground.files)]
    for text in (f"{ground.prompt.system}\n{ground.prompt.task}".encode(), *texts):
        paths += (path.decode() for path in _PATH.findall(text))
    paths += sorted(ground.files)
    for tool, others in ((READ, {}), (WRITE, {"content": ""})):
        rules = ground.policy.paths(tool) if tool in ground.policy.tools else None
        for path in paths if rules else ():
            arguments = {"path": path, **others}
            call = ToolCall("", tool, "", arguments)
            if rules and admitted_path(call, rules, _WORLD) is None:
                return Written(tool, json.dumps(arguments))
    return None


def _hallucinated_script(ground: Ground) -> Written | None:
    """Return the name of a listed script with its words in reverse order, or with one more."""
    for path, starts in ground.policy.bash.listed.items():
        folder, name = posixpath.split(path)
        stem, dot, suffix = name.partition(".")
        words = stem.split("_")
        guess = "_".join(reversed(words)) if len(words) > 1 else f"{stem}_manager"
        if posixpath.join(folder, guess + dot + suffix) not in ground.files:
            return bash_call(f"{starts[0].removesuffix(name)}{guess}{dot}{suffix} --help")
    return None


def _wrong_runner(ground: Ground) -> Written | None:
    """Return a listed script, started by an unlisted option of the runner, or by its path."""
    for path, starts in ground.policy.bash.listed.items():
        for command in ground.commands:
            runner, script, rest = command.partition(path)
            if command.startswith(starts[0]) and script:
                return bash_call(f"{runner}-q {path}{rest}" if runner else f"python3 {command}")
    return None


def _unlisted_script(ground: Ground) -> Written | None:
    """Return a program that lies next to the listed ones, and is not listed itself."""
    listed = ground.policy.bash.listed
    for path, starts in listed.items():
        folder = posixpath.dirname(path)
        for other, text in sorted(ground.files.items()):
            is_program = b"__main__" in text and other.endswith(".py")
            if posixpath.dirname(other) == folder and is_program and other not in listed:
                return bash_call(f"{starts[0].removesuffix(path)}{other} --help")
    return None


def _hallucinated_flag(ground: Ground) -> Written | None:
    """An option that the script, whose command line is known, does not have."""
    for command, script in ground.script_calls:
        known_flags = " ".join(("", *script.line.flags()))
        for flag in _FLAGS:
            if f" {flag}" not in known_flags:  # a beginning of one would be taken for it
                return bash_call(f"{command} {flag}")
        return None
    return None


def _hallucinated_sub_command(ground: Ground) -> Written | None:
    """A sub-command that the script does not have, in place of the right one."""
    for command, script in ground.script_calls:
        for word in command.split(" "):
            if word in script.line.commands:
                return bash_call(command.replace(f" {word}", f" {word}-all", 1))
    return None


def _hallucinated_value(ground: Ground) -> Written | None:
    """A value to choose that is none of those that can be chosen."""
    for command, script in ground.script_calls:
        for argument in _arguments(script.line):
            for choice in argument.choices:
                if command.endswith(f" {choice}") or f" {choice} " in command:
                    return bash_call(command.replace(f" {choice}", f" {choice}-all", 1))
    return None


def _arguments(line: CommandLine) -> Iterator[Argument]:
    yield from (*line.options.values(), *line.positionals)
    for command in line.commands.values():
        yield from _arguments(command)


def _other_shell(ground: Ground) -> Written | None:
    """Braces where a rule takes any words; else a value that is longer than bash takes."""
    for rule in ground.policy.bash.patterns:
        if rule.rest and rule.rest.text == "*":
            words = [word.text for word in rule.words]
            return bash_call(" ".join((*words, "{1..9}")))
    for command in ground.commands:
        if _VALUE.search(command):
            return bash_call(_VALUE.sub("and-so-on-" * 14_000, command, count=1))
    return None


_SLIPS: Mapping[str, Callable[[Ground], Written | None]] = {
    write.__name__[1:].replace("_", "-"): write
    for write in (
        _malformed_arguments,
        _hallucinated_tool,
        _blocked_path,
        _hallucinated_script,
        _wrong_runner,
        _unlisted_script,
        _hallucinated_flag,
        _hallucinated_sub_command,
        _hallucinated_value,
        _other_shell,
    )
}
