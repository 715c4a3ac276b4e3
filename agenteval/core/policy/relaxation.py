"""What an allow list for commands would have to say too, for a command that it denies. Pure."""

from collections.abc import Iterable
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
    """Constructs and programs, each with any words, that a list is to have beside its own."""

    constructs: frozenset[Construct] = frozenset()
    programs: frozenset[str] = frozenset()

    def __or__(self, other: "Relaxation") -> "Relaxation":
        return Relaxation(self.constructs | other.constructs, self.programs | other.programs)

    def holds(self, other: "Relaxation") -> bool:
        return other.constructs <= self.constructs and other.programs <= self.programs

    @property
    def size(self) -> int:
        return len(self.constructs) + len(self.programs)

    @property
    def told(self) -> str:
        """In words: allow `pipe` into head, jq."""
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


def needed(command: str, policy: Policy, root: str = "/workspace") -> Relaxation | None:
    """The least that would have to be allowed for this command; None where no rule can say it.

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
