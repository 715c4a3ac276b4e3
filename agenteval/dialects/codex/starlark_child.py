"""A process that runs one of Codex's rules files and dies instead of its caller.

It imports next to nothing, for each rules file waits for its start. The text comes in on stdin;
out on stdout goes JSON, the calls or what is wrong with the text. Whatever else happens to it, from
a stack that overflows to a limit that is reached, means that the text can't be run.
"""

import json
import re
import resource
import sys
from contextlib import nullcontext, suppress
from typing import Any

import starlark

# Codex's functions, written in Starlark so that it says who was called wrongly, and where. They
# take texts, lists of texts and lists of those: of what else is given only scalars are kept.
_FUNCTIONS = """
def _plain(value):
    return value if type(value) in ("string", "int", "float", "bool") else None

def _given(values):
    return [[_plain(inner) for inner in value] if type(value) == "list" else _plain(value)
            for value in values]

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
_NAMES = 'load("codex", "prefix_rule", "network_rule", "host_executable")'
# A program's last value comes to Python, as a function can't.
_LAST = "\nNone\n"
_PLACE = re.compile(r"^ *(?:\*|-->) rules:(\d+)", re.MULTILINE)
_ERROR = re.compile(r"^error: (.+?)(?: here)?(?:, expected one of .*)?$", re.MULTILINE)
_LIMITS = {
    resource.RLIMIT_AS: 1 << 30,
    resource.RLIMIT_CPU: 5,  # seconds
    resource.RLIMIT_CORE: 0,
}
# Characters of an answer.
_LONGEST = 4 << 20


def _main() -> None:
    for what, most in _LIMITS.items():
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # macOS has less than it says: it takes no bound of memory below what a process has
        with suppress(OSError, ValueError) if sys.platform != "linux" else nullcontext():
            resource.setrlimit(what, (limit, limit))
    text = sys.stdin.buffer.read().decode()
    answer = json.dumps(_answer(text))
    if len(answer) > _LONGEST:
        sys.exit("too long")
    sys.stdout.write(answer)


def _answer(text: str) -> dict[str, Any]:
    calls: list[tuple[str, int, dict[str, Any]]] = []

    def called(function: str, stack: str, **given: Any) -> None:
        calls.append((function, int(_PLACE.findall(stack)[-1]), given))

    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    try:
        module = _with_functions(called, dialect)
        program = starlark.parse("rules", text + _LAST, dialect)
        starlark.eval(module, program, starlark.Globals.standard())
    except starlark.StarlarkError as error:
        place, message = _PLACE.search(str(error)), _ERROR.search(str(error))
        line, last = int(place[1]) if place else 1, text.rstrip().count("\n") + 1
        if line > last:  # at what we put there
            return {"line": last, "why": "something is left open at the end"}
        return {"line": line, "why": message[1] if message else "unreadable"}
    return {"calls": calls}


def _with_functions(called: Any, dialect: starlark.Dialect) -> starlark.Module:
    """A module that has Codex's functions, and no other name that theirs use."""
    codex, module = starlark.Module(), starlark.Module()
    codex.add_callable("_called", called)
    with_stack = starlark.Globals.extended_by([starlark.LibraryExtension.CallStack])
    starlark.eval(codex, starlark.parse("codex", _FUNCTIONS, dialect), with_stack)
    frozen = codex.freeze()
    loader = starlark.FileLoader(lambda _: frozen)
    names = starlark.parse("names", _NAMES, dialect)
    starlark.eval(module, names, starlark.Globals.standard(), loader)
    return module


if __name__ == "__main__":
    _main()
