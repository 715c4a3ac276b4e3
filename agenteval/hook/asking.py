"""A hook's question to the resident process: what `client.py` does for each call of a harness.

It imports nothing but what Python has built in: each module of the standard library would add to
the 8 ms that Python takes to start.

Exit code: 0 where the answer is given, 2 where the call is denied without one, 1 where it goes on
without one (`--fail open`, `--observe`). For `--for guard` the command takes this process's place.
"""

import _socket
import posix
import sys
import time

# Seconds for all, of which a first start of the resident takes some tenths
TIMEOUT = 8.0
# Seconds without an answer after which it is seen whether the resident runs
LOOK_AFTER = 0.25
# Bytes of a call: no harness sends as much
MOST = 1 << 24
# Who is at the other end: its user stands at the same place of both structures.
PEER = (
    # Struct ucred
    (_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if hasattr(_socket, "SO_PEERCRED")
    else (0, 1, 76)  # of macOS: SOL_LOCAL, LOCAL_PEERCRED, struct xucred
)


class NoAnswerError(Exception):
    """The reason why there is no answer."""


def folder() -> str:
    """Return the folder where this user's resident process listens and keeps its log.

    It is in XDG's state folder.
    """
    state_home = _variable("XDG_STATE_HOME")
    if state_home.startswith("/"):
        return f"{state_home}/agenteval/hook"
    home = _variable("HOME")
    return f"{home or f'/tmp/agenteval-{posix.getuid()}'}/.local/state/agenteval/hook"  # noqa: S108


def _variable(name: str) -> str:
    return posix.environ.get(name.encode(), b"").decode("utf-8", "surrogateescape")


def main(words: list[str]) -> int:
    """Ask about the call on standard input, or behind `--` for a guard."""
    cut = words.index("--") if "--" in words else len(words)
    options = words[:cut]
    shell = words[cut + 1 :]
    is_guard = _option(options, "--for") == "guard"
    try:
        if is_guard:
            payload = "\0".join(shell).encode("utf-8", "surrogateescape")
        else:
            payload = sys.stdin.buffer.read(MOST)
        code, out, err = ask(options, payload)
    except (OSError, ValueError, NoAnswerError) as error:
        return _unanswered(options, shell, str(error))
    for stream, said in ((sys.stdout, out), (sys.stderr, err)):
        stream.buffer.write(said)
        stream.flush()
    if is_guard and not code:
        _become(shell)
    return code


def _option(options: list[str], name: str) -> str:
    return options[options.index(name) + 1] if name in options[:-1] else ""


def _unanswered(
    options: list[str],
    shell: list[str],
    why: str,
) -> int:
    """Say why there is no answer, and return the exit code of the way that the hook fails."""
    way = "--observe" if "--observe" in options else f"--fail {_option(options, '--fail')}"
    is_open = way in {"--observe", "--fail open"}
    done = f"this call is not judged ({way})" if is_open else "denied (--fail closed)"
    sys.stderr.write(f"agenteval hook: no answer: {why}: {done}. See `agenteval hook status`\n")
    sys.stderr.flush()
    if is_open and _option(options, "--for") == "guard":
        _become(shell)
    return 1 if is_open else 2


def _become(shell: list[str]) -> None:
    """Be the shell that was guarded; bash would run a file that these variables name."""
    env = {name: text for name, text in posix.environ.items() if name not in (b"BASH_ENV", b"ENV")}
    for place in _places(shell[0]):
        try:
            posix.execve(place, shell, env)
        except OSError:
            continue
    sys.stderr.write(f"agenteval guard: {shell[0]}: cannot be run: name a shell that is there\n")


def _places(program: str) -> list[str]:
    if "/" in program:
        return [program]
    path = _variable("PATH") or "/usr/bin:/bin"
    return [f"{place or '.'}/{program}" for place in path.split(":")]


def ask(options: list[str], payload: bytes) -> tuple[int, bytes, bytes]:
    """Return the resident's exit code, and the texts for standard output and error."""
    here = posix.getcwd()
    place = folder()
    until = time.monotonic() + TIMEOUT
    check_folder(place)
    # A socket's path may have no more than 107 bytes
    posix.chdir(place)
    try:
        talk, pid = _connected(place, until)
    finally:
        posix.chdir(here)
    project = _variable("CLAUDE_PROJECT_DIR")
    words = [f"cwd={here}", f"CLAUDE_PROJECT_DIR={project}", *options]
    head = "\0".join(words).encode("utf-8", "surrogateescape")
    _send(
        talk,
        b"%d\n%b%b" % (len(head), head, payload),
        pid,
        until,
    )
    talk.shutdown(_socket.SHUT_WR)
    answer = b""
    while part := _received(talk, pid, until):
        answer += part
    code, length, rest = answer.split(b"\n", 2) if answer.count(b"\n") > 1 else (b"", b"", b"")
    if not code:
        raise NoAnswerError("the resident process broke off")
    return int(code), rest[: int(length)], rest[int(length) :]


def check_folder(place: str) -> None:
    """Make the folder where there is none; it is this user's own, and nobody else may open it.

    Nobody but this user and root may put another in its place, or could have.
    """
    at = ""
    for part in place.split("/")[1:]:
        at = f"{at}/{part}"
        try:  # noqa: SIM105 -- contextlib would be imported for each call
            posix.mkdir(at, 0o700)
        except FileExistsError:
            pass
        if {posix.lstat(at).st_uid, posix.stat(at).st_uid} - {0, posix.getuid()}:
            raise NoAnswerError(f"{at} is another user's: set XDG_STATE_HOME to a folder of yours")
        # In a sticky folder nobody renames what is another user's.
        if at != place and posix.stat(at).st_mode & 0o1002 == 0o002:
            raise NoAnswerError(f"everybody may write to {at}: chmod o-w it")
    there = posix.lstat(place)
    if there.st_mode & 0o170000 != 0o040000:
        raise NoAnswerError(f"{place} is a link or no folder: move it out of the way")
    if there.st_uid != posix.getuid() or there.st_mode & 0o077:
        raise NoAnswerError(f"{place} is open to others: chmod 700 it, as its owner")


def _connected(place: str, until: float) -> "tuple[_socket.socket, int]":
    """Return the way to the resident process, which is started if there is none, and its number."""
    started = False
    while time.monotonic() < until:
        talk = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        # Without it a full queue is waited for without an end
        talk.settimeout(LOOK_AFTER)
        try:
            talk.connect("socket")
        except (FileNotFoundError, ConnectionRefusedError):
            if not started:
                started = True
                _start(place)
        except (BlockingIOError, TimeoutError):
            # As many wait as may
            _check_running(_kept_number())
        else:
            return talk, _number(talk)
        time.sleep(0.01)
    raise NoAnswerError(f"the resident process takes no call: see {place}/resident.err")


def _number(talk: "_socket.socket") -> int:
    """Return the process at the other end, which is this user's; 0 if the system gives none."""
    peer = talk.getsockopt(*PEER)
    if int.from_bytes(peer[4:8], sys.byteorder) != posix.getuid():
        raise NoAnswerError("the socket is another user's")
    return int.from_bytes(peer[:4], sys.byteorder) if PEER[2] == 12 else 0


def _kept_number() -> int:
    try:
        file = posix.open("pid", posix.O_RDONLY)
    except OSError:
        return 0
    number = posix.read(file, 20).strip()
    posix.close(file)
    return int(number) if number.isdigit() else 0


def _check_running(pid: int) -> None:
    """Raise NoAnswerError for a process that is stopped: it would be waited for in vain."""
    try:
        file = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY)
        state = posix.read(file, 4096).rpartition(b")")[2].split()[0]
        posix.close(file)
    except (OSError, IndexError):  # of another system, or gone: then the socket says so
        return
    if state in (b"T", b"t"):
        raise NoAnswerError(f"the resident process {pid} is stopped: `agenteval hook stop` ends it")


def _send(
    talk: "_socket.socket",
    question: bytes,
    pid: int,
    until: float,
) -> None:
    rest = memoryview(question)
    while rest:
        talk.settimeout(LOOK_AFTER)
        try:
            rest = rest[talk.send(rest) :]
        except TimeoutError:
            _check_in_time(pid, until)


def _received(
    talk: "_socket.socket",
    pid: int,
    until: float,
) -> bytes:
    talk.settimeout(LOOK_AFTER)
    while True:
        try:
            return talk.recv(1 << 16)
        except TimeoutError:
            _check_in_time(pid, until)


def _check_in_time(pid: int, until: float) -> None:
    _check_running(pid)
    if time.monotonic() > until:
        raise NoAnswerError(f"the resident process takes longer than {TIMEOUT:g} s")


def _start(place: str) -> None:
    """Start the resident process, which belongs to nobody's session and holds nobody's files."""
    output = posix.O_WRONLY
    log = output | posix.O_CREAT | posix.O_APPEND
    files = [
        (
            posix.POSIX_SPAWN_OPEN,
            0,
            "/dev/null",
            posix.O_RDONLY,
            0,
        ),
        (posix.POSIX_SPAWN_OPEN, 1, "/dev/null", output, 0),
        (posix.POSIX_SPAWN_OPEN, 2, "resident.err", log, 0o600),
    ]
    words = [
        sys.executable,
        "-P",
        "-E",
        "-m",
        "agenteval.hook.resident",
        place,
    ]
    posix.posix_spawn(
        sys.executable,
        words,
        posix.environ,
        file_actions=files,
        setsid=True,
    )
