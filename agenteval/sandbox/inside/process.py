"""One call: start a program, gather its output, watch its limits, leave nothing running."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import errno
import os
import select
import time

from agenteval.sandbox.inside import inquiry, prefork, usage, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
LOOK_FIRST = 0.01
LOOK_EVERY = 0.05
NORMAL = [_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT, _signal.SIGCHLD]


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

    def run(self, argv: list[str], seconds: float) -> tuple[wire.Message, bytes]:
        def start_program(nothing: int, sink: int) -> int:
            return self._start(argv, [nothing, sink, sink])

        return self._follow(start_program, seconds)

    def ask(self, size: int) -> tuple[wire.Message, bytes]:
        """Query the trial's database; the queries are the next bytes of the peer."""
        inquiry.prepare()

        def start_inquiry(nothing: int, sink: int) -> int:
            return prefork.start_judge(self.peer, size, nothing, sink, inquiry.act)

        # The kernel limits what it may use: there is nothing to look for.
        return self._follow(start_inquiry, inquiry.WALL_SECONDS, look=inquiry.WALL_SECONDS)

    def judge(self, size: int) -> tuple[wire.Message, bytes]:
        """Run a program of the scenario's; it is the next bytes of the peer."""

        def run_test(order: wire.Message) -> tuple[int, bytes]:
            return prefork.run_test(order, self.env)

        def start_test(nothing: int, sink: int) -> int:
            return prefork.start_judge(self.peer, size, nothing, sink, run_test)

        return self._follow(start_test, self.limits["call_seconds"])

    def _follow(
        self, start_child: Callable[[int, int], int], seconds: float, look: float = LOOK_FIRST
    ) -> tuple[wire.Message, bytes]:
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
            seconds = time.perf_counter() - started
            reply = {"code": refused.code, "limit": "", "cut": False, "seconds": seconds}
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
        return start(argv, self.env, streams)


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
            wait = max(0.0, min(deadline, look) - time.perf_counter())
            ready = {fd for fd, _ in poll.poll(wait * 1000 + 0.5)}
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
        limits = self.runner.limits
        places = self.runner.places
        try:
            if limit := usage.struck(limits, places, self.meter, deadline):
                return limit
        except (OSError, MemoryError):  # the kernel has no more for us either
            return "memory"
        self.full = usage.full(limits, places) or self.full
        # Not every backend can have the kernel refuse more inodes.
        return self.full if self._is_out_of_inodes() else ""

    def struck_unnoticed(self, code: int | None) -> str:
        """Return the limit that the kernel enforced on a command, which then ended by itself."""
        if code in {-_signal.SIGXFSZ, 128 + _signal.SIGXFSZ}:
            return "file-size"
        if code and usage.kernel_kills(self.runner.memory_group) > self.kills_before:
            return "memory"  # before we looked
        self.full = usage.full(self.runner.limits, self.runner.places) or self.full
        return self.full if code or self._is_out_of_inodes() else ""

    def _is_out_of_inodes(self) -> bool:
        """Return True if inodes are used up, and this command used some."""
        return self.full == "inodes" and usage.inodes(self.runner.places) > self.inodes_before

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
            # As process 1, -1 is all of the namespace but ourselves.
            pids = [-1]
            if os.getpid() != 1:
                pids = [process.pid for process in usage.processes()]
            for pid in pids:
                try:
                    os.kill(pid, _signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.perf_counter() > until:
                return False
            select.select([self.runner.bell], [], [], 0.005)
            self._reap()
        return True


def start(argv: list[str], env: dict[str, str], streams: list[int]) -> int:
    """Start a program in its own session. Raises RefusedError, with bash's exit code and text."""
    program = argv[0] if argv else ""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]

    def spawn(path: str, words: list[str]) -> int:
        return os.posix_spawn(
            path, words, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=NORMAL
        )

    try:
        path = locate(program, env["PATH"])
        try:
            return spawn(path, argv)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return spawn("/bin/sh", ["/bin/sh", path, *argv[1:]])  # as a shell does: no #! line
    except FileNotFoundError:
        raise RefusedError(127, program, "bad interpreter: No such file or directory") from None
    except OSError as error:
        raise RefusedError(126, program, error.strerror or str(error)) from None
    except ValueError as error:  # a NUL byte or a lone surrogate: no program can be called so
        raise RefusedError(126, ascii(program), str(error)) from None


def locate(program: str, path: str) -> str:
    """Return the file that bash would execute for this word. Raises RefusedError."""
    here = "/" in program
    names = [program] if here else [f"{folder}/{program}" for folder in path.split(":")]
    for name in names if program else ():
        if os.path.isfile(name) and os.access(name, os.X_OK):
            return name
    if here and os.path.isdir(program):
        raise RefusedError(126, program, "Is a directory")
    if program and any(map(os.path.isfile, names)):
        raise RefusedError(126, program, "Permission denied")
    raise RefusedError(127, program, "No such file or directory" if here else "command not found")
