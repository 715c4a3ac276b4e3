"""Files packed by gzip, bzip2, xz or ZIP: unpacked as they are read, and no further than a bound.

Logs shrink to a tenth, repeated conversations to a hundredth; a thousandth is no accident.
"""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from errno import EFBIG
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = "-"
# What reading such a file can raise.
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)
AT_ONCE = 1 << 17  # bytes
_ALWAYS, _RATIO = 1 << 30, 200  # bytes that any file may unpack to; bytes for each packed one
_DICTIONARY = 256 << 20  # bytes of memory; `xz -9` wants 65 MiB
_XZ = b"\xfd7zXZ"


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


class Bounded(RawIOBase):
    """The output of an unpacker, within the allowance. It closes the packed file too."""

    def __init__(self, unpacker: IO[bytes], allowance: Allowance, *packed: BinaryIO) -> None:
        super().__init__()
        self._unpacker, self._allowance, self._packed = unpacker, allowance, packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        part = self._unpacker.read(len(memoryview(buffer)))
        self._allowance.spend(len(part))
        memoryview(buffer)[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            super().close()
            for file in (self._unpacker, *self._packed):
                file.close()


class _Xz(RawIOBase):
    """The standard library's LZMAFile, but with a bound on the memory that a header may ask for."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self._packed = packed
        self._stream: lzma.LZMADecompressor | None = None
        self._given = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view, part = memoryview(buffer), b""
        while not part:
            if self._stream is None and not self._begin():
                return 0
            part = self._unpack(len(view))
        view[: len(part)] = part
        return len(part)

    def _begin(self) -> bool:
        """False at the end; streams may follow each other, with zeros between them."""
        while not (content := self._given.lstrip(b"\0")):
            self._given = self._packed.read(AT_ONCE)
            if not self._given:
                return False
        self._given = content
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DICTIONARY)
        return True

    def _unpack(self, count: int) -> bytes:
        stream = cast("lzma.LZMADecompressor", self._stream)
        if stream.needs_input and not self._given:
            self._given = self._packed.read(AT_ONCE)
            if not self._given:
                raise EOFError("the file ends before its stream of xz does")
        part = stream.decompress(self._given, count)
        self._given = stream.unused_data
        if stream.eof:
            self._stream = None
        return part


_UNPACKERS: Mapping[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    _XZ: _Xz,
}


def unpacked(file: BufferedReader, size: int) -> BufferedReader:
    """The bytes of a file of this size, unpacked as they are read where it is packed."""
    start = file.peek(8)
    unpacker = next((each for magic, each in _UNPACKERS.items() if start.startswith(magic)), None)
    if unpacker is None:
        return file
    opened = cast("BinaryIO", unpacker(file))
    return BufferedReader(Bounded(opened, Allowance.of(size), file), AT_ONCE)


def opened(path: str, stack: ExitStack) -> BinaryIO:
    """The bytes of a file, unpacked as they are read; `-` is the standard input, as it comes."""
    if path == STDIN:
        return sys.stdin.buffer
    file = stack.enter_context(Path(path).open("rb"))  # noqa: SIM115 -- the stack closes it
    return stack.enter_context(unpacked(file, Path(path).stat().st_size))
