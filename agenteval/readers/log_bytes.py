"""The bytes of a log: of a regular file and of nothing else, unpacked, and as text.

A folder of logs can hold a pipe that nobody writes to, or a link to a device that never ends.
"""

import json
import os
import stat
import zlib
from collections.abc import Iterator
from errno import EINVAL
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast

from agenteval.core.logged import Skipped
from agenteval.formats.tool_calls import TOO_DEEP, UNPACKERS, UNREADABLE, is_deep

SMALL = 1 << 24  # bytes of a file that is read at once
_ENCODINGS = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"{\0": "utf-16-le",
    b"\0{": "utf-16-be",
    b"[\0": "utf-16-le",
    b"\0[": "utf-16-be",
    b"\xef\xbb": "utf-8-sig",
}


def opened(path: Path) -> TextIO:
    """The text of a file, whatever its encoding: a byte that is no text is a lone surrogate.

    Raises OSError, as for what is no regular file.
    """
    file = unpacked(path)
    try:
        encoding = _ENCODINGS.get(file.peek(2)[:2], "utf-8")
    except UNREADABLE:
        file.close()
        raise
    errors = "replace" if encoding.startswith("utf-16") else "surrogateescape"
    return TextIOWrapper(file, encoding=encoding, errors=errors, newline="\n")


def unpacked(path: Path) -> BufferedReader:
    """The bytes of a file, unpacked as they are read where it is packed."""
    file = regular(path)
    start = file.peek(8)
    opener = next((each for magic, each in UNPACKERS.items() if start.startswith(magic)), None)
    return file if opener is None else _Unpacked(cast("Any", opener(file)), file)


class _Unpacked(BufferedReader):
    """It closes the packed file too, which who unpacks it leaves open."""

    def __init__(self, unpacker: Any, packed: BufferedReader) -> None:
        super().__init__(unpacker)
        self._packed = packed

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._packed.close()


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
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deep(found):
        raise ValueError(TOO_DEEP)
    return found


def by_place(path: Path) -> str:
    """A name for what a file holds that has none of its own."""
    return f"{path.name}-{zlib.crc32(str(path.absolute()).encode(errors='replace')):08x}"


def closed_folders(folder: Path) -> Iterator[Skipped]:
    """The folders below this one, and itself, that cannot be looked into; none of a file."""
    faults: list[OSError] = []
    for _ in os.walk(folder, onerror=faults.append) if folder.is_dir() else ():
        pass
    yield from (Skipped(str(e.filename), "the folder", e.strerror or str(e)) for e in faults)
