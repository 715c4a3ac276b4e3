"""A policy written down for another harness, and what of it that harness can't say."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core.policy.bash import ScriptRule
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct
from agenteval.formats.left_behind import left_behind
from agenteval.formats.own_toml import fits, to_toml


@dataclass(frozen=True, slots=True)
class Written:
    """The file's text, and one line for everything that could not be carried over."""

    text: str
    lost: tuple[str, ...]


def convert(policy: Policy, to: str) -> Written:
    """`to` is one of TARGETS. The result never allows less than it says in `lost`."""
    text, lost = TARGETS[to](policy)
    return Written(text, (*left_behind(policy), *lost))


def _commands(policy: Policy) -> list[tuple[str, bool]]:
    """How each allowed command begins, and whether any words may follow."""
    found = [_begins(rule) for rule in policy.bash.patterns]
    return found + [(script.start, True) for script in policy.bash.scripts]


def _begins(rule: CommandPattern) -> tuple[str, bool]:
    text = " ".join(rule.text.split())
    is_open = rule.rest is not None and rule.rest.text == "*"
    return (text.removesuffix(" *"), True) if is_open else (text, False)


def _lost_everywhere(policy: Policy, harness: str) -> Iterator[str]:
    for script in policy.bash.scripts:
        if _has_signature(script):
            yield f"{script.start}: its options and their values; any words may follow there"
    yield from _lost_of_words(policy.bash.patterns)
    if policy.engine is None:
        yield from _lost_around_commands(policy, harness)
    for key, names in (("files", policy.files), ("stated", policy.stated)):
        if names:
            yield f"{key}: {', '.join(sorted(names))}"
    for name, tool in policy.tools.items():
        if tool.schema:
            yield f"tools.{name}: the schema of its parameters"


def _lost_of_words(rules: Iterable[CommandPattern]) -> Iterator[str]:
    for rule in rules:
        if rule.rest is not None and rule.rest.text != "*":
            yield f"{rule.text}: that each word must match {rule.rest.text} and have no .. in it"
        elif any("/" in word.text and word.wild for word in rule.words):
            yield f"{rule.text}: that a word with a path has no .. in it"


def _lost_around_commands(policy: Policy, harness: str) -> Iterator[str]:
    """What may stand around commands: the harness says so itself, and no rule changes that."""
    own, passes = policy.bash.constructs, _PASSES[harness]
    if more := sorted(passes - own):
        yield f"constructs: {', '.join(more)} pass there around what is allowed"
    if fewer := sorted(own - passes):
        yield f"constructs: {', '.join(fewer)}: no rule can allow them there"
    if policy.bash.env:
        yield f"env: {', '.join(sorted(policy.bash.env))}: no variable may be set there"


def _has_signature(script: ScriptRule) -> bool:
    line = script.line
    return len(line.options) > 2 or bool(line.positionals or line.commands)


def _to_opencode(policy: Policy) -> tuple[str, list[str]]:
    bash = {"*": "deny"}
    for start, open_end in _commands(policy):
        bash[f"{start} *" if open_end else start] = "allow"
    permission: dict[str, Any] = {"*": "deny"}
    if "bash" in policy.tools:
        permission["bash"] = bash
    for tool, key, rules in (("read", "read", policy.read), ("write", "edit", policy.write)):
        if tool in policy.tools:
            permission[key] = _opencode_paths(rules)
    named = [name for name in policy.tools if name not in {"bash", "read", "write"}]
    permission |= dict.fromkeys(named, "allow")
    content = {"$schema": "https://opencode.ai/config.json", "permission": permission}
    return _json(content), [*_lost_everywhere(policy, "opencode"), *_lost_in_opencode(policy)]


def _lost_in_opencode(policy: Policy) -> Iterator[str]:
    if "bash" in policy.tools and policy.engine is None:
        yield "that quotes and blanks do not matter: there a rule fits a text as it is written"
        yield "that X=1, [[ x ]] and cd need a rule: there they pass, cd inside the project"
        for rule in policy.bash.patterns:
            if any(word.wild for word in rule.words):
                yield f"{rule.text}: that a * stands for a part of one word"
            if "?" in rule.text:
                yield f"{rule.text}: that a ? stands for itself"
    for tool, rules in (("read", policy.read), ("write", policy.write)):
        for glob in (*rules.allow, *rules.deny) if tool in policy.tools else ():
            if _ONE_FOLDER.search(glob):
                yield f"{tool}: {glob}: that only ** crosses folders"


def _opencode_paths(rules: PathRules) -> dict[str, str]:
    """Deny last: there the last match counts. Its `*` crosses folders already."""
    table = {"*": "deny"}
    for globs, action in ((rules.allow, "allow"), (rules.deny, "deny")):
        for glob in globs:
            table[glob.replace("**/", "*").replace("**", "*")] = action
    return table


def _to_claude(policy: Policy) -> tuple[str, list[str]]:
    allow, deny = [], []
    for start, open_end in _commands(policy):
        escaped = re.sub(r"([()\\])", r"\\\1", start)
        allow.append(f"Bash({escaped}:*)" if open_end else f"Bash({escaped})")
    for tool, name, rules in (("read", "Read", policy.read), ("write", "Edit", policy.write)):
        if tool in policy.tools:
            allow += [f"{name}(/{glob})" for glob in rules.allow]
            deny += [f"{name}(/{glob})" for glob in rules.deny]
    lost = list(_lost_everywhere(policy, "claude-code"))
    lost.append("that nothing else may be read: Claude Code reads any file of the project")
    lost.append("that ls, cat, grep, git log and their like need a rule: there they need none")
    known = {"bash", "read", "write"}
    lost += [
        f"tools.{name}: Claude Code has no such tool" for name in policy.tools if name not in known
    ]
    return _json({"permissions": {"allow": allow, "deny": deny}}), lost


def _to_codex(policy: Policy) -> tuple[str, list[str]]:
    lines, lost = [], list(_lost_everywhere(policy, "codex"))
    bare: dict[str, None] = {}
    for start, open_end in _commands(policy):
        if "*" in start:
            lost.append(f"{start}: left out, for a prefix has no patterns")
            continue
        words = start.split()
        lines.append(f'prefix_rule(pattern={json.dumps(words)}, decision="allow")')
        if "/" not in words[0]:
            bare[words[0]] = None
        if not open_end:
            lost.append(f"{start}: that no further words may follow")
    # Else each rule would be about every program of that name, wherever it is.
    lines += [f"host_executable(name={json.dumps(name)}, paths=[])" for name in bare]
    lost.append(
        r"that a word may have one of *?[]{}\~^# outside quotes: no rule can allow it there"
    )
    lost += [
        f"tools.{name}: rules are about commands only" for name in policy.tools if name != "bash"
    ]
    return "\n".join(lines) + "\n", lost


def _lost_in_ours(policy: Policy) -> Iterator[str]:
    for rule in policy.bash.patterns if policy.engine else ():
        if not fits(rule.text):
            yield f"{rule.text}: left out, for words are compared without their quotes"
        elif "*" in rule.text.rstrip("*"):
            yield f"{rule.text}: that a * before its end stands for several words too"


# What in a glob ends at a / here and not in OpenCode: a single * or ?, and a **/ before a name.
_ONE_FOLDER = re.compile(r"(?<!\*)\*(?!\*)|\?|\*\*/[^*]")
_JOINED = frozenset((Construct.PIPE, Construct.CHAIN))
_REDIRECTS = frozenset(
    (Construct.STDERR_REDIRECT, Construct.FILE_REDIRECT, Construct.INPUT_REDIRECT)
)
_PASSES = {
    "codex": _JOINED,
    "claude-code": _JOINED | _REDIRECTS | {Construct.HERESTRING},
    "opencode": frozenset(Construct) - {Construct.ENV_ASSIGNMENT},
}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


TARGETS: Mapping[str, Callable[[Policy], tuple[str, list[str]]]] = {
    "opencode": _to_opencode,
    "claude-code": _to_claude,
    "codex": _to_codex,
    "toml": lambda policy: (to_toml(policy), list(_lost_in_ours(policy))),
}
