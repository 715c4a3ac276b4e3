"""The backend that isolates nothing: a temporary folder on the machine itself, only by name."""

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from agenteval.core.scenario import Limits
from agenteval.protocols import Sandbox
from agenteval.sandbox.launch import Interpreter, Launcher, interpreter
from agenteval.sandbox.session import Plan, open_session
from agenteval.sandbox.world import BIN, ENVIRONMENT, UV, runner_spec


class Bare:
    """Commands run as the user, with all he may read, write and reach. Limits are watched only."""

    name = "none"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self._launcher = Launcher(self._python, warm=prefork)

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        return self._open(files, limits)

    @asynccontextmanager
    async def _open(self, files: Mapping[str, bytes], limits: Limits) -> AsyncGenerator[Sandbox]:
        with tempfile.TemporaryDirectory(prefix="agenteval-") as folder:
            spec = runner_spec(limits, own_user=False, prefork=self._prefork)
            plan = Plan("none", {}, _furnish(Path(folder), self._python, spec))
            async with open_session(self._launcher, plan, files, limits) as session:
                yield session


def _furnish(folder: Path, python: Interpreter, spec: dict[str, Any]) -> dict[str, Any]:
    """Make the folders of one trial, and say what its runner is told."""
    workspace, programs = folder / "workspace", folder / "bin"
    workspace.mkdir()
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).symlink_to(python.executable)
    (programs / "uv").write_text(UV)
    (programs / "uv").chmod(0o755)
    home = {"HOME": str(workspace), "PWD": str(workspace)}
    path = f"{programs}:{ENVIRONMENT['PATH'].removeprefix(f'{BIN}:')}"
    return spec | {
        "env": ENVIRONMENT | home | {"PATH": path},
        "places": [],
        "workspace": str(workspace),
    }
