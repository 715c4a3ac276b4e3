"""The backend that needs nothing installed: namespaces made by Python itself."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict

from agenteval.core.scenario import Limits
from agenteval.protocols import Sandbox
from agenteval.sandbox.launch import Launcher, interpreter
from agenteval.sandbox.session import Plan, open_session
from agenteval.sandbox.world import (
    DEVICE_LINKS,
    HOSTNAME,
    counts_processes_apart,
    runner_spec,
    syscall_filter,
)
from agenteval.sandbox.world import world as describe


class Namespaces:
    """User, mount, process, network, IPC, host-name and cgroup namespaces, and a private root."""

    name = "namespaces"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self._launcher = Launcher(self._python, warm=prefork)

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        world = describe(self._python, limits)
        build = asdict(world) | {
            "hostname": HOSTNAME,
            "links": world.links | DEVICE_LINKS,
            "loopback": limits.loopback,
            "seccomp": syscall_filter(loopback=limits.loopback),
        }
        runner = runner_spec(limits, own_user=counts_processes_apart(), prefork=self._prefork)
        return open_session(self._launcher, Plan("namespaces", build, runner), files, limits)
