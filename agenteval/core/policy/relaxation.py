"""The rules that an allow list for commands lacks, for a command that it denies. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

from agenteval.core.policy.bash import BashRules
from agenteval.core.policy.patterns import CommandPattern
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct, Leaves, read_leaves
from agenteval.core.shell.programs import SHELLS, base_name, interpreter
from agenteval.core.shell.simple_command import NEEDS_CARE
from agenteval.core.shell.wrappers import is_wrapper


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
        """From the items of another."""
        found = [*items]
        constructs = frozenset(Construct(name) for kind, name in found if kind == "construct")
        return cls(constructs, frozenset(name for kind, name in found if kind == "program"))

    @property
    def items(self) -> frozenset[tuple[str, str]]:
        """Each thing that is allowed, with its kind."""
        constructs = {("construct", str(one)) for one in self.constructs}
        return frozenset(constructs | {("program", one) for one in self.programs})

    @property
    def description(self) -> str:
        """The relaxation in words: allow `pipe` into head, jq."""
        programs, constructs = ", ".join(sorted(self.programs)), sorted(self.constructs)
        joined = " and ".join(f"`{one}`" for one in constructs)
        if not joined:
            return f"allow {programs}"
        between = "into" if constructs == [Construct.PIPE] else "with"
        return f"allow {joined}" + (f" {between} {programs}" if programs else "")

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


MOST_LOOKS = 1_000_000  # at a need, for the smallest set: some seconds


def smallest(needs: Mapping[Relaxation, int], minimum: int) -> tuple[Relaxation | None, bool]:
    """Return the fewest constructs and programs that hold at least `minimum` of these needs.

    Of equally small sets, return the one that holds most; None if all items together hold too few.
    The second value is False if there were too many sets to know that none is smaller.
    """
    if sum(needs.values()) < minimum:
        return None, True
    items = sorted({item for need in needs for item in need.items})
    bit = {item: 1 << at for at, item in enumerate(items)}
    masks = [(sum(bit[item] for item in need.items), count) for need, count in needs.items()]
    search = _Search(best=minimum - 1)
    size = 0
    while search.best_set is None and search.looks_left > 0:  # all items hold what is wanted
        search.look(0, 0, masks, [], size)
        size += 1
    best_set = _greedily(masks, minimum) if search.best_set is None else search.best_set
    chosen = [item for item in items if bit[item] & best_set]
    return Relaxation.of(chosen), search.looks_left > 0


@dataclass(slots=True)
class _Search:
    """Branch and bound over sets of needs, each a number with a bit for each of its items."""

    best: int  # how many calls the set held that was found
    best_set: int | None = None
    looks_left: int = MOST_LOOKS

    def look(
        self,
        union: int,
        total: int,
        may: Sequence[tuple[int, int]],
        passed: Sequence[tuple[int, int]],
        size: int,
    ) -> None:
        """Look for a set that holds more than the best: this set with up to `size` items more.

        `may` are the needs that can still be chosen, `passed` those that a choice may hold besides.
        """
        passed = [*passed]
        total += sum(count for mask, count in (*may, *passed) if not mask & ~union)
        may, passed = _open(may, union, size), _open(passed, union, size)
        if total > self.best:
            self.best, self.best_set = total, union
        may.sort(key=lambda one: (-one[1] / (one[0] & ~union).bit_count(), one))
        for at, (mask, _) in enumerate(may):
            rest = [*may[at:], *passed]
            if self.looks_left <= 0 or total + _bound(rest, union, size) <= self.best:
                return
            self.looks_left -= len(rest)
            new = union | mask
            self.look(new, total, rest[: len(may) - at], passed, size - (mask & ~union).bit_count())
            passed.append(may[at])


def _open(needs: Sequence[tuple[int, int]], union: int, size: int) -> list[tuple[int, int]]:
    """Return the needs that the set does not hold, and can hold with up to `size` items more."""
    return [one for one in needs if 0 < (one[0] & ~union).bit_count() <= size]


def _bound(needs: Sequence[tuple[int, int]], union: int, size: int) -> int:
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
    return int(sum(sorted(share.values(), reverse=True)[:size]) + 1e-6)


def _greedily(needs: Sequence[tuple[int, int]], wanted: int) -> int:
    """A set that holds so many: always the need with most calls for each new item."""
    union = 0
    while sum(count for mask, count in needs if not mask & ~union) < wanted:
        rest = [one for one in needs if one[0] & ~union]
        union |= max(rest, key=lambda one: one[1] / (one[0] & ~union).bit_count())[0]
    return union


def needed(command: str, policy: Policy, root: str = "/workspace") -> Relaxation | None:
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
    starts_others = base_name(program) in SHELLS or interpreter(program) or is_wrapper(program)
    is_plain = program not in NEEDS_CARE and "/" not in program and "*" not in program
    return is_plain and not starts_others and program not in policy.bash.by_first_word


@lru_cache(maxsize=256)
def relaxed(policy: Policy, more: Relaxation) -> Policy:
    """The policy with these rules too, under a digest of its own.

    What it denies by name stays denied.
    """
    if not more.size:
        return policy
    rules = policy.bash
    digest = sha256(f"{policy.digest}\n{more.rules}".encode()).hexdigest()[:12]
    patterns = (CommandPattern.parse(f"{program} *") for program in sorted(more.programs))
    bash = BashRules(
        (*rules.patterns, *patterns),
        rules.scripts,
        rules.constructs | more.constructs,
        rules.env,
        rules.denied,
        rules.through,
    )
    return replace(policy, bash=bash, digest=digest)
