"""Calls of a rules file of Codex: the rules and places of programs they give, or its faults.

Network rules do not decide which commands may run, but a wrong one spoils its file too.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agenteval.core.policy.patterns import absolute
from agenteval.core.shell.words import unquote_double
from agenteval.dialects.codex.engine import DECISIONS, Codex, PrefixRule
from agenteval.errors import UsageError

_BEFORE = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_PIECE = re.compile(r"""([^ \t\n'"\\]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(?:\n|(.))""", re.DOTALL)
_PROTOCOLS = ("http", "https", "https_connect", "http-connect", "socks5_tcp", "socks5_udp")
_HOST = re.compile(r"(?:\[([^]]*)\](?::[0-9]+)?|([^:]+):[0-9]+|([^\[].*))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RuleCall:
    """One call of a function of Codex's, `where` in words for errors."""

    function: str
    where: str
    arguments: Mapping[str, Any]


def check(call: RuleCall) -> None:
    """Check a call by itself. Raises UsageError for a fault."""
    if not call.arguments.get("justification", "-").strip():
        _wrong(call, "justification: expected a reason, got an empty text")
    _CHECKS[call.function](call)


def rule_of(call: RuleCall) -> PrefixRule:
    """Return the rule that a checked call of `prefix_rule` gives."""
    arguments = call.arguments
    pattern = tuple(
        (word,) if isinstance(word, str) else tuple(word) for word in arguments["pattern"]
    )
    return PrefixRule(pattern, arguments["decision"], arguments["caseless"])


def places_of(call: RuleCall) -> tuple[str, frozenset[str]]:
    """Return the name and the paths that a checked call of `host_executable` gives."""
    return call.arguments["name"], frozenset(
        absolute(path, "/") for path in call.arguments["paths"]
    )


def try_examples(call: RuleCall, rule: PrefixRule, places: Mapping[str, frozenset[str]]) -> None:
    """Check a rule's examples: Codex reads no file whose rules don't do what they say."""
    alone = Codex((rule,), places)
    for key, should_match in (("not_match", False), ("match", True)):
        for example in call.arguments[key]:
            argv = _words(example)
            if argv is None or bool(alone.rules_about(argv, "/")) is not should_match:
                verb = "does not match" if should_match else "matches"
                _wrong(call, f"{key}: the rule {verb} {example!r}")


def _check_prefix_rule(call: RuleCall) -> None:
    pattern, decision = call.arguments["pattern"], call.arguments["decision"]
    choices = [word if isinstance(word, list) else [word] for word in pattern]
    texts = [text for word in choices for text in word]
    if not (choices and all(choices) and all(isinstance(text, str) for text in texts)):
        _wrong(call, f"pattern: expected words, or lists of words, got {pattern!r}")
    if decision not in DECISIONS:
        _wrong(call, f"decision: expected {', '.join(DECISIONS)}, got {decision!r}")
    for key in ("match", "not_match"):
        for example in call.arguments[key]:
            if _words(example) is None:
                _wrong(call, f"{key}: expected a command, got {example!r}")


def _check_host_executable(call: RuleCall) -> None:
    name = call.arguments["name"]
    if "/" in name or name in {"", ".", ".."}:
        _wrong(call, f"name: expected the bare name of a program, got {name!r}")
    for path in call.arguments["paths"]:
        if not isinstance(path, str) or not path.startswith("/"):
            _wrong(call, f"paths: expected absolute paths, got {path!r}")
        if posixpath.basename(absolute(path, "/")) != name:
            _wrong(call, f"paths: expected a path that ends in {name}, got {path!r}")


def _check_network_rule(call: RuleCall) -> None:
    arguments = call.arguments
    if arguments["protocol"] not in _PROTOCOLS:
        _wrong(call, f"protocol: expected {', '.join(_PROTOCOLS)}, got {arguments['protocol']!r}")
    if arguments["decision"] not in (*DECISIONS, "deny"):
        _wrong(call, f"decision: expected {', '.join(DECISIONS)}, got {arguments['decision']!r}")
    match = _HOST.fullmatch(arguments["host"].strip())
    host = (match[match.lastindex or 0] if match else "").rstrip(".").strip()
    if not host or re.search(r"[\s*/?#]", host):
        _wrong(call, f"host: expected the name of one host, got {arguments['host']!r}")


def _wrong(call: RuleCall, why: str) -> NoReturn:
    raise UsageError(f"{call.where}: {why}")


def _words(example: object) -> Sequence[str] | None:
    """The argv of an example, given as such or as text; None when it is no example."""
    found = _split(example) if isinstance(example, str) else example
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return found or None


def _split(text: str) -> list[str] | None:
    """Into words as a shell would, to which operators and expansions are plain characters."""
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


_CHECKS: Mapping[str, Callable[[RuleCall], Any]] = {
    "prefix_rule": _check_prefix_rule,
    "host_executable": _check_host_executable,
    "network_rule": _check_network_rule,
}
