"""Traffic between the evaluator and a runner: frames, and the files of the workspace.

A frame is two lengths, a message, then raw bytes. Requests are marshalled: the runner trusts the
evaluator, and loading json would cost a third of its start. Replies are JSON: the evaluator trusts
nobody. Files are written and read from within the sandbox, so that no link or FIFO leads to the
host.
"""

from __future__ import annotations

import errno
import marshal
import os
import stat
import time
from _json import encode_basestring_ascii as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    Message = dict[str, Any]
HEADER = 8
# No honest frame is bigger; a length beyond it is a broken peer.
LARGEST = 1 << 28
# Of floats: an infinite one is no JSON.
GREATEST = 1.7976931348623157e308
PORTABLE = 2  # a version of marshal that every Python 3 reads


def request(message: Message, body: bytes = b"") -> bytes:
    """Return a frame for the runner; the message holds plain values only."""
    return frame(marshal.dumps(message, PORTABLE), body)


def lengths(header: bytes) -> tuple[int, int]:
    """Return how many bytes of message and of body follow.

    Raises ValueError for an absurd number.
    """
    text = int.from_bytes(header[:4], "big")
    body = int.from_bytes(header[4:], "big")
    if text + body > LARGEST:
        raise ValueError(f"a frame of {text + body} bytes")
    return text, body


def reply(fd: int, message: Message, body: bytes = b"") -> None:
    """Answer the evaluator."""
    text = json(message).encode()
    write(fd, frame(text, body))


def write(fd: int, content: bytes) -> None:
    """Write all of it, in as many parts as the descriptor takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def receive(fd: int) -> tuple[Message, bytes] | None:
    """Return the next request, or None when the peer is gone."""
    if (header := exactly(fd, HEADER)) is None:
        return None
    text, body = lengths(header)
    if (payload := exactly(fd, text + body)) is None:
        return None
    return marshal.loads(payload[:text]), payload[text:]


def frame(text: bytes, body: bytes) -> bytes:
    text_size = len(text).to_bytes(4, "big")
    body_size = len(body).to_bytes(4, "big")
    return text_size + body_size + text + body


def json(value: Any) -> str:
    """Encode as JSON.

    None stands for a number that has none there, and for what is no plain value.
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        pairs = [f"{quoted(key)}:{json(item)}" for key, item in value.items()]
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    is_finite = isinstance(value, float) and abs(value) <= GREATEST
    if is_finite or isinstance(value, int):
        return repr(value)
    return "null"


def exactly(fd: int, count: int) -> bytes | None:
    """Read `count` bytes; return None if the peer is gone before."""
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# Files of the workspace.

SETTLED = 0.05  # seconds; several ticks of the clock that stamps files
OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK = 1 << 16


def read_file(path: str, limit: int) -> bytes:
    """Return a regular file's bytes. Raises OSError for anything else, and beyond the limit."""
    fd = os.open(path, os.O_RDONLY | OPEN)
    try:
        size = _must_be_regular(fd, path)
        # A buffer of `limit` would cost a judge 0.1 ms.
        content = os.read(fd, min(size, limit) + 1)
        if len(content) != size:
            content += _rest(fd, limit + 1 - len(content))
    finally:
        os.close(fd)
    if len(content) > limit:
        raise _error(errno.EFBIG, path)
    return content


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _rest(fd: int, most: int) -> bytes:
    """Read what is behind the size that a file states.

    The file may grow, or be the kernel's own, whose size is 0.
    """
    rest = bytearray()
    while len(rest) < most:
        wanted = most - len(rest)
        part = os.read(fd, min(_CHUNK, wanted))
        if not part:
            break
        rest += part
    return bytes(rest)


def read_lines(
    path: str,
    first: int,
    count: int | None,
    *,
    keep: int,
    most: int,
) -> tuple[bytes, bool]:
    """Return `count` lines (None: all) from the `first` on, counted from 1, and if there is more.

    At most `keep` bytes are kept, and at most `most` are stepped over: beyond that it raises
    OSError, as it does for anything that is not a regular file.
    """
    fd = os.open(path, os.O_RDONLY | OPEN)
    with os.fdopen(fd, "rb") as file:
        _must_be_regular(fd, path)
        content = _step_over(file, first - 1, path, most)
        wanted = keep + 1 - len(content)
        content += file.read(max(0, wanted))
    if count is not None:
        lines = content.split(b"\n", count)
        if len(lines) > count:
            rest = lines[count]
            content = content.removesuffix(rest)
    return content[:keep], len(content) > keep


def _step_over(file: BinaryIO, lines: int, path: str, most: int) -> bytes:
    """Skip so many lines; return what was already read of the next one."""
    for _ in range(0, most + _CHUNK, _CHUNK):
        if not lines:
            return b""
        chunk = file.read(_CHUNK)
        ends = chunk.count(b"\n")
        if ends >= lines:
            return chunk.split(b"\n", lines)[lines]
        if not chunk:
            return b""
        lines -= ends
    raise _error(errno.EFBIG, path)


def stamp(paths: list[str]) -> str:
    """Return a text that changes when one of the files does.

    It is empty while a file is so new that its times may not change with it.
    """
    parts = []
    for path in paths:
        try:
            status = os.lstat(path)
        except (OSError, ValueError) as error:
            parts.append(type(error).__name__)
            continue
        now = time.clock_gettime(time.CLOCK_REALTIME)
        if now - status.st_ctime < SETTLED:
            return ""
        parts.append(f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return ",".join(parts)


def write_file(root: str, path: str, content: bytes) -> None:
    """Write below `root`, making folders and following no link. A `#!` makes it executable."""
    *folders, name = _steps(path)
    mode = 0o755 if content.startswith(b"#!") else 0o644
    flags = os.O_WRONLY | os.O_CREAT | OPEN
    folder = os.open(root, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in folders:
            deeper = _enter(folder, step)
            os.close(folder)
            folder = deeper
        fd = os.open(name, flags, mode, dir_fd=folder)
        with os.fdopen(fd, "wb") as file:
            _must_be_regular(fd, path)
            file.truncate(0)
            file.write(content)
    finally:
        os.close(folder)


def _steps(path: str) -> list[str]:
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if path.startswith("/") or not steps or ".." in steps:
        raise OSError(errno.EINVAL, "not a path below the workspace", path)
    return steps


def _enter(folder: int, step: str) -> int:
    try:
        os.mkdir(step, 0o755, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(step, os.O_DIRECTORY | OPEN, dir_fd=folder)


def _must_be_regular(fd: int, path: str) -> int:
    """Return its size. Raises OSError."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise _error(errno.EISDIR, path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return status.st_size
