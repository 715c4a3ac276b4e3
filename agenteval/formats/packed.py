"""Files that may be packed, by gzip, bzip2 or xz: what they begin with tells, not their names."""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

STDIN = "-"
# What reading such a file can raise.
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)

_UNPACKERS: Mapping[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


def opened(path: str, stack: ExitStack) -> BinaryIO:
    """The bytes of a file, unpacked as they are read; `-` is the standard input, as it comes."""
    if path == STDIN:
        return sys.stdin.buffer
    file = stack.enter_context(Path(path).open("rb"))  # noqa: SIM115 -- the stack closes it
    start = file.peek(1)
    unpacker = next((each for magic, each in _UNPACKERS.items() if start.startswith(magic)), None)
    if unpacker is None:
        return file
    return stack.enter_context(cast("BinaryIO", unpacker(file)))
