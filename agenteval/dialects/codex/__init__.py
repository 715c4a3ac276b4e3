"""Codex: its prefix rules, from a `.rules` file or a folder of them and into one; its words.

`engine` gives the verdicts. Here `read` runs a file in a child, which returns its calls; each is
checked as Codex checks it. Network rules do not decide which commands may run, but a wrong one
spoils its file too. keys.toml has all keys of the config next to the rules, and says which are not
followed here.
"""

import json
import posixpath
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Any, NoReturn

from agenteval.dialects.codex.engine import (
    APPROVALS,
    DECISIONS,
    Approval,
    Codex,
    Places,
    PrefixRule,
)
from agenteval.dialects.registry import (
    Dialect,
    SettingsKeys,
    Written,
    commands,
    denied,
    digest,
    is_texts,
    load_table,
    lost_everywhere,
    naming,
    policy_of,
)
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.command_lines import absolute
from agenteval.policy.policy import Policy, UnheededKey
from agenteval.prompt.arm import Profile
from agenteval.shell.gate import unquote_double
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH

_BEFORE = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_PIECE = re.compile(r"""([^ \t\n'"\\]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(?:\n|(.))""", re.DOTALL)
_PROTOCOLS = ("http", "https", "https_connect", "http-connect", "socks5_tcp", "socks5_udp")
_HOST = re.compile(r"(?:\[([^]]*)\](?::[0-9]+)?|([^:]+):[0-9]+|([^\[].*))", re.DOTALL)
KEYS = SettingsKeys.load("codex", "config")
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN))
_CHILD = Path(__file__).with_name("starlark_child.py")
# Seconds: the child's own limit is on those that it computes.
_TIMEOUT = 10.0
# Of a rule with many alternatives, for hints.
_SPELLED_OUT = 64


@dataclass(frozen=True, slots=True)
class _RuleCall:
    """One call of a function of Codex's, `where` in words for errors."""

    function: str
    where: str
    arguments: Mapping[str, Any]


def _check(call: _RuleCall) -> None:
    """Check a call by itself. Raises UsageError for a fault."""
    if not call.arguments.get("justification", "-").strip():
        _wrong(call, "justification: expected a reason, got an empty text")
    _CHECKS[call.function](call)


def _rule_of(call: _RuleCall) -> PrefixRule:
    """Return the rule that a checked call of `prefix_rule` gives."""
    arguments = call.arguments
    pattern = tuple(map(tuple, _choices(call)))
    return PrefixRule(pattern, arguments["decision"], arguments["caseless"])


def _choices(call: _RuleCall) -> list[list[Any]]:
    """Return what each leading word may be."""
    pattern = call.arguments["pattern"]
    return [word if isinstance(word, list) else [word] for word in pattern]


def _places_of(call: _RuleCall) -> tuple[str, frozenset[str]]:
    """Return the name and the paths that a checked call of `host_executable` gives."""
    paths = [absolute(path, "/") for path in call.arguments["paths"]]
    return call.arguments["name"], frozenset(paths)


def _try_examples(call: _RuleCall, rule: PrefixRule, places: Places) -> None:
    """Check a rule's examples: Codex reads no file whose rules don't do what they say."""
    alone = Codex((rule,), places)
    for key, should_match in (("not_match", False), ("match", True)):
        for example in call.arguments[key]:
            argv = _words(example)
            is_match = argv is not None and bool(alone.rules_about(argv, "/"))
            if argv is None or is_match is not should_match:
                verb = "does not match" if should_match else "matches"
                _wrong(call, f"{key}: the rule {verb} {example!r}")


def _check_prefix_rule(call: _RuleCall) -> None:
    arguments, choices = call.arguments, _choices(call)
    texts = [text for word in choices for text in word]
    if not (choices and all(choices) and is_texts(texts)):
        _wrong(call, f"pattern: expected words, or lists of words, got {arguments['pattern']!r}")
    _demand_one_of(call, "decision", DECISIONS)
    for key in ("match", "not_match"):
        for example in arguments[key]:
            if _words(example) is None:
                _wrong(call, f"{key}: expected a command, got {example!r}")


def _check_host_executable(call: _RuleCall) -> None:
    name = call.arguments["name"]
    if "/" in name or name in {"", ".", ".."}:
        _wrong(call, f"name: expected the bare name of a program, got {name!r}")
    for path in call.arguments["paths"]:
        if not isinstance(path, str) or not path.startswith("/"):
            _wrong(call, f"paths: expected absolute paths, got {path!r}")
        if posixpath.basename(absolute(path, "/")) != name:
            _wrong(call, f"paths: expected a path that ends in {name}, got {path!r}")


def _check_network_rule(call: _RuleCall) -> None:
    host = call.arguments["host"]
    _demand_one_of(call, "protocol", _PROTOCOLS)
    _demand_one_of(call, "decision", DECISIONS, "deny")
    match = _HOST.fullmatch(host.strip())
    name = match[match.lastindex or 0] if match else ""
    name = name.rstrip(".").strip()
    if not name or re.search(r"[\s*/?#]", name):
        _wrong(call, f"host: expected the name of one host, got {host!r}")


def _demand_one_of(call: _RuleCall, key: str, choices: Sequence[str], *unnamed: str) -> None:
    """Raise UsageError for another value; the `unnamed` ones are taken, and not advised."""
    value = call.arguments[key]
    if value not in (*choices, *unnamed):
        _wrong(call, f"{key}: expected {', '.join(choices)}, got {value!r}")


def _wrong(call: _RuleCall, why: str) -> NoReturn:
    raise UsageError(f"{call.where}: {why}")


def _words(example: object) -> Sequence[str] | None:
    """Return the argv of an example, given as such or as text; None when it is no example."""
    words = _split(example) if isinstance(example, str) else example
    return words if words and is_texts(words) else None


def _split(text: str) -> list[str] | None:
    """Split into words as a shell would, to which operators and expansions are plain characters."""
    words: list[str] = []
    at = _end(_BEFORE.match(text), 0)
    while at < len(text):
        value = ""
        start = at
        while piece := _PIECE.match(text, at):
            plain, single, double, escaped = piece.groups(default="")
            value += plain + single + unquote_double(double) + escaped
            at = piece.end()
        if at == start or text[at : at + 1] not in ("", " ", "\t", "\n"):
            return None
        words.append(value)
        at = _end(_BEFORE.match(text, at), at)
    return words


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return match.end() if match else otherwise


_CHECKS: Mapping[str, Callable[[_RuleCall], Any]] = {
    "prefix_rule": _check_prefix_rule,
    "host_executable": _check_host_executable,
    "network_rule": _check_network_rule,
}


def _unheeded(rules: Path) -> Iterator[UnheededKey]:
    """Return the keys of the config next to a folder of rules, or to that of a rules file.

    Raises UsageError where it is there and is no TOML: under it Codex would not start.
    """
    folder = rules if rules.is_dir() else rules.parent
    folder = folder.resolve()
    config = folder.parent / "config.toml"
    if folder.name != "rules" or not config.is_file():
        return
    try:
        settings = tomllib.loads(read_text(config))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{config}: cannot be read as TOML: {error}: mend it first") from error
    yield from KEYS.unheeded(settings)


def read(path: Path, approval: Approval = "untrusted") -> Policy:
    """Read a rules file. Raises UsageError with the file and the line if a rule can't be read."""
    files = sorted(path.glob("*.rules")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path}: a folder without any .rules file")
    engine = replace(_engine(files), approval=approval)
    policy = _of_engine(engine, path.stem, f"codex rules of {path.name}")
    return replace(policy, unheeded=tuple(_unheeded(path)))


def _of_engine(engine: Codex, name: str, description: str) -> Policy:
    """Return the policy of rules; hints show the first words of a rule with many alternatives."""
    starts: list[str] = []
    for rule in engine.rules:
        if rule.decision == "allow":
            alternatives = islice(product(*rule.pattern), _SPELLED_OUT)
            starts += [" ".join((*words, "*")) for words in alternatives]
    places = [f"{program} {sorted(paths)}" for program, paths in engine.executables.items()]
    return policy_of(
        engine,
        name,
        description,
        [*engine.rules, *places],
        bash=starts,
        passes=_PASSES,
        tools=("bash", "read", "write", "apply_patch"),
    )


def _in_mode(policy: Policy, mode: str) -> Policy:
    """Return the same rules under the approval policy that a log names; unchanged for others."""
    engine = policy.engine
    if not isinstance(engine, Codex) or mode not in APPROVALS:
        return policy
    engine = replace(engine, approval=mode)  # type: ignore[arg-type]  # it is one of them
    return replace(policy, engine=engine, digest=digest([policy.digest, mode]))


def _engine(files: list[Path]) -> Codex:
    rules: list[PrefixRule] = []
    places: dict[str, frozenset[str]] = {}
    for file in files:
        calls = _run(file)
        for call in calls:
            _check(call)
        places |= dict(_places_of(call) for call in calls if call.function == "host_executable")
        for call in calls:
            if call.function == "prefix_rule":
                rules.append(_rule_of(call))
                _try_examples(call, rules[-1], places)
    return Codex(tuple(rules), places)


def _run(path: Path) -> list[_RuleCall]:
    """Return the calls that a rules file makes, in order. Raises UsageError for no program."""
    if find_spec("starlark") is None:
        raise UsageError(f"{path}: needs Starlark: install agenteval-gate[codex]")
    with naming(path):
        text = read_text(path)
    answer = _answer(text)
    if "calls" not in answer:
        raise UsageError(f"{path}:{answer['line']}: not a rules file: {answer['why']}")
    return [_RuleCall(name, f"{path}:{line}", given) for name, line, given in answer["calls"]]


def _answer(text: str) -> dict[str, Any]:
    """Return the child's answer. A program may kill its interpreter, or never end."""
    try:
        ended = subprocess.run(
            # -P: its neighbours here hide no library.
            [sys.executable, "-P", str(_CHILD)],
            input=text.encode(),
            env={},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=True,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except (subprocess.SubprocessError, ValueError):
        return {"line": 1, "why": "it takes too long, or too much memory, to run"}
    return answer


def write(policy: Policy) -> Written:
    """Return an allow list as a rules file."""
    lines = []
    losses = list(lost_everywhere(policy, _PASSES))
    bare: dict[str, None] = {}
    for start, is_open in commands(policy):
        if "*" in start:
            losses.append(f"{start}: left out, for a prefix has no patterns")
            continue
        words = start.split()
        lines.append(_as_rule(words, "allow"))
        if "/" not in words[0]:
            bare[words[0]] = None
        if not is_open:
            losses.append(f"{start}: that no further words may follow")
    for start, is_open in denied(policy):
        if "*" in start or not is_open:
            losses.append(
                f"{start}: its denial is left out, for a prefix has no patterns and no end"
            )
        else:
            lines.append(_as_rule(start.split(), "forbidden"))
    # Else each rule would be about every program of that name, wherever it is.
    lines += [f"host_executable(name={json.dumps(name)}, paths=[])" for name in bare]
    losses.append(
        r"that a word may have one of *?[]{}\~^# outside quotes: no rule can allow it there"
    )
    others = [name for name in policy.tools if name != BASH]
    losses += [f"tools.{name}: rules are about commands only" for name in others]
    return Written("\n".join(lines) + "\n", tuple(losses))


def _as_rule(words: list[str], decision: str) -> str:
    return f'prefix_rule(pattern={json.dumps(words)}, decision="{decision}")'


def _left_behind(engine: Codex) -> Iterator[str]:
    """Yield the rules that no list for anyone else can hold: all but allowed commands."""
    for rule in engine.rules:
        words = " ".join("|".join(choices) for choices in rule.pattern)
        if rule.decision != "allow":
            yield f"prefix_rule {words}: {rule.decision}"
        elif rule.caseless:
            yield f"prefix_rule {words}: whatever the case of its letters"
    for name, paths in engine.executables.items():
        yield f"host_executable {name}: {', '.join(sorted(paths)) or 'nowhere but in PATH'}"
    if any(rule.decision == "allow" for rule in engine.rules):
        yield "that a program may be given by its path too"


DIALECT = Dialect(
    name="codex",
    checked=("0.169.0",),
    profile=load_table("codex/profile.toml", Profile),
    readers={
        "codex": read,
        "codex-on-request": partial(read, approval="on-request"),
        "codex-never": partial(read, approval="never"),
    },
    write=write,
    left_behind=_left_behind,
    suffix=".rules",
    beside=("codex:.codex/rules", "codex:{home}/rules"),
    in_mode=_in_mode,
    unruled=_of_engine(Codex(()), "codex", "codex without rules"),
)
