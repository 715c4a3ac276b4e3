"""The few kernel calls that Python lacks, through the C library: namespaces, mounts, Landlock.

The constants have the kernel's names without their prefixes. The filter of kernel calls, which
`install_filter` takes as bytes, is built outside of the sandbox: `agenteval/sandbox/seccomp.py`.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    Function = Callable[..., Any]
NEWNS = 0x20000
NEWCGROUP = 0x2000000
NEWUTS = 0x4000000
NEWIPC = 0x8000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
RDONLY = 1
NOSUID = 2
NODEV = 4
NOEXEC = 8
REMOUNT = 0x20
NOATIME = 0x400
NODIRATIME = 0x800
BIND = 0x1000
REC = 0x4000
PRIVATE = 0x40000
RELATIME = 0x200000
DETACH = 2
SIGCHLD = 17
PDEATHSIG = 1
DUMPABLE = 4
SECCOMP = 22
NO_NEW_PRIVS = 38
SUBREAPER = 36
DROP_BOUNDING = 24
LANDLOCK = 444  # and the two calls after it, on both machines
# Its rights: to list folders; to execute, read and list; to make devices.
LIST = 1 << 3
READ = 1 << 0 | 1 << 2 | 1 << 3
MAKE_DEVICE = 1 << 6 | 1 << 11
CAPSET_VERSION = 0x20080522
CLONE = {"x86_64": 56, "aarch64": 220}
OPENAT2, NO_LINKS, BENEATH = 437, 0x04, 0x08  # on both machines
CLONE3, INTO_GROUP = 435, 0x2_0000_0000  # on both machines
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPSET = {"x86_64": 126, "aarch64": 91}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_long = ctypes.c_long  # as wide as an argument of the kernel, which a plain number would not be
_libc.fopen.restype = ctypes.c_void_p
MACHINE = os.uname().machine


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, what: str, *arguments: object) -> int:
    result = _libc.syscall(_long(number), *arguments)
    return _check(result, what)


def clone(namespaces: int) -> int:
    """Fork into new namespaces; 0 in the child. Only for a process without threads."""
    zeros = [_long(0)] * 4
    flags = _long(namespaces | SIGCHLD)
    return _syscall(CLONE[MACHINE], "clone into new namespaces", flags, *zeros)


def clone_into(namespaces: int, group: int) -> int:
    """Fork as `clone` does, into the control group of this open folder (Linux 5.7)."""
    flags = [namespaces | INTO_GROUP, 0, 0, 0, SIGCHLD]
    stack = [0, 0, 0, 0, 0]
    arguments = struct.pack("=11Q", *flags, *stack, group)
    size = _long(len(arguments))
    return _syscall(CLONE3, "clone into a control group", arguments, size)


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open what lies below this folder, through no link and never out of it (Linux 5.6)."""
    how = struct.pack("=3Q", flags, 0, NO_LINKS | BENEATH)
    size = _long(len(how))
    name = os.fsencode(path)
    return _syscall(OPENAT2, "open", _long(folder), name, how, size)


def unshare(namespaces: int) -> None:
    _check(_libc.unshare(namespaces), "unshare")


def mount(
    source: str,
    target: str,
    kind: str,
    flags: int,
    options: str = "",
) -> None:
    texts = (source, target, kind, options)
    *places, settings = [text.encode() or None for text in texts]
    result = _libc.mount(*places, _long(flags), settings)
    _check(result, f"mount {kind or source} on {target or '/'}")


def pivot_root_here() -> None:
    """Make the current folder the root, and let go of the old one."""
    _syscall(PIVOT_ROOT[MACHINE], "pivot_root", b".", b".")
    _check(_libc.umount2(b".", DETACH), "umount the old root")
    os.chdir("/")


def sethostname(name: str) -> None:
    result = _libc.sethostname(name.encode(), len(name))
    _check(result, "sethostname")


def prctl(option: int, value: int) -> None:
    result = _libc.prctl(option, _long(value), 0, 0, 0)
    _check(result, f"prctl {option}")


def drop_capabilities() -> None:
    header = struct.pack("=2I", CAPSET_VERSION, 0)
    nothing = bytes(24)  # effective, permitted and inheritable, each twice 32 bits
    _syscall(CAPSET[MACHINE], "capset", header, nothing)


def empty_the_bounding_set() -> None:
    """Keep every program that is executed from here on from gaining a capability."""
    for capability in range(64):
        result = _libc.prctl(DROP_BOUNDING, _long(capability), 0, 0, 0)
        if result < 0:
            return  # beyond the last one


def landlock_version() -> int:
    """Return the version of the Landlock that this kernel has; 0 for none."""
    numbers = map(_long, (LANDLOCK, 0, 0, 1))
    version = int(_libc.syscall(*numbers))
    return max(0, version)


def landlock(rules: Iterable[tuple[str, str]], *, loopback: bool) -> None:
    """Let this process and its children "list", "read" or "write" below these folders only.

    Where the kernel has no Landlock, nothing changes.
    """
    if not (version := landlock_version()):
        return
    # Each version handles more rights of files, and its structure may be longer.
    counts = (13, 13, 14, 15, 15, 16)
    files = (1 << counts[min(version, 5)]) - 1
    network = scopes = 0
    size = 8
    if version >= 4:
        size = 16
        network = 0 if loopback else 3  # neither bind nor connect
    if version >= 6:
        size = 24
        scopes = 3  # abstract sockets and signals stay within the sandbox
    rights = {
        "list": LIST,
        "read": READ,
        "write": files & ~MAKE_DEVICE,
    }
    handled = struct.pack("=3Q", files, network, scopes)
    ruleset = _syscall(LANDLOCK, "landlock", handled, _long(size), _long(0))
    for path, kind in rules:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights[kind], place)
        kind_of_rule = _long(1)  # of what lies beneath a path
        what = f"landlock {path}"
        _syscall(LANDLOCK + 1, what, _long(ruleset), kind_of_rule, rule, _long(0))
        os.close(place)
    prctl(NO_NEW_PRIVS, 1)
    _syscall(LANDLOCK + 2, "landlock", _long(ruleset), _long(0))
    os.close(ruleset)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Put this process and all its children under a seccomp filter, for good."""
    prctl(NO_NEW_PRIVS, 1)
    argument = _Program(len(program) // 8, program)
    result = _libc.prctl(SECCOMP, _long(2), ctypes.byref(argument), 0, 0)
    _check(result, "seccomp filter")


def hold(value: object) -> None:
    """Keep it for as long as this process lives, past the end of Python."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def foreign(library: str, name: str) -> Function:
    """Return a function of a library that is loaded already, or of what it depends on."""
    function: Function = getattr(ctypes.CDLL(library), name)
    return function


def configure_sqlite(
    configure: Function,
    connection: object,
    option: int,
    value: int,
) -> None:
    """Set an option as `Connection.setconfig` does, which Python 3.11 lacks.

    The structure of its connection begins with SQLite's own handle.
    """
    address = id(connection) + object.__basicsize__
    handle = ctypes.c_void_p.from_address(address)
    current = ctypes.c_int(-1)
    configure(handle, option, ctypes.c_int(value), ctypes.byref(current))
    if current.value != value:
        raise OSError(0, f"SQLite does not take its option {option}")


def run_main(path: bytes) -> NoReturn:
    """Do as `python3 PATH` does once it is up, by the same code: run, report, finalize, exit."""
    file = _libc.fopen(path, b"rbe")
    python = ctypes.pythonapi
    failed = python.PyRun_SimpleFileExFlags(ctypes.c_void_p(file), path, 1, None)
    python.Py_Exit(1 if failed else 0)
    raise AssertionError  # Py_Exit does not return
