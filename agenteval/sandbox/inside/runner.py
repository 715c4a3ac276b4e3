"""The runner: first process of a trial's sandbox, at the evaluator's call until it hangs up.

`serve` answers requests. A call starts a program, gathers its output, watches its limits, and
leaves nothing running (`Call`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import errno
import os
import resource
import select
import time

from agenteval.sandbox.inside import inquiry, kernel, prefork, usage, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Reply = tuple[wire.Message, bytes]
LOOK_FIRST = 0.01
LOOK_EVERY = 0.05
NORMAL = [_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT, _signal.SIGCHLD]


def serve(inlet: int, outlet: int) -> None:
    """Answer requests until the peer closes.

    Never returns: the process ends, and its sandbox with it.
    """
    spec: wire.Message = {}
    try:
        first = wire.receive(inlet)
        if first is None:
            return
        spec = first[0]
        _set_up(inlet, outlet, spec)
        runner = Runner(inlet, spec)
        wire.reply(outlet, {"ready": True})
        while (frame := wire.receive(inlet)) is not None:
            wire.reply(outlet, *_answer(runner, *frame))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the evaluator hung up while we spoke
    except OSError as error:
        fault = {"errno": error.errno, "error": str(error)}
        wire.reply(outlet, fault)
    finally:
        _remove(spec.get("folder", ""))
        os._exit(0)


def _remove(folder: str) -> None:
    """Remove the folder, if no filesystem ends with us: its maker may have been killed."""
    if folder:
        os.chdir("/")
        os.spawnv(os.P_WAIT, "/bin/rm", ["rm", "-rf", folder])


def _set_up(inlet: int, outlet: int, spec: wire.Message) -> None:
    # Else a command could write our memory through /proc/1/mem.
    kernel.prctl(kernel.DUMPABLE, 0)
    os.set_inheritable(inlet, False)
    os.set_inheritable(outlet, False)
    os.umask(0o022)
    # A handler would let commands signal us.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    os.chdir(spec["workspace"])
    # Only in a container: elsewhere the builder of the sandbox has installed one.
    if "filters" in spec:
        kernel.install_filter(spec["filters"][kernel.MACHINE])
    if spec["rules"]:
        has_loopback = spec["limits"]["loopback"]
        kernel.landlock(spec["rules"], loopback=has_loopback)
    for name, value in spec["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def _answer(runner: Runner, request: wire.Message, body: bytes) -> Reply:
    try:
        return _act(runner, request, body)
    except OSError as error:
        reply = {
            "errno": error.errno or errno.EIO,
            "error": error.strerror or str(error),
            "path": error.filename or "",
        }
        return reply, b""
    except ValueError as error:  # a NUL byte or a lone surrogate: no file can be called so
        return {
            "errno": errno.EINVAL,
            "error": str(error),
            "path": "",
        }, b""


def _act(runner: Runner, request: wire.Message, body: bytes) -> Reply:
    reply: wire.Message = {}
    content = b""
    match request["do"]:
        case "run":
            reply, content = runner.run(request["argv"], request["seconds"])
            reply |= _stamp_at_end(reply, request["watched"])
        case "ask":
            reply, content = runner.ask(request["size"])
        case "judge":
            reply, content = runner.judge(request["size"])
        case "write":
            _write_all(runner, request, body)
        case "read":
            content = wire.read_file(request["path"], runner.limits["file_size"])
        case "read lines":
            content, cut = wire.read_lines(
                request["path"],
                request["first"],
                request["count"],
                keep=runner.limits["output_kept"],
                most=runner.limits["file_size"],
            )
            reply = {"cut": cut}
        case "stamp":
            reply = {"stamp": wire.stamp(request["paths"])}
        case other:
            reply = {"error": f"no request {other!r}"}
    return reply, content


def _stamp_at_end(reply: wire.Message, watched: list[str]) -> wire.Message:
    """Return the stamp of these files, if nothing can change them before the next request.

    What a command leaves running is dead. Only where no namespace of processes is ours may it have
    asked somebody else to go on.
    """
    is_clean = reply.get("clean", True)
    if not watched or not is_clean or os.getpid() != 1:
        return {}
    return {"stamp": wire.stamp(watched)}


def _write_all(runner: Runner, request: wire.Message, body: bytes) -> None:
    start = 0
    for path, size in request["files"]:
        content = body[start : start + size]
        wire.write_file(".", path, content)
        if request["fixture"] and runner.prefork:
            runner.scripts.pin(path, content)
        start += size


# One call.


class RefusedError(Exception):
    """The program cannot be started; `code` and the text are bash's."""

    def __init__(self, code: int, program: str, why: str) -> None:
        super().__init__(f"bash: {program}: {why}\n")
        self.code = code


class Runner:
    """The state that all calls of a trial share. When `peer` closes, which is watched, all ends."""

    def __init__(self, peer: int, spec: wire.Message) -> None:
        self.peer = peer
        self.env: dict[str, str] = spec["env"]
        self.limits: dict[str, int] = spec["limits"]
        self.kill_seconds: float = spec["kill_seconds"]
        self.places: list[str] = spec["places"]
        self.prefork: bool = spec["prefork"]
        self.scripts = prefork.Scripts(self.env)
        self.memory_group = usage.memory_group()
        self.bell, ringer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)  # the bell rings only for handled signals
        _signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)

    def run(self, argv: list[str], seconds: float) -> Reply:
        def start_program(nothing: int, sink: int) -> int:
            return self._start(argv, [nothing, sink, sink])

        return self._follow(start_program, seconds)

    def ask(self, size: int) -> Reply:
        """Query the trial's database; the queries are the next bytes of the peer."""
        inquiry.prepare()
        # The kernel limits what it may use: there is nothing to look for.
        return self._judge(size, inquiry.act, inquiry.WALL_SECONDS, look=inquiry.WALL_SECONDS)

    def judge(self, size: int) -> Reply:
        """Run a program of the scenario's; it is the next bytes of the peer."""
        seconds = self.limits["call_seconds"]

        def run_test(order: wire.Message) -> tuple[int, bytes]:
            return prefork.run_test(order, self.env)

        return self._judge(size, run_test, seconds)

    def _judge(
        self,
        size: int,
        act: prefork.Act,
        seconds: float,
        look: float = LOOK_FIRST,
    ) -> Reply:
        def start_judge(nothing: int, sink: int) -> int:
            return prefork.start_judge(self.peer, size, nothing, sink, act)

        return self._follow(start_judge, seconds, look)

    def _follow(
        self, start_child: Callable[[int, int], int], seconds: float, look: float = LOOK_FIRST
    ) -> Reply:
        """Start a child that has no input; return what became of it, and its output."""
        started = time.perf_counter()
        source, sink = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(source, False)
        # Opened anew each time: a command can mark or lock it.
        nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            child = start_child(nothing, sink)
        except RefusedError as refused:
            os.close(source)
            spent = time.perf_counter() - started
            reply = {"code": refused.code, "limit": "", "cut": False, "seconds": spent}
            return reply, str(refused).encode()
        finally:
            os.close(sink)
            os.close(nothing)
        call = Call(self, child, source)
        try:
            limit = call.watch(started + seconds, started + look)
            clean = call.kill_all()
            call.drain()
        finally:
            os.close(source)
        status = call.statuses.get(child)
        code = None if status is None else os.waitstatus_to_exitcode(status)
        reply = {
            "code": code,
            "cut": call.total > len(call.output),
            "clean": clean,
            "killed": bool(limit),
            "limit": limit or call.struck_unnoticed(code),
            "seconds": time.perf_counter() - started,
        }
        return reply, bytes(call.output)

    def _start(self, argv: list[str], streams: list[int]) -> int:
        words = self.scripts.words(argv)
        if words is not None:
            try:
                return self.scripts.start(words, streams)
            except OSError:
                pass  # no process is to be had: the exec says so in bash's words
        return _start(argv, self.env, streams)


class Call:
    """One running command. `statuses` holds what was reaped, `output` what is kept of its output.

    `total` are all bytes that it wrote. `full` is a limit of the disks that it met.
    """

    def __init__(self, runner: Runner, child: int, source: int) -> None:
        self.runner = runner
        self.child = child
        self.source = source
        self.statuses: dict[int, int] = {}
        self.output = bytearray()
        self.total = 0
        self.full = ""
        self.inodes_before = usage.inodes(runner.places)
        self.kills_before = usage.kernel_kills(runner.memory_group)
        self.meter = usage.Meter()

    def watch(self, deadline: float, look: float) -> str:
        """Wait until the child has ended or a limit strikes; return the limit, or "".

        `look` is the time of the first look at what it uses.
        """
        limits = self.runner.limits
        poll = select.poll()
        for fd in (self.source, self.runner.bell, self.runner.peer):
            poll.register(fd, select.POLLIN)
        while True:
            seconds = min(deadline, look) - time.perf_counter()
            events = poll.poll(max(0.0, seconds) * 1000 + 0.5)
            ready = {fd for fd, _ in events}
            # Nobody speaks during a call: the evaluator is gone.
            if self.runner.peer in ready:
                self.kill_all()
                raise SystemExit
            if self.source in ready and not self._gather():
                poll.unregister(self.source)
            if self.runner.bell in ready and self._reap():
                return ""
            now = time.perf_counter()
            if self.total > limits["output_killed"]:
                return "output"
            if now >= deadline:
                return "wall-time"
            if now >= look:
                if limit := self._look(deadline):
                    return limit
                look = time.perf_counter() + LOOK_EVERY

    def _look(self, deadline: float) -> str:
        runner = self.runner
        try:
            limit = usage.struck(runner.limits, runner.places, self.meter, deadline)
        except (OSError, MemoryError):  # the kernel has no more for us either
            return "memory"
        if limit:
            return limit
        self._look_at_disks()
        # Not every backend can have the kernel refuse more inodes.
        return self.full if self._is_out_of_inodes() else ""

    def _look_at_disks(self) -> None:
        full = usage.full(self.runner.limits, self.runner.places)
        self.full = full or self.full

    def struck_unnoticed(self, code: int | None) -> str:
        """Return the limit that the kernel enforced on a command, which then ended by itself."""
        if code in {-_signal.SIGXFSZ, 128 + _signal.SIGXFSZ}:
            return "file-size"
        if code and usage.kernel_kills(self.runner.memory_group) > self.kills_before:
            return "memory"  # before we looked
        self._look_at_disks()
        return self.full if code or self._is_out_of_inodes() else ""

    def _is_out_of_inodes(self) -> bool:
        """Return True if inodes are used up, and this command used some."""
        if self.full != "inodes":
            return False
        return usage.inodes(self.runner.places) > self.inodes_before

    def _gather(self) -> bool:
        """Read what is there; False at the end of it."""
        try:
            part = os.read(self.source, 1 << 16)
        except BlockingIOError:
            return True
        self.total += len(part)
        space = self.runner.limits["output_kept"] - len(self.output)
        self.output += part[: max(0, space)]
        return bool(part)

    def drain(self) -> None:
        """Read what stood in the pipe when its writers died: at most one pipe's buffer."""
        end = self.total + self.runner.limits["output_killed"]
        while self.total < end:
            before = self.total
            if not self._gather() or self.total == before:
                return

    def _reap(self) -> bool:
        try:
            while os.read(self.runner.bell, 512):
                pass
        except BlockingIOError:
            pass
        self._wait_for_all()
        return self.child in self.statuses

    def _wait_for_all(self) -> bool:
        """Reap the children that have ended; return True when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            # The first of a number is ours: numbers come round again.
            self.statuses.setdefault(pid, status)

    def kill_all(self) -> bool:
        """Kill and reap everything that this trial runs; False when something would not die."""
        until = time.perf_counter() + self.runner.kill_seconds
        while not self._wait_for_all():
            _kill_others()
            if time.perf_counter() > until:
                return False
            select.select([self.runner.bell], [], [], 0.005)
            self._reap()
        return True


def _kill_others() -> None:
    pids = [-1]  # as process 1: all of the namespace but ourselves
    if os.getpid() != 1:
        pids = [process.pid for process in usage.processes()]
    for pid in pids:
        try:
            os.kill(pid, _signal.SIGKILL)
        except ProcessLookupError:
            pass


def _start(argv: list[str], env: dict[str, str], streams: list[int]) -> int:
    """Start a program in its own session. Raises RefusedError, with bash's exit code and text."""
    program = argv[0] if argv else ""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]

    def spawn(path: str, words: list[str]) -> int:
        return os.posix_spawn(
            path,
            words,
            env,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=NORMAL,
        )

    try:
        path = _locate(program, env["PATH"])
        try:
            return spawn(path, argv)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return spawn("/bin/sh", ["/bin/sh", path, *argv[1:]])  # as a shell does: no #! line
    except FileNotFoundError:
        raise RefusedError(127, program, "bad interpreter: No such file or directory") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise RefusedError(126, program, reason) from None
    except ValueError as error:  # a NUL byte or a lone surrogate: no program can be called so
        raise RefusedError(126, ascii(program), str(error)) from None


def _locate(program: str, path: str) -> str:
    """Return the file that bash would execute for this word. Raises RefusedError."""
    is_path = "/" in program
    names = [program]
    if program and not is_path:
        names = [f"{folder}/{program}" for folder in path.split(":")]
    files = [*filter(os.path.isfile, names)]
    for name in files:
        if os.access(name, os.X_OK):
            return name
    if is_path and os.path.isdir(program):
        raise RefusedError(126, program, "Is a directory")
    if files:
        raise RefusedError(126, program, "Permission denied")
    reason = "No such file or directory" if is_path else "command not found"
    raise RefusedError(127, program, reason)
