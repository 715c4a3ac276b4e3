"""What is wrong with an allow list: rules that can't match, say nothing new, or allow too much."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.bash import MOVES, BashRules
from agenteval.core.policy.patterns import CommandPattern, PathRules, WordPattern
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.program_specs import left_open
from agenteval.core.shell.simple_command import NEEDS_CARE, program_obstacle


class Trouble(StrEnum):
    """What is wrong with a rule."""

    NEVER = "never matches"
    QUOTED = "matches only where the word is quoted"
    SHADOWED = "says nothing new"
    WIDE = "lets more through"
    UNHEEDED = "is not heeded"
    UNKNOWN = "is not known"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that is wrong with one rule, and how so."""

    rule: str
    trouble: Trouble
    reason: str


def lint(policy: Policy, alike: Iterable[Sequence[CommandPattern]] | None = None) -> list[Remark]:
    """Everything that is wrong with the rules for bash, rule by rule.

    `alike` are the rules among which it does not matter which comes first: all, where not given.
    """
    remarks: list[Remark] = []
    for rules in (policy.bash.patterns,) if alike is None else alike:
        for number, rule in enumerate(rules):
            remarks += _never(rule, policy.bash.denied) if policy.engine is None else ()
            remarks += _shadowed(rule, (*rules[:number], *rules[number + 1 :]), rules[:number])
            remarks += _wide(rule)
    remarks += _scripts(policy.bash)
    if policy.engine is None:
        remarks += [*_joining(policy.bash), *_outside(READ, policy.read)]
        remarks += _outside(WRITE, policy.write)
    return remarks


def _never(rule: CommandPattern, denied: Sequence[CommandPattern]) -> Iterator[Remark]:
    program = rule.program
    if barred := next((one for one in denied if _covers(one, rule)), None):
        yield Remark(rule.text, Trouble.NEVER, f"deny has `{barred.text}`, which goes before it")
    if rule.wild and (why := NEEDS_CARE.get(program.text)):
        yield Remark(rule.text, Trouble.NEVER, f"{program.text} {why}: write its words out")
    elif not program.wild and (obstacle := program_obstacle(program.text, is_dynamic=False)):
        yield Remark(rule.text, Trouble.NEVER, f"no command begins so: {obstacle.value}")
    for word in rule.words if rule.rest is None else (*rule.words, rule.rest):
        if word.wild and ".." in word.text.split("/"):
            yield Remark(rule.text, Trouble.NEVER, f"no word with .. matches {word.text}")
        if word.text.startswith("~"):
            reason = f"bash makes another word of {word.text}: name a path in the workspace"
            yield Remark(rule.text, Trouble.QUOTED, reason)
        if word.text in {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"}:
            reason = f"{word.text} is a word here, and would have to be quoted; see constructs"
            yield Remark(rule.text, Trouble.QUOTED, reason)
        if word.text[:1] in {"'", '"'}:
            reason = (
                f"words are compared after quotes are removed, so none begins with {word.text[0]}"
            )
            yield Remark(rule.text, Trouble.NEVER, reason)


def _outside(tool: str, rules: PathRules) -> Iterator[Remark]:
    for glob in rules.allow:
        if glob.startswith(("/", "~", "../")):
            reason = "paths are compared relative to the workspace: none begins so"
            yield Remark(f"{tool} {glob}", Trouble.NEVER, reason)


def _shadowed(
    rule: CommandPattern, others: Sequence[CommandPattern], twins: Sequence[CommandPattern]
) -> Iterator[Remark]:
    for other in others:
        if other.text == rule.text:
            if other in twins:
                yield Remark(rule.text, Trouble.SHADOWED, "it stands there twice")
                return
        elif _covers(other, rule):
            yield Remark(rule.text, Trouble.SHADOWED, f"`{other.text}` allows all that it does")
            return


def _covers(wider: CommandPattern, rule: CommandPattern) -> bool:
    """Whether every command that fits `rule` fits `wider`: its own words are such commands."""
    words = [word.text for word in rule.words]
    if rule.rest is not None:
        if wider.rest is None:
            return False
        words.append(rule.rest.text)
    return wider.matches(words)


def _wide(rule: CommandPattern) -> Iterator[Remark]:
    if rule.program.wild:
        yield Remark(rule.text, Trouble.WIDE, "its program is a pattern: say which programs")
        return
    for word in rule.words[1:] if rule.rest is None else (*rule.words[1:], rule.rest):
        if _begins_anywhere(word):
            reason = f"{word.text} fits such a path anywhere, as below /etc: begin it with a folder"
            yield Remark(rule.text, Trouble.WIDE, reason)
    if rule.rest is None or rule.rest.text != "*":
        return
    reason = left_open([word.text for word in rule.words])
    if reason and not all(_left_out(clause, rule) for clause in reason.split(", ")):
        yield Remark(rule.text, Trouble.WIDE, reason)


def _left_out(clause: str, rule: CommandPattern) -> bool:
    """Whether a reason such as "--output writes any file" is about an option that cannot stand.

    A letter has a long name too, which may.
    """
    option, _, does = clause.partition(" ")
    return option.startswith("--") and option in rule.without and not does.startswith("and ")


def _begins_anywhere(word: WordPattern) -> bool:
    """Whether the end of a path is stated and its beginning is not, be it behind an option."""
    first, last = word.pieces[0], word.pieces[-1]
    return word.wild and not first.rpartition("=")[2] and bool(last)


def _joining(rules: BashRules) -> Iterator[Remark]:
    """Rules that what joins commands makes void, or wide."""
    for rule in rules.patterns:
        if rule.program.text in MOVES and rules.constructs:
            reason = "beside other commands it never counts: their paths would mean something else"
            yield Remark(rule.text, Trouble.NEVER, reason)
    if Construct.ENV_ASSIGNMENT in rules.constructs and not rules.env:
        reason = "no variable may be set: name those that may in env"
        yield Remark(Construct.ENV_ASSIGNMENT.value, Trouble.NEVER, reason)
    for name in sorted(rules.env):
        if _STEERS.match(name):
            yield Remark(f"env {name}", Trouble.WIDE, "it makes programs run or load other ones")


_STEERS = re.compile(
    r"(?:LD|DYLD|GIT|UV|PIP|NPM|PYTHON|PERL|RUBY|NODE|BASH|JAVA|CARGO|RUST)_?.*"
    r"|(?:PATH|ENV|IFS|HOME|SHELL|SHELLOPTS|PAGER|EDITOR|VISUAL|BROWSER|CDPATH|GLOBIGNORE)$"
)


def _scripts(rules: BashRules) -> Iterator[Remark]:
    for script in rules.scripts:
        if script.path.startswith(("/", "../")):
            reason = "paths are compared relative to the workspace: none looks like this"
            yield Remark(script.start, Trouble.NEVER, reason)
        elif script.runner and "/" not in script.path and not script.path.endswith(".py"):
            reason = f"a runner may look for {script.path} in PATH: move it to a folder"
            yield Remark(script.start, Trouble.WIDE, reason)
        wider = (rule for rule in rules.patterns if rule.matches([*script.start.split(), "*"]))
        for rule in wider:
            reason = f"`{rule.text}` allows it with any words, so its options are never checked"
            yield Remark(script.start, Trouble.SHADOWED, reason)
