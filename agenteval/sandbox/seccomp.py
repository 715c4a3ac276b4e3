"""The seccomp filter: the kernel calls that commands may make, as a BPF program.

`syscalls.txt` says which call is allowed, refused or unsupported; here stands what becomes of the
calls that are decided by their arguments, and how a table becomes a program. `sandbox_filter` is
for the commands of a trial, `only` for a process that computes. Their bytes go to
`inside/kernel.install_filter`.
"""

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Process 1 is the runner, of the same user as the commands, and what they change of it would hold
# for all later calls. The number says which argument names the process.
OF_PROCESS_1: Final = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
# The first argument of these is the kind of who is named: a group or a user has process 1 as well.
ONE_PROCESS: Final = {"setpriority": 0, "ioprio_set": 1}
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
THREAD, FILES = 0x10000, 0x400  # CLONE_THREAD and CLONE_FILES
# TIOCSTI and TIOCLINUX type into the terminal of somebody else.
TERMINAL_INPUT = (0x5412, 0x541C)
SOL_SOCKET, BUFFERS = 1, (7, 8)  # SO_SNDBUF and SO_RCVBUF: how much a socket may hold
UNIX, INET, INET6 = 1, 2, 10  # families of sockets
X32 = 0x40000000
# Instructions of BPF, the offsets of `struct seccomp_data`, and answers.
LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
ANY_BIT = 0x45
AND = 0x54
RETURN = 0x06
NUMBER = 0
ARCHITECTURE = 4
ARGUMENTS = 16
KILL = 0x80000000
ALLOW = 0x7FFF0000

# The number of a call on this machine by its name; None where the machine has no such call.
Numbers = Mapping[str, int | None]


@cache
def calls(machine: str) -> Mapping[str, Numbers]:
    """Return the sections of `syscalls.txt`, with the numbers of this machine."""
    column = list(ARCH).index(machine)
    sections: dict[str, dict[str, int | None]] = {}
    text = Path(__file__).with_name("syscalls.txt").read_text("utf-8")
    for line in text.splitlines():
        name, *numbers = line.split() or ["#"]
        if name.startswith("["):
            section = sections[name.strip("[]")] = {}
        elif name != "#":
            number = numbers[column]
            section[name] = None if number == "-" else int(number)
    return sections


def sandbox_filter(machine: str, *, loopback: bool) -> bytes:
    """Return the filter for this machine; without `loopback` there are no internet sockets."""
    sections = calls(machine)
    number = sections["by_arguments"]
    code = _allow(machine, sections["allowed"].values())
    code += _refuse_all(sections["refused"], errno.EPERM)
    code += _refuse_all(sections["unsupported"], errno.EOPNOTSUPP)
    for name, argument in OF_PROCESS_1.items():
        body = []
        if name in ONE_PROCESS:
            body += _refuse_unless(0, ONE_PROCESS[name])
        body += _refuse_if_any(argument, (1,), errno.EPERM)
        code += _when(number[name], body)
    code += _when(number["clone"], _no_namespace())
    no_input = _refuse_if_any(1, TERMINAL_INPUT, errno.EPERM)
    code += _when(number["ioctl"], no_input)
    code += _when(number["setsockopt"], _ignore_buffers())
    for name in ("socket", "socketpair"):
        code += _when(number[name], _only_families(loopback=loopback))
    return b"".join([*code, _answer(errno.ENOSYS)])


def only(machine: str, names: Iterable[str]) -> bytes:
    """Return the filter of a process that computes: these of the allowed calls, and no other."""
    allowed = calls(machine)["allowed"]
    code = _allow(machine, [allowed[name] for name in names])
    return b"".join([*code, _answer(errno.EPERM)])


def _allow(machine: str, numbers: Iterable[int | None]) -> list[bytes]:
    """Return the head of a filter: no other machine's numbers, and these calls as they are."""
    code = [
        _step(LOAD, ARCHITECTURE),
        _step(EQUAL, ARCH[machine], 1, 0),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER),
    ]
    # Each call passes all steps before its own: a range of numbers costs as much as one.
    for first, last in _ranges(numbers):
        code.append(_step(AT_LEAST, last + 1, 2, 0))
        code.append(_step(AT_LEAST, first, 0, 1))
        code.append(_step(RETURN, ALLOW))
    return code


def _ranges(numbers: Iterable[int | None]) -> Iterator[tuple[int, int]]:
    """Return the first and last of each run of numbers without a gap, in order."""
    known = sorted(number for number in numbers if number is not None)
    firsts = [number for number in known if number - 1 not in known]
    lasts = [number for number in known if number + 1 not in known]
    return zip(firsts, lasts, strict=True)


def _refuse_all(numbers: Numbers, error: int) -> list[bytes]:
    code = []
    for number in numbers.values():
        if number is not None:
            code += _when(number, [_answer(error)])
    return code


def refuse(error: int) -> int:
    """Return the value by which a filter answers with this error number."""
    return 0x50000 | error


def _step(what: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", what, then, otherwise, value)


def _answer(error: int) -> bytes:
    return _step(RETURN, refuse(error))


def _when(number: int | None, body: list[bytes]) -> list[bytes]:
    """Run `body`, which must end in a return, when this is the call."""
    skip_unless = _step(EQUAL, number or 0, 0, len(body))
    return [skip_unless, *body]


def _argument(index: int) -> bytes:
    return _step(LOAD, ARGUMENTS + 8 * index)


def _no_namespace() -> list[bytes]:
    """Allow a process or a thread to be made, but with no namespace of its own.

    Nor a thread with files of its own, which would hide how many there are.
    """
    return [
        _argument(0),
        _step(ANY_BIT, NEW_NAMESPACES, 0, 1),
        _answer(errno.EPERM),
        _step(AND, THREAD | FILES),
        _step(EQUAL, THREAD, 0, 1),
        _answer(errno.EPERM),
        _step(RETURN, ALLOW),
    ]


def _refuse_unless(index: int, value: int) -> list[bytes]:
    return [
        _argument(index),
        _step(EQUAL, value, 1, 0),
        _answer(errno.EPERM),
    ]


def _refuse_if_any(index: int, values: tuple[int, ...], error: int) -> list[bytes]:
    return [
        _argument(index),
        *_jumps(values),
        _step(RETURN, ALLOW),
        _answer(error),
    ]


def _jumps(values: tuple[int, ...]) -> Iterator[bytes]:
    """Yield a test for each value, which skips the others and the next answer."""
    for place, value in enumerate(values):
        yield _step(EQUAL, value, len(values) - place, 0)


def _ignore_buffers() -> list[bytes]:
    """Report success and change nothing, as the kernel answers a wish for more than it grants."""
    return [
        _argument(1),
        _step(EQUAL, SOL_SOCKET, 1, 0),
        _step(RETURN, ALLOW),
        *_refuse_if_any(2, BUFFERS, 0),
    ]


def _only_families(*, loopback: bool) -> list[bytes]:
    families = (UNIX, INET, INET6) if loopback else (UNIX,)
    return [
        _argument(0),
        *_jumps(families),
        _answer(errno.EAFNOSUPPORT),
        _step(RETURN, ALLOW),
    ]
