"""The launcher as the evaluator sees it, its control groups, and the content of a sandbox.

`own_group` and `Groups` are the evaluator's side of control groups: our own, and one below it for
each sandbox. `Launcher` starts that process under the right interpreter and asks it for sandboxes.
`World` is the content of a sandbox, the one description that every backend builds from;
`runner_spec` and `bounds` are its limits.
"""

import marshal
import math
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

from agenteval.errors import UsageError
from agenteval.protocols import HostedProgram
from agenteval.sandbox import seccomp
from agenteval.sandbox.inside import launcher, usage, wire
from agenteval.trial.trial import Limits


@cache
def own_group() -> tuple[str, str]:
    """Return the control group of this process, divided until it ends; or "" and the reason."""
    group = usage.of(os.getpid())
    try:
        if lacking := usage.lacking(group, _family):
            return "", lacking
        usage.divide(group)
    except OSError as error:
        return "", f"{error.filename}: {error.strerror}"
    # Registered before any launcher is: so it runs after all of them have ended.
    weakref.finalize(_family, usage.restore, group, os.getpid())
    return group, ""


def _family() -> set[int]:
    children = {process.pid for process in usage.processes()}
    return children | {os.getpid()}


def scope() -> tuple[list[str], dict[str, str]]:
    """Return words that start a program in a group of its own, by systemd, and their variables.

    Root asks the machine's systemd, anybody else his own. Without systemd there are no words.
    """
    words = ["--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]
    program = shutil.which("systemd-run")
    user = os.geteuid()
    folder = usage.SYSTEMD
    if user:
        words.insert(0, "--user")
        folder = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{user}")
    folders = {Path(usage.SYSTEMD), Path(folder)}
    if program is None or not all(map(Path.is_dir, folders)):
        return [], {}
    path = os.environ.get("PATH", os.defpath)
    return [program, *words], {"XDG_RUNTIME_DIR": folder, "PATH": path}


class Groups:
    """The control groups of one launcher's sandboxes, below `group`; none if that is "".

    `lacking` is why there are none. `held` is what the kernel limits in each.
    """

    def __init__(self, group: str = "", launcher: int = 0, lacking: str = "") -> None:
        self.group = group
        self._launcher = launcher
        self._number = 0
        self._dying: list[str] = []
        self.held = usage.controllers(group) if group else ()
        self.lacking = "" if group else lacking

    def make(self, bounds: Mapping[str, int]) -> str:
        """Make the group of the next sandbox; return "" if none can be made."""
        self.sweep()
        if not self.group:
            return ""
        self._number += 1
        try:
            return usage.make(self.group, f"{self._launcher}-{self._number}", bounds)
        except OSError as error:
            self.give_up(f"{error.filename}: {error.strerror}")
            return ""

    def began(self, group: str) -> None:
        """Give up on control groups if a new sandbox is not in its group."""
        if group and not usage.count(group, "cgroup.events", "populated"):
            self.give_up("this kernel starts no process in a control group (Linux 5.7 does)")

    def ended(self, group: str) -> None:
        """Remove the group of a sandbox that has ended, now or once its processes are dead."""
        if group and not usage.remove(group):
            self._dying.append(group)

    def sweep(self) -> None:
        """Remove those whose processes were still dying."""
        dying = self._dying
        self._dying = []
        for group in dying:
            self.ended(group)

    def give_up(self, reason: str) -> None:
        """Make no more."""
        self.group = ""
        self.held = ()
        self.lacking = reason


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`executable` is the program; `prefix` the folder to bind for it, "" for a system one."""

    executable: str
    prefix: str


def interpreter() -> Interpreter:
    """Return the base interpreter behind any virtual environment.

    It is bound at its own path, where its program looks for its libraries. Raises UsageError when
    binding its folder would show the user's home.
    """
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    executable = os.path.realpath(base)
    prefix = os.path.realpath(sys.base_prefix)
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


INSIDE = "agenteval.sandbox.inside"
SHIPPED = ("wire", "usage", "kernel", "prefork", "inquiry", "runner", "launcher")
# Loads the modules from a descriptor: nothing of ours needs to be visible where it runs.
BOOT = """\
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
START_CONTAINED = """\
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
START_RUNNER = BOOT + "made.serve(int(sys.argv[2]), int(sys.argv[2]))\n"
START_LAUNCHER = BOOT + "made.main(int(sys.argv[2]), code, sys.argv[3], warm=len(sys.argv) > 4)\n"
# As commands have it: what Python takes from it at its start, a fork of it cannot change.
LANGUAGE = {"LANG": "C.UTF-8"}
_ASSIGNMENTS = [f"{name}={value}" for name, value in LANGUAGE.items()]
CLEAN = ("env", "-i", *_ASSIGNMENTS)
SCOPE_SECONDS = 5.0


@cache
def shipped(*, until: str, compiled: bool) -> bytes:
    """Return the modules up to this one, in the order in which they import each other."""
    names = SHIPPED[: SHIPPED.index(until) + 1]
    sources = {name: getsource(import_module(f"{INSIDE}.{name}")) for name in names}
    if not compiled:
        return marshal.dumps([*sources.items()], wire.PORTABLE)
    # Code can be read by this very Python alone, text by any.
    code = [(name, compile(source, name, "exec")) for name, source in sources.items()]
    return marshal.dumps(code)


class Launcher:
    """One launcher process, started at the first world; it ends with this object, or with us.

    `groups` are the control groups of its worlds.
    """

    def __init__(self, python: Interpreter, *, warm: bool = False) -> None:
        """Set up the launcher; `warm` loads the modules that pre-forked scripts share, once."""
        self._python = python
        self._warm = warm
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
            except BrokenPipeError:
                # The launcher was killed, and all its sandboxes with it.
                self._control = None
                return own_end, self._send(kind, peer, bounds)

    def _send(self, kind: str, peer: socket.socket, bounds: Mapping[str, int]) -> str:
        self._control = self._control or self._start()
        group = self.groups.make(bounds)
        with ExitStack() as stack:
            descriptors = [peer.fileno()]
            if group:
                folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, folder)
                descriptors.append(folder)
            socket.send_fds(self._control, [kind.encode()], descriptors)
        return group

    def complaints(self) -> str:
        """Return the last line that a failed sandbox wrote: bubblewrap's, or a crash of ours."""
        file = self._complaints.fileno()
        start = os.fstat(file).st_size - 4096
        tail = os.pread(file, 4096, max(0, start))
        lines = tail.decode(errors="replace").strip()
        return lines.rpartition("\n")[2]

    def _start(self) -> socket.socket:
        """Start the launcher in a group of our own, else in one of systemd's, else in none."""
        group, lacking = own_group()
        prefix, environment = ([], {}) if group else scope()
        if prefix:
            prefix += CLEAN
            control, process = self._launch(launcher.SCOPE, prefix, environment)
            message = _receive_group(control)
            if message.startswith("/"):
                self.groups = Groups(message, process)
                return control
            control.close()
            reason = message.removeprefix(launcher.LACKING) or self.complaints() or "no answer"
            lacking += f"; systemd-run: {reason}"
        control, process = self._launch(group, [], {})
        self.groups = Groups(group, process, lacking)
        return control

    def _launch(
        self, group: str, prefix: list[str], environment: dict[str, str]
    ) -> tuple[socket.socket, int]:
        own_end, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source, sink = os.pipe()
        words = [*prefix, self._python.executable, "-I", "-S", "-c", START_LAUNCHER]
        words += [str(source), str(peer.fileno()), group]
        if self._warm:
            words.append("warm")
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


def _receive_group(control: socket.socket) -> str:
    """Return the group that systemd made for the launcher, or why there is none; "" if silent."""
    control.settimeout(SCOPE_SECONDS)
    try:
        return control.recv(4096).decode()
    except OSError:
        return ""
    finally:
        control.settimeout(None)


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        control.send(launcher.END)
    control.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_CONTENT_FILE = Path(__file__).with_name("world.toml")
_CONTENT = tomllib.loads(_CONTENT_FILE.read_text("utf-8"))
Rules = Sequence[tuple[str, str]]
WORKSPACE = "/workspace"
BIN = "/run/bin"
HOSTNAME = "sandbox"
SYSTEM = (*_CONTENT["system"], *_CONTENT["etc"])
SHOWN = (*SYSTEM, WORKSPACE, BIN, "/dev", "/proc", "/sys", "/tmp")  # noqa: S108 - its own
KILL_SECONDS = 12.0  # many processes with much to free take seconds to die
MASKED = _CONTENT["masked"]
COVERED = _CONTENT["covered"]
TEMPORARY = 32 << 20
SHARED_MEMORY = 16 << 20
ENVIRONMENT = _CONTENT["environment"]
UV = _CONTENT["files"][f"{BIN}/uv"]  # stands in for it where there is no network
DEVICE_LINKS = _CONTENT["device_links"]
BUBBLEWRAP = _CONTENT["bubblewrap"]


@dataclass(frozen=True, slots=True)
class World:
    """The content of a sandbox: read-only folders, links, small files, and sized tmpfs places.

    Folders stand at their own path. `masked` are files and folders that are covered. `shown` maps
    the place of what a hosted program has in addition to its source.
    """

    binds: tuple[str, ...]
    links: dict[str, str]
    files: dict[str, str]
    tmpfs: dict[str, tuple[int, int, int]]  # path: bytes, inodes, mode
    masked: tuple[str, ...]
    shown: dict[str, str] = field(default_factory=dict)

    def hosting(self, hosted: HostedProgram, limits: Limits) -> "World":
        """Return the same sandbox, with the places of a hosted program."""
        tmpfs = dict(self.tmpfs)
        for path, size in hosted.places.items():
            tmpfs[path] = size, limits.inodes + 1, 0o755
        return replace(self, shown=dict(hosted.shown), tmpfs=tmpfs)

    @property
    def rules(self) -> Rules:
        """Return the same for Landlock, the second layer."""
        sources = {path: path for path in self.binds}
        sources |= self.shown
        readable = ["/etc", "/run", "/proc"]
        readable += [place for place, path in sources.items() if Path(path).is_dir()]
        rules = [("/", "list")]
        rules += [(path, "read") for path in readable]
        rules += [(path, "write") for path in (*self.tmpfs, "/dev")]
        return rules


@cache
def world(python: Interpreter, limits: Limits) -> World:
    """Return the system read-only, an interpreter, a minimal /etc, and places of fixed size."""
    binds = []
    links = {}
    for path in filter(Path.exists, map(Path, SYSTEM)):
        if path.is_symlink():
            links[str(path)] = str(path.readlink())
        else:
            binds.append(str(path))
    if python.prefix:
        binds.append(python.prefix)
    for name in ("python3", "python"):
        links[f"{BIN}/{name}"] = python.executable
    unwanted = [*MASKED, *COVERED]
    masked = [path for path in unwanted if _is_to_cover(path, python)]
    # One more, so that the watch names the limit before the kernel refuses.
    inodes = limits.inodes + 1
    return World(
        binds=tuple(binds),
        links=links,
        files=_CONTENT["files"],
        tmpfs={
            WORKSPACE: (limits.workspace, inodes, 0o755),
            "/tmp": (TEMPORARY, inodes, 0o1777),  # noqa: S108 - the world's own
            "/dev/shm": (SHARED_MEMORY, inodes, 0o1777),  # noqa: S108 - the world's own
        },
        masked=tuple(masked),
    )


def _is_to_cover(path: str, python: Interpreter) -> bool:
    if Path(python.prefix or python.executable).is_relative_to(path):
        return False
    is_itself = os.path.realpath(path) == path
    return is_itself and Path(path).exists()


def runner_spec(
    limits: Limits,
    *,
    own_user: bool,
    prefork: bool = False,
    rules: Rules = (),
    hosts_program: bool = False,
) -> dict[str, Any]:
    """Return the settings of the runner.

    `own_user`: the kernel counts this sandbox's processes apart. With `hosts_program` an address
    space may have any size: its use of memory is watched as ever.
    """
    memory = 2 * limits.memory
    rlimits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_NOFILE": limits.open_files,
    }
    if not hosts_program:
        # Above the limit: the watch names it before malloc fails.
        rlimits["RLIMIT_AS"] = max(4 << 30, memory)
        rlimits["RLIMIT_DATA"] = memory
    if own_user:
        rlimits["RLIMIT_NPROC"] = limits.processes + 2
    return {
        "env": ENVIRONMENT,
        "kill_seconds": KILL_SECONDS,
        "limits": asdict(limits),
        "prefork": prefork,
        "rules": list(rules),
        "places": [WORKSPACE, "/tmp", "/dev/shm"],  # noqa: S108 - the world's own
        "rlimits": rlimits,
        "workspace": WORKSPACE,
    }


def bounds(limits: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of a sandbox's control group: above those of the watch, as a last wall.

    The sandbox's own files alone never reach them. There are as many processors as use up the CPU
    seconds of a call within its time.
    """
    kept = limits["workspace"] + TEMPORARY + SHARED_MEMORY
    cores = math.ceil(limits["cpu_seconds"] / limits["call_seconds"])
    return {
        "memory.max": max(limits["memory"], kept) + usage.SPARE,
        "memory.swap.max": 0,
        "pids.max": limits["processes"] + usage.EXTRA,
        "cpu.max": max(1, cores) * usage.PERIOD,
    }


def counts_processes_apart() -> bool:
    """Return True if RLIMIT_NPROC counts by user namespace (Linux 5.14), or does not count us."""
    if os.geteuid() == 0:
        return True
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    numbers = map(int, version.groups()) if version else ()
    return (*numbers,) >= (5, 14)


@cache
def syscall_filter(*, loopback: bool) -> str:
    """Return the seccomp filter of this machine, as text that survives JSON."""
    program = seccomp.sandbox_filter(platform.machine(), loopback=loopback)
    return program.decode("latin-1")
