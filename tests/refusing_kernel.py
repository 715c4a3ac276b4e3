"""Start a program under a kernel that refuses some calls: PROGRAM HOW NUMBER WORD...

`landlock ERRNO` is a kernel without Landlock: ENOSYS before Linux 5.13, EOPNOTSUPP where it is off.
`quota BYTES` lets no file grow beyond so many bytes: EDQUOT, as a file system answers by its quota.
A seccomp filter answers, so it holds for all that the program starts as well.
"""

import errno
import os
import struct
import sys
from collections.abc import Sequence

from agenteval.sandbox import seccomp
from agenteval.sandbox.inside import kernel

LANDLOCK = ((444, 445, 446), (444, 445, 446))
PWRITE, WRITE = (18, 68), (1, 64)  # x86_64, aarch64
OFFSET, COUNT = 3, 2  # which argument
LOAD, EQUAL, AT_LEAST, RETURN = seccomp.LOAD, seccomp.EQUAL, seccomp.AT_LEAST, seccomp.RETURN


def step(what: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", what, then, otherwise, value)


def without_landlock(column: int, number: int) -> bytes:
    refused = step(RETURN, seccomp.refuse(number))
    calls = (step(EQUAL, call, 0, 1) + refused for call in LANDLOCK[column])
    return b"".join([step(LOAD, seccomp.NUMBER), *calls, step(RETURN, seccomp.ALLOW)])


def with_quota(column: int, size: int) -> bytes:
    """Refuse what begins beyond the size, and what is larger by itself."""
    refused = step(RETURN, seccomp.refuse(errno.EDQUOT))
    code = [step(LOAD, seccomp.NUMBER)]
    for call, argument in ((PWRITE[column], OFFSET), (WRITE[column], COUNT)):
        code += [step(EQUAL, call, 0, 4), step(LOAD, seccomp.ARGUMENTS + 8 * argument)]
        code += [step(AT_LEAST, size, 0, 1), refused, step(RETURN, seccomp.ALLOW)]
    return b"".join([*code, step(RETURN, seccomp.ALLOW)])


def before(how: str, number: int) -> tuple[str, ...]:
    """Return the words that stand before those of a program."""
    return (sys.executable, __file__, how, str(number))


def main(how: str, number: str, *words: str) -> None:
    filters = {"landlock": without_landlock, "quota": with_quota}
    column = [*seccomp.ARCH].index(kernel.MACHINE)
    kernel.install_filter(filters[how](column, int(number)))
    os.execvp(words[0], words)


if __name__ == "__main__":
    words: Sequence[str] = sys.argv[1:]
    main(*words)
