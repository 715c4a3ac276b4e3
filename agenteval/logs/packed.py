"""The bytes of a log: of a regular file and of nothing else, unpacked, and as text in UTF-8.

A folder of logs can hold a pipe that nobody writes to, or a link to a device that never ends.

Files packed by gzip, bzip2, xz or ZIP are unpacked as they are read, and no further than a bound:
logs shrink to a tenth, repeated conversations to a hundredth; a thousandth is no accident.
"""

import bz2
import gzip
import json
import lzma
import os
import stat
import sys
import zlib
from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from errno import EFBIG, EINVAL
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from agenteval.logs.tool_calls import TOO_DEEP, excess, is_deep
from agenteval.trial.session import Skipped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
STDIN = "-"
# What reading such a file can raise.
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)
# Bytes
AT_ONCE = 1 << 17
# Bytes that any file may unpack to; bytes for each packed one
_ALWAYS = 1 << 30
_RATIO = 200
# Bytes of memory; `xz -9` wants 65 MiB
_DICTIONARY = 256 << 20


@dataclass(slots=True)
class Allowance:
    """The number of bytes that may still be unpacked of one file, over all that it holds."""

    remaining: int

    @classmethod
    def of(cls, packed: int) -> "Allowance":
        """Return the allowance of a file of `packed` bytes."""
        return cls(_ALWAYS + _RATIO * packed)

    def spend(self, count: int) -> None:
        """Raises OSError once nothing is left."""
        self.remaining -= count
        if self.remaining < 0:
            said = f"unpacks to more than {_ALWAYS:,} bytes and {_RATIO} for each packed one"
            raise OSError(EFBIG, said)


class _Stream(RawIOBase):
    """A stream of the bytes that `part` gives."""

    @abstractmethod
    def part(self, count: int) -> bytes:
        """Return the next bytes, `count` at most; none at the end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        part = self.part(len(view))
        view[: len(part)] = part
        return len(part)


class Bounded(_Stream):
    """The output of an unpacker, within the allowance. It closes the packed file too."""

    def __init__(self, unpacker: IO[bytes], allowance: Allowance, *packed: BinaryIO) -> None:
        super().__init__()
        self._unpacker = unpacker
        self._allowance = allowance
        self._packed = packed

    def part(self, count: int) -> bytes:
        part = self._unpacker.read(count)
        self._allowance.spend(len(part))
        return part

    def close(self) -> None:
        if not self.closed:
            super().close()
            for file in (self._unpacker, *self._packed):
                file.close()


class _Xz(_Stream):
    """The standard library's LZMAFile, but with a bound on the memory that a header may ask for."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self._packed = packed
        self._stream: lzma.LZMADecompressor | None = None
        self._rest = b""

    def part(self, count: int) -> bytes:
        part = b""
        while not part and (self._stream or self._begin()):
            part = self._unpack(count)
        return part

    def _begin(self) -> bool:
        """Begin the next stream; return False at the end.

        Streams may follow each other, with zeros between them.
        """
        while not (content := self._rest.lstrip(b"\0")):
            self._rest = self._packed.read(AT_ONCE)
            if not self._rest:
                return False
        self._rest = content
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DICTIONARY)
        return True

    def _unpack(self, count: int) -> bytes:
        stream = cast("lzma.LZMADecompressor", self._stream)
        if stream.needs_input and not self._rest:
            self._rest = self._packed.read(AT_ONCE)
            if not self._rest:
                raise EOFError("the file ends before its stream of xz does")
        part = stream.decompress(self._rest, count)
        self._rest = stream.unused_data
        if stream.eof:
            self._stream = None
        return part


_UNPACKERS: Mapping[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": _Xz,
}


def unpacked(file: BufferedReader) -> BufferedReader:
    """Return the bytes of a file, unpacked as they are read where it is packed."""
    start = file.peek(8)
    size = os.fstat(file.fileno()).st_size
    for magic, unpacker in _UNPACKERS.items():
        if start.startswith(magic):
            stream = cast("BinaryIO", unpacker(file))
            return BufferedReader(
                Bounded(
                    stream,
                    Allowance.of(size),
                    file,
                ),
                AT_ONCE,
            )
    return file


def opened(path: str, stack: ExitStack) -> BinaryIO:
    """Return the bytes of a file, unpacked as they are read; `-` is the standard input."""
    if path == STDIN:
        return sys.stdin.buffer
    file = stack.enter_context(Path(path).open("rb"))  # noqa: SIM115 -- the stack closes it
    return stack.enter_context(unpacked(file))


# Bytes of a file that is read at once
SMALL = 1 << 24
_ENCODINGS = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"{\0": "utf-16-le",
    b"\0{": "utf-16-be",
    b"[\0": "utf-16-le",
    b"\0[": "utf-16-be",
}


def opened_log(path: Path) -> BufferedReader:
    """Return the text of a file in UTF-8, whatever its encoding; other bytes come as they are.

    Raises OSError, as for what is no regular file.
    """
    file = unpacked_log(path)
    try:
        start = file.peek(3)[:3]
        if start == BOM_UTF8:
            file.read(3)
    except UNREADABLE:
        file.close()
        raise
    encoding = _ENCODINGS.get(start[:2])
    return file if encoding is None else BufferedReader(_Recoded(file, encoding), AT_ONCE)


class _Recoded(_Stream):
    """The bytes of a text in another encoding, in UTF-8."""

    def __init__(
        self,
        file: BufferedReader,
        encoding: str,
    ) -> None:
        super().__init__()
        self._text = TextIOWrapper(
            file,
            encoding,
            errors="replace",
            newline="\n",
        )

    def part(self, count: int) -> bytes:
        # A character has 4 bytes at most
        return self._text.read(count // 4).encode("utf-8", "surrogatepass")

    def close(self) -> None:
        super().close()
        self._text.close()


def unpacked_log(path: Path) -> BufferedReader:
    """Return the bytes of a regular file, unpacked as they are read where it is packed."""
    return unpacked(regular(path))


def regular(path: Path) -> BufferedReader:
    """Open a regular file. Raises OSError for any other, of which nothing is read."""
    # A pipe would be waited for
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    file = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(EINVAL, "no regular file")


def small(path: Path) -> Any:
    """Return the JSON of a small file. Raises OSError, or ValueError where it is none."""
    with regular(path) as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise ValueError(f"more than {SMALL:,} bytes")
    why = excess(content)
    if why:
        raise ValueError(why)
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deep(document):
        raise ValueError(TOO_DEEP)
    return document


def by_place(path: Path) -> str:
    """Return a name for what a file holds that has none of its own."""
    return f"{path.name}-{zlib.crc32(str(path.absolute()).encode(errors='replace')):08x}"


def closed_folders(folder: Path) -> Iterator[Skipped]:
    """Yield the folders below this one, and itself, that cannot be looked into; none of a file."""
    faults: list[OSError] = []
    for _ in os.walk(folder, onerror=faults.append) if folder.is_dir() else ():
        pass
    for fault in faults:
        yield Skipped(
            str(fault.filename),
            "the folder",
            fault.strerror or str(fault),
        )
