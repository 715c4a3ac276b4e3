"""A harness whose rules are a file of commands, each allowed as it stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval.dialects.registry import Dialect, Written, digest
from agenteval.policy.policy import Policy, ToolRule
from agenteval.prompt.arm import STRICT_PROFILE, Profile


@dataclass(frozen=True)
class TinyShell:
    lines: tuple[str, ...]
    name: str = "tinyshell"

    def knows(self, tool: str) -> bool:
        return False

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        return arguments["command"] in self.lines


def read(path: Path) -> Policy:
    lines = tuple(path.read_text("utf-8").splitlines())
    return Policy(
        path.stem, digest(lines), tools={"bash": ToolRule("bash")}, engine=TinyShell(lines)
    )


def write(policy: Policy) -> Written:
    return Written("".join(f"{rule.text}\n" for rule in policy.bash.patterns), ("all else",))


def left_behind(engine: TinyShell) -> Iterator[str]:
    yield from engine.lines


DIALECT = Dialect(
    name="tinyshell",
    checked=(),
    profile=Profile("tinyshell", 1, STRICT_PROFILE.forms, STRICT_PROFILE.texts),
    readers={"tinyshell": read},
    write=write,
    left_behind=left_behind,
    suffix=".tiny",
)
TAKEN = Dialect(
    name="codex",
    checked=(),
    profile=DIALECT.profile,
    readers={"codex": read},
    write=write,
    left_behind=left_behind,
)
