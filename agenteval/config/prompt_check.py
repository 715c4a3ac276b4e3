"""What a prompt names, held against what there is: scripts, their usage, and the tools."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from agenteval.core.policy.mismatch import mismatch
from agenteval.core.policy.patterns import normalise
from agenteval.core.policy.policy import Policy
from agenteval.core.policy.script import CommandLine
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.prompt.usage import fillings, script_of, usages
from agenteval.dialects.registry import profiles

_ROOT = "/workspace"
_SCRIPT = re.compile(r"(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.(?:py|sh)\b")
_TOOL = re.compile(r"\*\*(\w+)\*\*|\b(?:the|The) `?(\w+)`? tool\b")


def prompt_faults(
    told: Callable[[Setting], Prompt], tools: Sequence[str], policy: Policy, files: Collection[str]
) -> Iterator[str]:
    """Each thing that a prompt names and that is not there, or not allowed, and the cure.

    `told` renders the prompt; its agent is offered `tools`.
    """
    prompt = told(DEFAULT)
    yield from _scripts(prompt, policy, files)
    for usage in usages(f"{prompt.system}\n{prompt.task}"):
        yield from _usage(usage, policy)
    yield from _tools(told, tools)


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


def _tools(told: Callable[[Setting], Prompt], tools: Sequence[str]) -> Iterator[str]:
    names = {form.name for profile in profiles().values() for form in profile.forms.values()}
    for profile in profiles().values():
        prompt = told(Setting(profile=profile))
        offered = set(profile.names(tools).values())
        found = _TOOL.findall(f"{prompt.system}\n{prompt.task}")
        named = dict.fromkeys(bold or spoken for bold, spoken in found)
        for name in named:
            if name in names - offered:
                yield (
                    f"the prompt names the tool {name}, which profile {profile.name} does not have "
                    f"here: write {{{{ bash }}}}, {{{{ read }}}} or {{{{ write }}}}, one of tools"
                )
                return
