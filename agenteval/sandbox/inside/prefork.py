"""Forks of the runner: a fixture's own scripts and a scenario's judges, in a warm Python.

A fork that runs a script does what `python3 SCRIPT` would do, without Python's start.

A fork that judges takes its order off the socket itself: the runner never holds it. A pre-forked
script is a copy of the runner's memory, and may run what a model wrote. So a judge's order
(queries, programs, the right answer) and its report must never have been there: the order goes past
the runner, and the report goes through it in a form that it cannot read.
"""

from __future__ import annotations

import _sha3  # type: ignore[import-not-found]  # hashlib loads OpenSSL
import _signal  # type: ignore[import-not-found]  # as signal, which loads enum first
import atexit
import builtins
import gc
import io
import marshal
import os
import stat
import sys

from agenteval.sandbox.inside import kernel, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    Act = Callable[[wire.Message], tuple[int, bytes]]
CALLS = (
    ["uv", "run", "--script"],
    ["uv", "run"],
    ["python3"],
    ["python"],
)
# What scripts import most, and what argparse and sqlite3 import when they are used.
PRELOADED = ("argparse", "datetime", "json", "math", "pathlib", "re", "shutil", "sqlite3")
# Beyond that the kernel may refuse an exec.
MAX_ARGV_BYTES = 100_000
CRASHED = 125
# Every script has these of its own.
OF_EACH = {"__main__", "builtins", "sys"}


def warm(names: Iterable[str] = PRELOADED) -> None:
    """Import what is worth it. Nothing that a command wrote is on the path here."""
    for name in names:
        __import__(name)
    gc.freeze()  # else each fork walks, and so copies, all of it when it ends


class Scripts:
    """The pinned scripts of a trial; each is forked only while an exec would do the same.

    That is: its file is as it was, and no file that a command made would be imported before ours.
    """

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.pinned: dict[str, bytes] = {}
        # Top-level names of the modules that are imported already, once they are.
        self.loaded: set[str] = set()

    def pin(self, path: str, content: bytes) -> None:
        if path.endswith(".py"):
            self.pinned[path] = content

    def words(self, argv: list[str]) -> list[str] | None:
        """Return the script and its arguments, as they would arrive; None if an exec must run."""
        calls = [call for call in CALLS if argv[: len(call)] == call]
        start = len(calls[0]) if calls else len(argv)
        words = argv[start:]
        if not words or words[0] not in self.pinned:
            return None
        try:
            raw = [os.fsencode(word) for word in words]
            is_same = self._runs_the_same(words[0])
        except (OSError, ValueError):
            return None
        arguments = b"".join(raw)
        if not is_same or len(arguments) > MAX_ARGV_BYTES or b"\0" in arguments:
            return None
        return [os.fsdecode(word) for word in raw]

    def _runs_the_same(self, path: str) -> bool:
        content = self.pinned[path]
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        if wire.read_file(path, len(content)) != content:
            return False
        # A user's site, with its start-up files.
        if os.path.lexists(f"{self.env['HOME']}/.local"):
            return False
        self._load()
        folder = os.path.dirname(path) or "."
        neighbours = os.listdir(folder)
        stems = {name.partition(".")[0] for name in neighbours}
        return bool(self.pinned) and self.loaded.isdisjoint(stems)

    def _load(self) -> None:
        if self.loaded:
            return
        import site  # noqa: PLC0415 - once per trial, and only where a script is called

        spared = _spare_at_exit()
        site.main()  # the runner was started without it
        site.enablerlcompleter()
        texts = b"".join(self.pinned.values())
        warm(name for name in PRELOADED if name.encode() in texts)
        for name, module in sys.modules.items():
            if name not in OF_EACH:
                spared[name] = module
        # A site file of this machine may have started a thread: then no fork is safe.
        if len(sys._current_frames()) > 1:  # noqa: SLF001
            self.pinned.clear()
        self.loaded = {name.partition(".")[0] for name in sys.modules}

    def start(self, words: list[str], streams: list[int]) -> int:
        """Fork a child that runs the script in its own session. Raises OSError."""
        child = os.fork()
        if child:
            return child
        try:
            detach(streams)
            kernel.prctl(kernel.DUMPABLE, 1)
            _become(words, self.env)
        finally:
            os._exit(CRASHED)


def _spare_at_exit() -> dict[str, object]:
    """Keep what is put in here until its process ends.

    To take it apart took half the time of a script. The function that is registered first is called
    last, when nothing but finalizers is left to run.
    """
    spared: dict[str, object] = {}
    kernel.hold(spared)

    def forget_modules() -> None:
        for name in spared:
            sys.modules.pop(name, None)

    atexit.register(forget_modules)
    return spared


def detach(streams: list[int]) -> None:
    """Leave the runner's session, signals and descriptors, as an exec would."""
    os.setsid()
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(len(streams), os.sysconf("SC_OPEN_MAX"))


def _become(words: list[str], env: dict[str, str]) -> NoReturn:
    """Do what Python does between its start and the first line of a script, and all after that."""
    path = f"{os.getcwd()}/{words[0]}"
    folder = os.path.dirname(os.path.realpath(path))
    sys.argv = words
    sys.orig_argv = ["python3", *words]
    sys.path.insert(0, folder)
    furnish(env)
    kernel.run_main(os.fsencode(path))


def furnish(env: dict[str, str]) -> None:
    """Make environment, streams and `__main__` as a Python that was just started has them."""
    os.environ.clear()
    os.environ.update(env)
    sys.executable = sys._base_executable = _which("python3", env["PATH"])  # type: ignore[attr-defined]  # noqa: SLF001
    _open_streams()
    _renew_main()


def _which(program: str, path: str) -> str:
    places = (f"{folder}/{program}" for folder in path.split(":"))
    return next(filter(os.path.isfile, places), sys.executable)


def _open_streams() -> None:
    streams = (
        ("stdin", "r", "surrogateescape"),
        ("stdout", "w", "surrogateescape"),
        ("stderr", "w", "backslashreplace"),
    )
    for fd, description in enumerate(streams):
        name, mode, errors = description
        binary = open(fd, f"{mode}b", closefd=False)  # noqa: SIM115 - as long as we live
        binary.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        stream = io.TextIOWrapper(binary, "utf-8", errors, "\n", line_buffering=fd == 2)
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _renew_main() -> None:
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    for name in [*sys.modules]:
        if name.startswith("agenteval."):
            del sys.modules[name]


# Judges.

READ = b"!"  # a child has its order
OUTLET = 3  # the descriptor of a child's report; its own streams are empty


def start_judge(peer: int, size: int, nothing: int, sink: int, act: Act) -> int:
    """Fork a child that reads `size` bytes and acts on them; return once they are read.

    `act` returns its exit code and its output. The child stays as unreadable for others as the
    runner is. If it cannot be made or does not read to the end, the socket is of no use any more,
    and everything ends.
    """
    source, sign = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
    except OSError:
        raise SystemExit from None
    if child == 0:
        try:
            order = wire.exactly(peer, size)
            if order is not None:
                os.write(sign, READ)
                detach([nothing, nothing, nothing, sink])
                os.set_inheritable(OUTLET, False)
                _do(act, marshal.loads(order))
        finally:
            os._exit(CRASHED)
    os.close(sign)
    answer = os.read(source, 1)
    os.close(source)
    if answer != READ:
        raise SystemExit
    return child


def _do(act: Act, order: wire.Message) -> None:
    code, report = act(order)
    wire.write(OUTLET, sealed(order["key"], report))
    os._exit(code)


def sealed(key: bytes, content: bytes) -> bytes:
    """Return the XOR with a one-time pad from the key; applied twice, it gives the text back."""
    size = len(content)
    pad = _sha3.shake_256(key).digest(size)
    number = int.from_bytes(content, "little")
    number ^= int.from_bytes(pad, "little")
    return number.to_bytes(size, "little")


HELP = "agenteval_test"  # what programs import


def run_test(order: wire.Message, env: dict[str, str]) -> tuple[int, bytes]:
    """Run the program as a Python that was just started would.

    Only one that comes to its end prints `order["word"]`, which nobody else knows, as its last
    word.
    """
    furnish(env)
    sys.argv = ["-c", order["argument"]]
    sys.orig_argv = ["python3", "-c"]
    output = sys.stdout = sys.stderr = io.StringIO()
    module = sys.modules[HELP] = type(sys)(HELP)
    program = compile(order["help"], HELP, "exec")
    exec(program, module.__dict__)  # noqa: S102 - our own
    has_ended = module.begin(order)
    text = output.getvalue()
    code = 1
    if has_ended:
        code = 0
        text += order["word"]
    return code, text.encode(errors="replace")
