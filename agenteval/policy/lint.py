"""Faults of an allow list, and what it would have to allow besides.

`lint` remarks on rules that can't match, say nothing new, or allow too much. `needed` returns the
constructs and programs that a list lacks for a command that it denies, `smallest` the fewest that
open enough such commands, and `relaxed` the policy with them. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256

from agenteval.policy.command_lines import CommandPattern, PathRules, WordPattern
from agenteval.policy.policy import READ, WRITE, Policy
from agenteval.policy.rules import MOVES, BashRules
from agenteval.shell.gate import NEEDS_CARE, names, program_obstacle
from agenteval.shell.leaves import Construct, Leaves, read_leaves
from agenteval.shell.programs import SHELLS, interpreter, left_open
from agenteval.shell.wrappers import base_name, is_wrapper

# Remarks on rules.


class Trouble(StrEnum):
    """A kind of fault of a rule."""

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
    """Return everything that is wrong with the rules for bash, rule by rule.

    `alike` are the rules among which it does not matter which comes first: all, where not given.
    """
    remarks: list[Remark] = []
    is_ours = policy.engine is None
    if alike is None:
        alike = (policy.bash.patterns,)
    for rules in alike:
        for number, rule in enumerate(rules):
            if is_ours:
                remarks += _never(rule, policy.bash.denied)
            others = (*rules[:number], *rules[number + 1 :])
            remarks += _shadowed(rule, others, rules[:number])
            remarks += _wide(rule)
    remarks += _scripts(policy.bash)
    if is_ours:
        remarks += _joining(policy.bash)
        remarks += _outside(READ, policy.read)
        remarks += _outside(WRITE, policy.write)
    return remarks


def _never(rule: CommandPattern, denied: Sequence[CommandPattern]) -> Iterator[Remark]:
    program = rule.program
    if other := next((other for other in denied if _covers(other, rule)), None):
        reason = f"deny has `{other.text}`, which goes before it"
        yield Remark(rule.text, Trouble.NEVER, reason)
    if rule.wild and (why := NEEDS_CARE.get(program.text)):
        yield Remark(rule.text, Trouble.NEVER, f"{program.text} {why}: write its words out")
    elif not program.wild and (obstacle := program_obstacle(program.text, is_dynamic=False)):
        yield Remark(rule.text, Trouble.NEVER, f"no command begins so: {obstacle.value}")
    for word in _all_words(rule):
        for trouble, reason in _faults(word):
            yield Remark(rule.text, trouble, reason)


def _all_words(rule: CommandPattern) -> Sequence[WordPattern]:
    return rule.words if rule.rest is None else (*rule.words, rule.rest)


def _faults(word: WordPattern) -> Iterator[tuple[Trouble, str]]:
    text = word.text
    if word.wild and ".." in text.split("/"):
        yield Trouble.NEVER, f"no word with .. matches {text}"
    if text.startswith("~"):
        yield Trouble.QUOTED, f"bash makes another word of {text}: name a path in the workspace"
    if text in _OPERATORS:
        yield Trouble.QUOTED, f"{text} is a word here, and would have to be quoted; see constructs"
    if text[:1] in {"'", '"'}:
        reason = f"words are compared after quotes are removed, so none begins with {text[0]}"
        yield Trouble.NEVER, reason


_OPERATORS = names("| || && & ; > >> < 2>&1")


def _outside(tool: str, rules: PathRules) -> Iterator[Remark]:
    for glob in rules.allow:
        if glob.startswith(("/", "~", "../")):
            reason = "paths are compared relative to the workspace: none begins so"
            yield Remark(f"{tool} {glob}", Trouble.NEVER, reason)


def _shadowed(
    rule: CommandPattern,
    others: Sequence[CommandPattern],
    twins: Sequence[CommandPattern],
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
    """Return True if every command that fits `rule` fits `wider`: its words are such commands."""
    if rule.rest is not None and wider.rest is None:
        return False
    return wider.matches([word.text for word in _all_words(rule)])


def _wide(rule: CommandPattern) -> Iterator[Remark]:
    if rule.program.wild:
        yield Remark(rule.text, Trouble.WIDE, "its program is a pattern: say which programs")
        return
    for word in _all_words(rule)[1:]:
        if _begins_anywhere(word):
            reason = f"{word.text} fits such a path anywhere, as below /etc: begin it with a folder"
            yield Remark(rule.text, Trouble.WIDE, reason)
    if rule.rest is None or rule.rest.text != "*":
        return
    reason = left_open([word.text for word in rule.words])
    if reason and not all(_left_out(clause, rule) for clause in reason.split(", ")):
        yield Remark(rule.text, Trouble.WIDE, reason)


def _left_out(clause: str, rule: CommandPattern) -> bool:
    """Return True if a reason, such as "--output writes any file", is about a denied option.

    A letter has a long name too, which may.
    """
    option, _, does = clause.partition(" ")
    return option.startswith("--") and option in rule.without and not does.startswith("and ")


def _begins_anywhere(word: WordPattern) -> bool:
    """Return True if the end of a path is stated and its beginning, behind an option, is not."""
    first, last = word.pieces[0], word.pieces[-1]
    return word.wild and not first.rpartition("=")[2] and bool(last)


def _joining(rules: BashRules) -> Iterator[Remark]:
    """Yield remarks on rules that what joins commands makes void, or wide."""
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
        any_call = [*script.start.split(), "*"]
        for rule in rules.patterns:
            if rule.matches(any_call):
                reason = f"`{rule.text}` allows it with any words, so its options are never checked"
                yield Remark(script.start, Trouble.SHADOWED, reason)


# What a list lacks.


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Constructs and programs, each with any words, that a list is to have besides its own."""

    constructs: frozenset[Construct] = frozenset()
    programs: frozenset[str] = frozenset()

    def __or__(self, other: "Relaxation") -> "Relaxation":
        return Relaxation(self.constructs | other.constructs, self.programs | other.programs)

    def holds(self, other: "Relaxation") -> bool:
        return other.constructs <= self.constructs and other.programs <= self.programs

    @property
    def size(self) -> int:
        return len(self.constructs) + len(self.programs)

    @classmethod
    def of(cls, items: Iterable[tuple[str, str]]) -> "Relaxation":
        """Return a relaxation of the items of others."""
        items = [*items]
        constructs = {Construct(name) for kind, name in items if kind == "construct"}
        programs = {name for kind, name in items if kind == "program"}
        return cls(frozenset(constructs), frozenset(programs))

    @property
    def items(self) -> frozenset[tuple[str, str]]:
        """The things that are allowed, with the kind of each."""
        constructs = {("construct", str(construct)) for construct in self.constructs}
        programs = {("program", program) for program in self.programs}
        return frozenset(constructs | programs)

    @property
    def description(self) -> str:
        """The relaxation in words: allow `pipe` into head, jq."""
        programs = ", ".join(sorted(self.programs))
        constructs = sorted(self.constructs)
        if not constructs:
            return f"allow {programs}"
        joined = " and ".join(f"`{construct}`" for construct in constructs)
        if not programs:
            return f"allow {joined}"
        between = "into" if constructs == [Construct.PIPE] else "with"
        return f"allow {joined} {between} {programs}"

    @property
    def rules(self) -> str:
        """The lines of an allow list's [bash] table."""
        lines = []
        if self.constructs:
            lines.append(f"constructs = [{_quoted(self.constructs)}]")
        if self.programs:
            lines.append(f"allow = [{_quoted(f'{program} *' for program in self.programs)}]")
        return "\n".join(lines)


NOTHING = Relaxation()


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in sorted(words))


# At a need, for the smallest set: some seconds.
MOST_LOOKS = 1_000_000


def smallest(needs: Mapping[Relaxation, int], minimum: int) -> tuple[Relaxation | None, bool]:
    """Return the fewest constructs and programs that hold at least `minimum` of these needs.

    Of equally small sets, return the one that holds most; None if all items together hold too few.
    The second value is False if there were too many sets to know that none is smaller.
    """
    if sum(needs.values()) < minimum:
        return None, True
    items = sorted({item for need in needs for item in need.items})
    bit = {item: 1 << at for at, item in enumerate(items)}
    masks = []
    for need, count in needs.items():
        mask = sum(bit[item] for item in need.items)
        masks.append((mask, count))
    search = _Search(best=minimum - 1)
    size = 0
    # All items hold what is wanted.
    while search.best_set is None and search.looks_left > 0:
        search.look(0, 0, masks, [], size)
        size += 1
    best_set = search.best_set
    # There were too many sets to look at: one that opens enough, but may not be the smallest.
    if best_set is None:
        best_set = _greedily(masks, minimum)
    chosen = [item for item in items if bit[item] & best_set]
    return Relaxation.of(chosen), search.looks_left > 0


# A number with a bit for each item, and how many calls need these.
_Need = tuple[int, int]


@dataclass(slots=True)
class _Search:
    """Branch and bound over sets of needs, each a number with a bit for each of its items."""

    # How many calls the set held that was found.
    best: int
    best_set: int | None = None
    looks_left: int = MOST_LOOKS

    def look(
        self,
        union: int,
        total: int,
        may: Sequence[_Need],
        passed: Sequence[_Need],
        size: int,
    ) -> None:
        """Look for a set that holds more than the best: this set with up to `size` items more.

        `may` are the needs that can still be chosen, `passed` those that a choice may hold besides.
        """
        total += sum(count for mask, count in (*may, *passed) if not mask & ~union)
        may = _open(may, union, size)
        passed = _open(passed, union, size)
        if total > self.best:
            self.best, self.best_set = total, union
        may.sort(key=lambda need: (-need[1] / _open_items(need, union), need))
        for at, (mask, _) in enumerate(may):
            rest = [*may[at:], *passed]
            if self.looks_left <= 0 or total + _bound(rest, union, size) <= self.best:
                return
            self.looks_left -= len(rest)
            new_items = (mask & ~union).bit_count()
            may_follow = rest[: len(may) - at]
            self.look(union | mask, total, may_follow, passed, size - new_items)
            passed.append(may[at])


def _open_items(need: _Need, union: int) -> int:
    """Return the number of the items of a need that the set does not have."""
    return (need[0] & ~union).bit_count()


def _open(
    needs: Sequence[_Need],
    union: int,
    size: int,
) -> list[_Need]:
    """Return the needs that the set does not hold, and can hold with up to `size` items more."""
    return [need for need in needs if 0 < _open_items(need, union) <= size]


def _bound(needs: Sequence[_Need], union: int, size: int) -> int:
    """Return an upper bound of the calls that the set can hold with `size` items more.

    Each call is shared out among the items that it needs: a set holds at most what its items have.
    """
    share: dict[int, float] = {}
    for mask, count in needs:
        rest = mask & ~union
        part = count / rest.bit_count()
        while rest:
            bit = rest & -rest
            share[bit] = share.get(bit, 0.0) + part
            rest ^= bit
    largest = sorted(share.values(), reverse=True)[:size]
    return int(sum(largest) + 1e-6)


def _greedily(needs: Sequence[_Need], minimum: int) -> int:
    """Return a set that holds so many: always the need with most calls for each new item."""
    union = 0
    while sum(count for mask, count in needs if not mask & ~union) < minimum:
        rest = [need for need in needs if need[0] & ~union]
        best = max(rest, key=lambda need: need[1] / _open_items(need, union))
        union |= best[0]
    return union


def needed(
    command: str,
    policy: Policy,
    root: str = "/workspace",
) -> Relaxation | None:
    """Return the least that must be allowed for this command; None if no rule can allow it.

    No rule opens a shell, an interpreter or what starts other programs: that would allow anything.
    A listed script called wrongly is no matter of rules either.
    """
    split = read_leaves(command)
    if not isinstance(split, Leaves) or any(leaf.assignments for leaf in split.leaves):
        return None
    programs = set()
    for leaf in split.leaves:
        if policy.bash.admits(leaf.argv, leaf.dynamic, root=root):
            continue
        if leaf.dynamic or not _may_be_opened(leaf.argv[0], policy):
            return None
        programs.add(leaf.argv[0])
    return Relaxation(split.constructs - policy.bash.constructs, frozenset(programs))


def _may_be_opened(program: str, policy: Policy) -> bool:
    if base_name(program) in SHELLS or interpreter(program) or is_wrapper(program):
        return False
    is_plain = program not in NEEDS_CARE and "/" not in program and "*" not in program
    return is_plain and program not in policy.bash.by_first_word


@lru_cache(maxsize=256)
def relaxed(policy: Policy, more: Relaxation) -> Policy:
    """The policy with these rules too, under a digest of its own.

    What it denies by name stays denied.
    """
    if not more.size:
        return policy
    rules = policy.bash
    digest = sha256(f"{policy.digest}\n{more.rules}".encode()).hexdigest()[:12]
    patterns = [CommandPattern.parse(f"{program} *") for program in sorted(more.programs)]
    bash = BashRules(
        (*rules.patterns, *patterns),
        rules.scripts,
        rules.constructs | more.constructs,
        rules.env,
        rules.denied,
        rules.through,
    )
    return replace(policy, bash=bash, digest=digest)
