"""The start of the launcher under the right interpreter, and requests for sandboxes."""

import marshal
import os
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Final

from agenteval.errors import UsageError
from agenteval.sandbox.groups import Groups, own_group, scope
from agenteval.sandbox.inside import launcher, wire


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`executable` is the program; `prefix` the folder to bind for it, "" for a system one."""

    executable: str
    prefix: str


def interpreter() -> Interpreter:
    """The base interpreter behind any virtual environment.

    It is bound at its own path, where its program looks for its libraries. Raises UsageError when
    binding its folder would show the user's home.
    """
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    executable, prefix = os.path.realpath(base), os.path.realpath(sys.base_prefix)
    if Path(executable).is_relative_to("/usr"):
        return Interpreter(executable, "")
    home = Path.home().resolve()
    if home.is_relative_to(prefix) or prefix in {"/", "/workspace"}:
        raise UsageError(
            f"{executable}: this Python's folder {prefix} holds your home or stands where a "
            "workspace does, so no sandbox may show it: make the environment with another Python "
            "(make clean; make PYTHON=/usr/bin/python3)"
        )
    return Interpreter(executable, prefix)


INSIDE: Final = "agenteval.sandbox.inside"
SHIPPED: Final = (
    "wire",
    "files",
    "usage",
    "linux",
    "prefork",
    "hidden",
    "inquiry",
    "process",
    "seccomp",
    "runner",
    "control_group",
    "namespace",
    "launcher",
)
# Loads the modules from a descriptor: nothing of ours needs to be visible where it runs.
BOOT: Final = """\
import marshal, os, sys
code = b''
while part := os.read(int(sys.argv[1]), 1 << 20): code += part
os.close(int(sys.argv[1]))
package = sys.modules['agenteval.sandbox.inside'] = type(sys)('inside')
for name, module in marshal.loads(code):
    made = type(sys)(name)
    setattr(package, name, made)
    exec(module, made.__dict__)
"""
# The same over standard input, as text: the Python there is another one.
START_CONTAINED: Final = """\
import marshal, os, sys
def exactly(count):
    code = b''
    while len(code) < count:
        part = os.read(0, count - len(code))
        if not part: sys.exit()
        code += part
    return code
package = sys.modules['agenteval.sandbox.inside'] = type(sys)('inside')
for name, module in marshal.loads(exactly(int.from_bytes(exactly(4), 'big'))):
    made = type(sys)(name)
    setattr(package, name, made)
    exec(module, made.__dict__)
made.serve(0, 1)
"""
START_RUNNER: Final = BOOT + "made.serve(int(sys.argv[2]), int(sys.argv[2]))\n"
START_LAUNCHER: Final = (
    BOOT + "made.main(int(sys.argv[2]), code, sys.argv[3], warm=len(sys.argv) > 4)\n"
)
# As commands have it: what Python takes from it at its start, a fork of it cannot change.
LANGUAGE: Final = {"LANG": "C.UTF-8"}
CLEAN: Final = ("env", "-i", *(f"{name}={value}" for name, value in LANGUAGE.items()))
SCOPE_SECONDS: Final = 5.0


@cache
def shipped(*, until: str, compiled: bool) -> bytes:
    """The modules up to this one, in the order in which they import each other."""
    names = SHIPPED[: SHIPPED.index(until) + 1]
    modules = [(name, getsource(import_module(f"{INSIDE}.{name}"))) for name in names]
    if not compiled:
        return marshal.dumps(modules, wire.PORTABLE)
    return marshal.dumps([(name, compile(text, name, "exec")) for name, text in modules])


class Launcher:
    """One launcher process, started at the first world; it ends with this object, or with us.

    `groups` are the control groups of its worlds.
    """

    def __init__(self, python: Interpreter, *, warm: bool = False) -> None:
        """Set up the launcher; `warm` loads the modules that pre-forked scripts share, once."""
        self._python, self._warm = python, warm
        self.groups = Groups()
        self._control: socket.socket | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the launcher
        weakref.finalize(self, self._complaints.close)

    def world(self, kind: str, bounds: Mapping[str, int]) -> tuple[socket.socket, str]:
        """Start a sandbox; return our end of its socket, to be described there, and its group."""
        own_end, peer = socket.socketpair()
        with peer:
            own_end.setblocking(False)  # noqa: FBT003 - as the socket module has it
            try:
                return own_end, self._send(kind, peer, bounds)
            except BrokenPipeError:  # it was killed, and all its worlds with it
                self._control = None
                return own_end, self._send(kind, peer, bounds)

    def _send(self, kind: str, peer: socket.socket, bounds: Mapping[str, int]) -> str:
        control = self._control = self._control or self._start()
        group = self.groups.make(bounds)
        folders = [os.open(group, os.O_RDONLY | os.O_DIRECTORY)] if group else []
        try:
            socket.send_fds(control, [kind.encode()], [peer.fileno(), *folders])
        finally:
            for folder in folders:
                os.close(folder)
        return group

    def complaints(self) -> str:
        """Return the last line that a failed sandbox wrote: bubblewrap's, or a crash of ours."""
        size = os.fstat(self._complaints.fileno()).st_size
        tail = os.pread(self._complaints.fileno(), 4096, max(0, size - 4096))
        return tail.decode(errors="replace").strip().rpartition("\n")[2]

    def _start(self) -> socket.socket:
        """In a group of our own, else in one of systemd's, else in none."""
        group, lacking = own_group()
        before, environment = ([], {}) if group else scope()
        if before:
            control, process = self._started(launcher.SCOPE, [*before, *CLEAN], environment)
            group, refused = self._receive_group(control)
            if group:
                self.groups = Groups(group, process)
                return control
            control.close()
            lacking += f"; systemd-run: {refused}"
        control, process = self._started(group, [], {})
        self.groups = Groups(group, process, lacking)
        return control

    def _receive_group(self, control: socket.socket) -> tuple[str, str]:
        """Return the group that systemd made for the launcher; or "" and the reason."""
        control.settimeout(SCOPE_SECONDS)
        try:
            message = control.recv(4096).decode()
        except OSError:
            message = ""
        control.settimeout(None)
        if message.startswith("/"):
            return message, ""
        return "", message.removeprefix(launcher.LACKING) or self.complaints() or "no answer"

    def _started(
        self, group: str, before: list[str], environment: dict[str, str]
    ) -> tuple[socket.socket, int]:
        own_end, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source, sink = os.pipe()
        words = [*before, self._python.executable, "-I", "-S", "-c", START_LAUNCHER]
        words += [str(source), str(peer.fileno()), group, *(["warm"] if self._warm else [])]
        with peer, suppress(BrokenPipeError), os.fdopen(sink, "wb") as pipe:
            process = subprocess.Popen(
                words,
                cwd="/",
                env=LANGUAGE | environment,
                pass_fds=(source, peer.fileno()),
                start_new_session=True,  # Ctrl-C is for the evaluator: it closes what it opened
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
            )
            os.close(source)
            pipe.write(shipped(until="launcher", compiled=True))
        weakref.finalize(self, _end, own_end, process)
        return own_end, process.pid


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        control.send(launcher.END)
    control.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
