"""Codex's rules files are programs in Starlark: which of Codex's functions they call, with what."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import starlark

from agenteval.errors import UsageError

# Codex's functions, written in Starlark so that it says who was called wrongly, and where. Lists
# come to Python as lists and tuples do too: a tuple is none of what Codex takes.
_FUNCTIONS = """
def _given(values):
    return [None if type(value) == "tuple" else value for value in values]

def prefix_rule(pattern: list, decision: str = "allow", match: list = [], not_match: list = [],
                justification: str = "-", canonical_matching: bool = False):
    _called("prefix_rule", call_stack(strip_frames=1), pattern=_given(pattern), decision=decision,
            match=_given(match), not_match=_given(not_match), justification=justification,
            caseless=canonical_matching)

def network_rule(host: str, protocol: str, decision: str, justification: str = "-"):
    _called("network_rule", call_stack(strip_frames=1), host=host, protocol=protocol,
            decision=decision, justification=justification)

def host_executable(name: str, paths: list):
    _called("host_executable", call_stack(strip_frames=1), name=name, paths=_given(paths))
"""
_LAST = "\nNone\n"  # a program's last value comes to Python, as a function can't
_PLACE = re.compile(r"^ *(?:\*|-->) rules:(\d+)", re.MULTILINE)
_ERROR = re.compile(r"^error: (.+?)(?: here)?(?:, expected one of .*)?$", re.MULTILINE)

# The interpreter dies of a program that is nested thousands of levels deep.
_DEEPEST = 100  # brackets that are open at a time
_LONGEST = 1000  # operators in one statement
_TOKEN = re.compile(
    r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\(?s:.)|[^"\\\n])*"|\'(?:\\(?s:.)|[^\'\\\n])*\''
    r"|\#[^\n]*|(?P<opens>[(\[{])|(?P<closes>[)\]}])|(?P<starts>^[A-Za-z_])"
    r"|(?P<operator>[-+*/%|&^~<>=!.]|\b(?:not|and|or|if|else|for|in|lambda)\b)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class RuleCall:
    """One call of a function of Codex's, `where` in words for errors."""

    function: str
    where: str
    given: Mapping[str, Any]


def run(path: Path) -> list[RuleCall]:
    """The calls that a rules file makes, in their order; UsageError when it is no program."""
    text = path.read_text(encoding="utf-8")
    if _is_deep(text):
        raise UsageError(f"{path}: not a rules file: nested too deeply")
    calls: list[RuleCall] = []

    def called(function: str, stack: str, **given: Any) -> None:
        lines = _PLACE.findall(stack)
        calls.append(RuleCall(function, f"{path}:{lines[-1]}", given))

    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    module = starlark.Module()
    module.add_callable("_called", called)
    with_stack = starlark.Globals.extended_by([starlark.LibraryExtension.CallStack])
    starlark.eval(module, starlark.parse("codex", _FUNCTIONS, dialect), with_stack)
    try:
        program = starlark.parse("rules", text + _LAST, dialect)
        starlark.eval(module, program, starlark.Globals.standard())
    except starlark.StarlarkError as error:
        place, told = _PLACE.search(str(error)), _ERROR.search(str(error))
        line, last = int(place[1]) if place else 1, text.rstrip().count("\n") + 1
        why = told[1] if told else "unreadable"
        if line > last:  # at what we put there
            line, why = last, "something is left open at the end"
        raise UsageError(f"{path}:{line}: not a rules file: {why}") from error
    return calls


def _is_deep(text: str) -> bool:
    depth = operators = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        depth += (kind == "opens") - (kind == "closes")
        operators = 0 if kind == "starts" and depth <= 0 else operators + (kind == "operator")
        if depth > _DEEPEST or operators > _LONGEST:
            return True
    return False
