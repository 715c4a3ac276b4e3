"""The bytes of a log: of a regular file and of nothing else, unpacked, and as text.

A folder of logs can hold a pipe that nobody writes to, or a link to a device that never ends.
"""

import json
import os
import stat
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from errno import EINVAL
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenteval.core.logged import Skipped
from agenteval.formats import packed
from agenteval.formats.packed import AT_ONCE, UNREADABLE
from agenteval.formats.tool_calls import TOO_DEEP, excess, is_deep

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SMALL = 1 << 24  # bytes of a file that is read at once
_ENCODINGS = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"{\0": "utf-16-le",
    b"\0{": "utf-16-be",
    b"[\0": "utf-16-le",
    b"\0[": "utf-16-be",
}


def opened(path: Path) -> BufferedReader:
    """The text of a file in UTF-8, whatever its encoding; bytes that are no text come as they are.

    Raises OSError, as for what is no regular file.
    """
    file = unpacked(path)
    try:
        start = file.peek(3)[:3]
        if start == BOM_UTF8:
            file.read(3)
    except UNREADABLE:
        file.close()
        raise
    encoding = _ENCODINGS.get(start[:2])
    return file if encoding is None else BufferedReader(_Recoded(file, encoding), AT_ONCE)


class _Recoded(RawIOBase):
    """The bytes of a text in another encoding, in UTF-8."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        super().__init__()
        self._text = TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        part = self._text.read(len(view) // 4).encode("utf-8", "surrogatepass")
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        super().close()
        self._text.close()


def unpacked(path: Path) -> BufferedReader:
    """The bytes of a file, unpacked as they are read where it is packed."""
    file = regular(path)
    return packed.unpacked(file, os.fstat(file.fileno()).st_size)


def regular(path: Path) -> BufferedReader:
    """Opened without waiting, and looked at before anything is read. Raises OSError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(EINVAL, "no regular file")


def small(path: Path) -> Any:
    """The JSON of a small file. Raises OSError, or ValueError where it is none."""
    with regular(path) as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise ValueError(f"more than {SMALL:,} bytes")
    if why := excess(content):
        raise ValueError(why)
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deep(document):
        raise ValueError(TOO_DEEP)
    return document


def by_place(path: Path) -> str:
    """A name for what a file holds that has none of its own."""
    return f"{path.name}-{zlib.crc32(str(path.absolute()).encode(errors='replace')):08x}"


def closed_folders(folder: Path) -> Iterator[Skipped]:
    """The folders below this one, and itself, that cannot be looked into; none of a file."""
    faults: list[OSError] = []
    for _ in os.walk(folder, onerror=faults.append) if folder.is_dir() else ():
        pass
    yield from (Skipped(str(e.filename), "the folder", e.strerror or str(e)) for e in faults)
