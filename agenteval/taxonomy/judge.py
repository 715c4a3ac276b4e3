"""The verdict on a call: the policy decides, and only a denied call is explained."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from agenteval.core.call import Denied, Finding, ToolCall, Verdict
from agenteval.core.policy.mismatch import take, take_simple
from agenteval.core.policy.policy import (
    UNKNOWN_WORLD,
    Gate,
    Policy,
    World,
    decide,
    decide_command,
    only_command,
)
from agenteval.core.shell.facts import ShellFacts
from agenteval.core.shell.leaves import read_leaves
from agenteval.core.shell.programs import SHELLS, base_name, interpreter
from agenteval.core.shell.simple_command import UNREADABLE, NotSimple, Simple, read_simple
from agenteval.core.shell.wrappers import is_wrapper
from agenteval.core.span import new
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION, failure_classes
from agenteval.taxonomy.denied import DeniedCall
from agenteval.taxonomy.failure_class import FailureClass, Seen
from agenteval.taxonomy.hints import Ways
from agenteval.taxonomy.mended import facts_of

__all__ = ["TAXONOMY_VERSION", "deny", "judge", "judge_many"]

_NO_SHELL = ShellFacts("")
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_KEPT = 4096  # longer commands hardly repeat, and would fill the memory
_CLASSES = tuple(each for each in failure_classes() if not each.rest)
(_REST,) = (each for each in failure_classes() if each.rest)


def judge(call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD) -> Verdict:
    """Allowed with what it runs, or denied with every class that explains it. Never raises."""
    only = only_command(call, policy)
    command = call.command if only is None else only
    gate = None if command is None else read_simple(command)
    if only is not None and policy.engine is None:
        allowed = decide_command(only, policy, world, gate=gate)
    else:
        allowed = decide(call, policy, world, gate=gate)
    if allowed is not None:
        return allowed
    if isinstance(gate, Simple) and not (_wraps(gate.argv[0]) and _holds_others(gate.argv)):
        is_only = only is not None
        fits = False if is_only and policy.engine is None else None
        parts, misses = take_simple(gate, policy.bash, world.root, fits=fits)
        known = (call, gate.text, policy, world, _NO_SHELL, parts, misses, is_only, None, "")
        return _explain(new(DeniedCall, known))
    return _deny(call, policy, world, gate, is_only_a_command=only is not None)


def _holds_others(argv: Sequence[str]) -> bool:
    """Return True if another command is inside a wrapper: find has one only behind -exec."""
    return argv[0] != "find" or not _FIND_RUNS.isdisjoint(argv)


@lru_cache(maxsize=1024)
def _wraps(program: str) -> bool:
    """Return True if a simple command may hold another that matters: sudo x, but not python x."""
    is_runner = program == "uv" or (interpreter(program) and base_name(program) not in SHELLS)
    return not is_runner and is_wrapper(program)


def deny(
    call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD, *, objection: str = ""
) -> Denied:
    """The verdict on a call that is denied already.

    An `objection` of the second reader makes it ambiguous-shell, whatever the policy allows.
    """
    gate = None if call.command is None else read_simple(call.command)
    is_only = only_command(call, policy) is not None
    return _deny(call, policy, world, gate, objection, is_only_a_command=is_only)


def _deny(  # noqa: PLR0913 -- judge knows half of it already
    call: ToolCall,
    policy: Policy,
    world: World,
    gate: Gate | None,
    objection: str = "",
    *,
    is_only_a_command: bool,
) -> Denied:
    command = call.command
    text, shell = call.raw, _NO_SHELL
    if command is not None:
        is_readable = not (isinstance(gate, NotSimple) and gate.reason in UNREADABLE)
        text, shell = command, facts_of(command, is_readable=is_readable)
    reader = read_leaves(command) if command is not None and policy.bash.constructs else gate
    stop = reader if isinstance(reader, NotSimple) else None
    parts, misses = take(shell.commands, policy.bash, world.root)
    is_only = is_only_a_command
    known = (call, text, policy, world, shell, parts, misses, is_only, stop, objection)
    return _explain(new(DeniedCall, known))


def judge_many(
    policy: Policy, world: World = UNKNOWN_WORLD, *, distinct: int = 1 << 14
) -> Callable[[ToolCall], Verdict]:
    """Return `judge` for many calls, which keeps verdicts on `distinct` commands for repeats."""
    verdicts: dict[str, Verdict] = {}

    def of_call(call: ToolCall) -> Verdict:
        command = only_command(call, policy)
        if command is None or len(command) > _KEPT:
            return judge(call, policy, world)
        verdict = verdicts.get(command)
        if verdict is None:
            if len(verdicts) >= distinct:
                verdicts.clear()  # repeats stand near each other: an order of use costs more
            verdict = verdicts[command] = judge(call, policy, world)
        return verdict

    return of_call


def _explain(denied: DeniedCall) -> Denied:
    matches: list[tuple[FailureClass, Seen]] = []
    for each in _worth_a_look(denied.signs):
        if evidence := each.look(denied):
            matches.append((each, evidence))  # noqa: PERF401 -- a comprehension is a call of its own
    if permitted := denied.policy.bash.constructs:
        # A construct permitted as such explains only what nothing else does: its odd forms.
        closed = [
            (c, evidence)
            for c, evidence in matches
            if evidence.despite or c.construct not in permitted
        ]
        matches = closed or matches
    if not matches and (evidence := _REST.look(denied)):
        matches = [(_REST, evidence)]
    return Denied.explained(_findings(matches, denied))


@lru_cache(maxsize=1024)
def _worth_a_look(signs: frozenset[str]) -> tuple[FailureClass, ...]:
    """The classes that a call with these signs may belong to; agents make some 500 such sets."""
    return tuple(
        each for each in _CLASSES if not each.seen_in or not each.seen_in.isdisjoint(signs)
    )


def _findings(matches: Iterable[tuple[FailureClass, Seen]], denied: DeniedCall) -> list[Finding]:
    ways, stated = Ways(denied), denied.policy.stated
    is_listed, harms = bool(denied.alone), denied.harms
    findings: list[Finding] = []
    for failure_class, evidence in matches:
        facets = evidence.facets
        if harms and not findings:
            facets += tuple(each for each in harms if each not in facets)
        if is_listed:
            facets += ("script-listed",)
        if failure_class.id in stated:
            facets += ("rule-stated",)
        hint = ways.hint(failure_class, evidence)
        findings.append(new(Finding, (failure_class.id, evidence.span, hint, facets)))
    return findings
