"""The few kernel calls that Python lacks.

The seccomp filter: the kernel calls that commands may make, as a BPF program.

What stands in no table here is answered as a kernel answers that does not know the call: callers
fall back to an older one, or fail. So are all calls that kernels will have one day.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    Function = Callable[..., Any]
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, NOATIME, NODIRATIME = 0x20, 0x400, 0x800
BIND, REC, PRIVATE, RELATIME = 0x1000, 0x4000, 0x40000, 0x200000
DETACH = 2
SIGCHLD = 17
PDEATHSIG, DUMPABLE, SECCOMP, NO_NEW_PRIVS, SUBREAPER = 1, 4, 22, 38, 36
DROP_BOUNDING = 24
LANDLOCK = 444  # and the two calls after it, on both machines
LIST, READ, MAKE_DEVICE = 1 << 3, 1 << 0 | 1 << 2 | 1 << 3, 1 << 6 | 1 << 11  # its rights
CAPSET_VERSION = 0x20080522
CLONE = {"x86_64": 56, "aarch64": 220}
OPENAT2, NO_LINKS, BENEATH = 437, 0x04, 0x08  # on both machines
CLONE3, INTO_GROUP = 435, 0x2_0000_0000  # on both machines
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPSET = {"x86_64": 126, "aarch64": 91}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.fopen.restype = ctypes.c_void_p
MACHINE = os.uname().machine


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, what: str, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), what)


def clone(namespaces: int) -> int:
    """Fork into new namespaces; 0 in the child. Only for a process without threads."""
    zeros = [ctypes.c_ulong(0)] * 4
    flags = ctypes.c_ulong(namespaces | SIGCHLD)
    return _syscall(CLONE[MACHINE], "clone into new namespaces", flags, *zeros)


def clone_into(namespaces: int, group: int) -> int:
    """The same, in the control group whose folder this descriptor is (Linux 5.7)."""
    flags, stack = [namespaces | INTO_GROUP, 0, 0, 0, SIGCHLD], [0, 0, 0, 0, 0]
    arguments = struct.pack("=11Q", *flags, *stack, group)
    size = ctypes.c_size_t(len(arguments))
    return _syscall(CLONE3, "clone into a control group", arguments, size)


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open what lies below this folder, through no link and never out of it (Linux 5.6)."""
    how = struct.pack("=3Q", flags, 0, NO_LINKS | BENEATH)
    arguments = ctypes.c_long(folder), os.fsencode(path), how, ctypes.c_size_t(len(how))
    return _syscall(OPENAT2, "open", *arguments)


def unshare(namespaces: int) -> None:
    _check(_libc.unshare(namespaces), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [text.encode() or None for text in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    _check(result, f"mount {kind or source} on {target or '/'}")


def pivot_root_here() -> None:
    """Make the current folder the root, and let go of the old one."""
    _syscall(PIVOT_ROOT[MACHINE], "pivot_root", b".", b".")
    _check(_libc.umount2(b".", DETACH), "umount the old root")
    os.chdir("/")


def sethostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPSET_VERSION, 0)
    _syscall(CAPSET[MACHINE], "capset", header, (ctypes.c_uint32 * 6)())


def empty_the_bounding_set() -> None:
    """Keep every program that is executed from here on from gaining a capability."""
    for capability in range(64):
        if _libc.prctl(DROP_BOUNDING, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            return  # beyond the last one


def landlock_version() -> int:
    """Return the version of the Landlock that this kernel has; 0 for none."""
    return max(0, int(_libc.syscall(*map(ctypes.c_long, (LANDLOCK, 0, 0, 1)))))


def landlock(rules: Iterable[tuple[str, str]], *, loopback: bool) -> None:
    """Let this process and its children "list", "read" or "write" below these folders only.

    Where the kernel has no Landlock, nothing changes.
    """
    if not (version := landlock_version()):
        return
    files = (1 << (13, 13, 14, 15, 15, 16)[min(version, 5)]) - 1
    network = 0 if loopback or version < 4 else 3  # neither bind nor connect
    scopes = 3 if version >= 6 else 0  # abstract sockets and signals stay among us
    rights = {"list": LIST, "read": READ, "write": files & ~MAKE_DEVICE}
    size = 8 if version < 4 else 16 if version < 6 else 24
    wanted = (ctypes.c_uint64 * 3)(files, network, scopes)
    ruleset = _syscall(LANDLOCK, "landlock", wanted, ctypes.c_long(size), ctypes.c_long(0))
    for path, kind in rules:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights[kind], place)
        numbers = map(ctypes.c_long, (ruleset, 1))
        _syscall(LANDLOCK + 1, f"landlock {path}", *numbers, rule, ctypes.c_long(0))
        os.close(place)
    prctl(NO_NEW_PRIVS, 1)
    _syscall(LANDLOCK + 2, "landlock", ctypes.c_long(ruleset), ctypes.c_long(0))
    os.close(ruleset)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Put this process and all its children under a seccomp filter, for good."""
    prctl(NO_NEW_PRIVS, 1)
    argument = _Program(len(program) // 8, program)
    _check(_libc.prctl(SECCOMP, ctypes.c_ulong(2), ctypes.byref(argument), 0, 0), "seccomp filter")


def hold(kept: object) -> None:
    """Keep it for as long as this process lives, past the end of Python."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def foreign(library: str, name: str) -> Function:
    """A function of a library that is loaded already, or of what it depends on."""
    function: Function = getattr(ctypes.CDLL(library), name)
    return function


def configure_sqlite(configure: Function, connection: object, option: int, value: int) -> None:
    """Set an option as `Connection.setconfig` does, which Python 3.11 lacks.

    The structure of its connection begins with SQLite's own handle.
    """
    handle = ctypes.c_void_p.from_address(id(connection) + object.__basicsize__)
    now = ctypes.c_int(-1)
    configure(handle, option, ctypes.c_int(value), ctypes.byref(now))
    if now.value != value:
        raise OSError(0, f"SQLite does not take its option {option}")


def run_main(path: bytes) -> NoReturn:
    """Do as `python3 PATH` does once it is up, by the same code: run, report, finalize, exit."""
    file = _libc.fopen(path, b"rbe")
    python = ctypes.pythonapi
    failed = python.PyRun_SimpleFileExFlags(ctypes.c_void_p(file), path, 1, None)
    python.Py_Exit(1 if failed else 0)
    raise AssertionError  # Py_Exit does not return


ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# name: number on x86_64, number on aarch64 (None: it has no such call)
ALLOWED: dict[str, tuple[int, int | None]] = {
    "accept": (43, 202), "accept4": (288, 242), "access": (21, None), "alarm": (37, None),
    "arch_prctl": (158, None), "bind": (49, 200), "brk": (12, 214), "cachestat": (451, 451),
    "capget": (125, 90), "capset": (126, 91), "chdir": (80, 49), "chmod": (90, None),
    "chown": (92, None), "clock_getres": (229, 114), "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115), "close": (3, 57), "close_range": (436, 436),
    "connect": (42, 203), "copy_file_range": (326, 285), "creat": (85, None), "dup": (32, 23),
    "dup2": (33, None), "dup3": (292, 24), "epoll_create": (213, None), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441),
    "epoll_wait": (232, None), "eventfd": (284, None), "eventfd2": (290, 19), "execve": (59, 221),
    "execveat": (322, 281), "exit": (60, 93), "exit_group": (231, 94), "faccessat": (269, 48),
    "faccessat2": (439, 439), "fadvise64": (221, 223), "fallocate": (285, 47), "fchdir": (81, 50),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55),
    "fchownat": (260, 54), "fcntl": (72, 25), "fdatasync": (75, 83), "fgetxattr": (193, 10),
    "flistxattr": (196, 13), "flock": (73, 32), "fork": (57, None), "fremovexattr": (199, 16),
    "fstat": (5, 80), "fstatfs": (138, 44), "fsync": (74, 82), "ftruncate": (77, 46),
    "futex": (202, 98), "futex_requeue": (456, 456), "futex_wait": (455, 455),
    "futex_waitv": (449, 449), "futex_wake": (454, 454), "futimesat": (261, None),
    "get_robust_list": (274, 100), "getcpu": (309, 168), "getcwd": (79, 17), "getdents": (78, None),
    "getdents64": (217, 61), "getegid": (108, 177), "geteuid": (107, 175), "getgid": (104, 176),
    "getgroups": (115, 158), "getitimer": (36, 102), "getpeername": (52, 205),
    "getpgid": (121, 155), "getpgrp": (111, None), "getpid": (39, 172), "getppid": (110, 173),
    "getpriority": (140, 141), "getrandom": (318, 278), "getresgid": (120, 150),
    "getresuid": (118, 148), "getrlimit": (97, 163), "getrusage": (98, 165), "getsid": (124, 156),
    "getsockname": (51, 204), "getsockopt": (55, 209), "gettid": (186, 178),
    "gettimeofday": (96, 169), "getuid": (102, 174), "getxattr": (191, 8), "ioprio_get": (252, 31),
    "kill": (62, 129), "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "lchown": (94, None), "lgetxattr": (192, 9),
    "link": (86, None), "linkat": (265, 37), "listen": (50, 201), "listxattr": (194, 11),
    "llistxattr": (195, 12), "lremovexattr": (198, 15), "lseek": (8, 62), "lstat": (6, None),
    "madvise": (28, 233), "map_shadow_stack": (453, 453), "membarrier": (324, 283),
    "mincore": (27, 232), "mkdir": (83, None), "mkdirat": (258, 34), "mknod": (133, None),
    "mknodat": (259, 33), "mlock": (149, 228), "mlock2": (325, 284), "mlockall": (151, 230),
    "mmap": (9, 222), "mprotect": (10, 226), "mremap": (25, 216), "mseal": (462, 462),
    "msync": (26, 227), "munlock": (150, 229), "munlockall": (152, 231), "munmap": (11, 215),
    "nanosleep": (35, 101), "newfstatat": (262, 79), "open": (2, None), "openat": (257, 56),
    "openat2": (437, 437), "pause": (34, None), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pipe": (22, None), "pipe2": (293, 59),
    "pkey_alloc": (330, 289), "pkey_free": (331, 290), "pkey_mprotect": (329, 288),
    "poll": (7, None), "ppoll": (271, 73), "prctl": (157, 167), "pread64": (17, 67),
    "preadv": (295, 69), "preadv2": (327, 286), "pselect6": (270, 72), "pwrite64": (18, 68),
    "pwritev": (296, 70), "pwritev2": (328, 287), "read": (0, 63), "readahead": (187, 213),
    "readlink": (89, None), "readlinkat": (267, 78), "readv": (19, 65), "recvfrom": (45, 207),
    "recvmmsg": (299, 243), "recvmsg": (47, 212), "removexattr": (197, 14), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "restart_syscall": (219, 128),
    "rmdir": (84, None), "rseq": (334, 293), "rt_sigaction": (13, 134), "rt_sigpending": (127, 136),
    "rt_sigprocmask": (14, 135), "rt_sigqueueinfo": (129, 138), "rt_sigreturn": (15, 139),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "rt_tgsigqueueinfo": (297, 240),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "sched_getaffinity": (204, 123), "sched_getattr": (315, 275), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_rr_get_interval": (148, 127), "sched_yield": (24, 124),
    "seccomp": (317, 277), "select": (23, None), "sendfile": (40, 71), "sendmmsg": (307, 269),
    "sendmsg": (46, 211), "sendto": (44, 206), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "setfsgid": (123, 152), "setfsuid": (122, 151),
    "setgid": (106, 144), "setgroups": (116, 159), "setitimer": (38, 103), "setpgid": (109, 154),
    "setregid": (114, 143), "setresgid": (119, 149), "setresuid": (117, 147),
    "setreuid": (113, 145), "setrlimit": (160, 164), "setsid": (112, 157), "setuid": (105, 146),
    "shutdown": (48, 210), "sigaltstack": (131, 132), "signalfd": (282, None),
    "signalfd4": (289, 74), "splice": (275, 76), "stat": (4, None), "statfs": (137, 43),
    "statx": (332, 291), "symlink": (88, None), "symlinkat": (266, 36), "sync": (162, 81),
    "sync_file_range": (277, 84), "syncfs": (306, 267), "sysinfo": (99, 179), "tee": (276, 77),
    "tgkill": (234, 131), "time": (201, None), "timer_create": (222, 107),
    "timer_delete": (226, 111), "timer_getoverrun": (225, 109), "timer_gettime": (224, 108),
    "timer_settime": (223, 110), "timerfd_create": (283, 85), "timerfd_gettime": (287, 87),
    "timerfd_settime": (286, 86), "times": (100, 153), "tkill": (200, 130), "truncate": (76, 45),
    "umask": (95, 166), "uname": (63, 160), "unlink": (87, None), "unlinkat": (263, 35),
    "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None), "vfork": (58, None),
    "vmsplice": (278, 75), "wait4": (61, 260), "waitid": (247, 95), "write": (1, 64),
    "writev": (20, 66),
}  # fmt: skip
# What needs a right that nobody has inside is answered as the kernel would.
REFUSED: dict[str, tuple[int, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "kcmp": (312, 272),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "unshare": (272, 97),
    "setns": (308, 268), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # the kernel itself
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "lookup_dcookie": (212, 18),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "vhangup": (153, 58), "fanotify_init": (300, 262),
    # keys, and memory or queues that belong to no process
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "shmget": (29, 194), "shmctl": (31, 195), "shmat": (30, 196), "shmdt": (67, 197),
    "semget": (64, 190), "semctl": (66, 191), "semtimedop": (220, 192), "semop": (65, 193),
    "msgget": (68, 186), "msgctl": (71, 187), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
# As on a filesystem that has none: their callers go on. A file's list of rights is 64 KiB of memory
# that no limit of a filesystem counts.
UNSUPPORTED: dict[str, tuple[int, int]] = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
}  # fmt: skip
# Process 1 is the runner, of the same user as the commands: which argument names it. What they
# change of it would hold for all later calls.
OF_PROCESS_1: dict[str, tuple[tuple[int, int], int]] = {
    "prlimit64": ((302, 261), 0), "sched_setaffinity": ((203, 122), 0),
    "sched_setscheduler": ((144, 119), 0), "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0), "setpriority": ((141, 140), 1), "ioprio_set": ((251, 30), 1),
}  # fmt: skip
# The first argument of the last two is the kind of who is named; a group or a user has process 1.
ONE_PROCESS = {"setpriority": 0, "ioprio_set": 1}
CLONES, IOCTL, SETSOCKOPT = (56, 220), (16, 29), (54, 208)
SOCKETS = ((41, 198), (53, 199))  # socket, socketpair
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
THREAD, FILES = 0x10000, 0x400  # a thread with files of its own would hide how many there are
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into the terminal of somebody else
SOL_SOCKET, BUFFERS = 1, (7, 8)  # SO_SNDBUF and SO_RCVBUF: how much a socket may hold
UNIX, INET, INET6 = 1, 2, 10
X32 = 0x40000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
KILL, ALLOW = 0x80000000, 0x7FFF0000


def refuse(number: int) -> int:
    return 0x50000 | number


def program(machine: str, *, loopback: bool) -> bytes:
    """The filter for this machine; without `loopback` there are no internet sockets at all."""
    column = list(ARCH).index(machine)
    code = _allowing(machine, ALLOWED)
    for table, number in ((REFUSED, errno.EPERM), (UNSUPPORTED, errno.EOPNOTSUPP)):
        for pair in table.values():
            if (call := pair[column]) is not None:
                code += _when(call, [_step(RETURN, refuse(number))])
    for name, (numbers, index) in OF_PROCESS_1.items():
        kind = [] if name not in ONE_PROCESS else _unless(0, ONE_PROCESS[name], errno.EPERM)
        code += _when(numbers[column], [*kind, *_if_any(index, (1,), errno.EPERM)])
    code += _when(CLONES[column], _no_namespace())
    code += _when(IOCTL[column], _if_any(1, TERMINAL_INPUT, errno.EPERM))
    code += _when(SETSOCKOPT[column], _ignore_buffers())
    for numbers in SOCKETS:
        code += _when(numbers[column], _only_families(loopback=loopback))
    return b"".join([*code, _step(RETURN, refuse(errno.ENOSYS))])


def only(machine: str, calls: Iterable[str]) -> bytes:
    """The filter for a process that computes: these of the calls that are allowed, and no other."""
    code = _allowing(machine, calls)
    return b"".join([*code, _step(RETURN, refuse(errno.EPERM))])


def _allowing(machine: str, calls: Iterable[str]) -> list[bytes]:
    """The head of a filter: no other machine's numbers, and these calls as they are."""
    column = list(ARCH).index(machine)
    code = [_step(LOAD, ARCHITECTURE), _step(EQUAL, ARCH[machine], 1, 0), _step(RETURN, KILL)]
    code += [_step(LOAD, NUMBER)]
    for first, last in _ranges(ALLOWED[call][column] for call in calls):
        code += [_step(AT_LEAST, last + 1, 2, 0), _step(AT_LEAST, first, 0, 1)]
        code += [_step(RETURN, ALLOW)]
    return code


def _ranges(numbers: Iterable[int | None]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of numbers without a gap, in order."""
    known = sorted(number for number in numbers if number is not None)
    firsts = [number for number in known if number - 1 not in known]
    return zip(firsts, (number for number in known if number + 1 not in known), strict=True)


def _step(what: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", what, then, otherwise, value)


def _when(call: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which must end in a return, when this is the call."""
    return [_step(EQUAL, call, 0, len(body)), *body]


def _argument(index: int) -> bytes:
    return _step(LOAD, ARGUMENTS + 8 * index)


def _no_namespace() -> list[bytes]:
    """Allow a process or a thread to be made, but with no namespace of its own."""
    refused = _step(RETURN, refuse(errno.EPERM))
    bits = [_argument(0), _step(ANY_BIT, NEW_NAMESPACES, 0, 1), refused, _step(AND, THREAD | FILES)]
    return [*bits, _step(EQUAL, THREAD, 0, 1), refused, _step(RETURN, ALLOW)]


def _unless(index: int, value: int, number: int) -> list[bytes]:
    return [_argument(index), _step(EQUAL, value, 1, 0), _step(RETURN, refuse(number))]


def _if_any(index: int, values: tuple[int, ...], number: int) -> list[bytes]:
    tests = [_step(EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [_argument(index), *tests, _step(RETURN, ALLOW), _step(RETURN, refuse(number))]


def _ignore_buffers() -> list[bytes]:
    """Done, it says, and nothing was: as the kernel answers a wish for more than it grants."""
    of_another = [_argument(1), _step(EQUAL, SOL_SOCKET, 1, 0), _step(RETURN, ALLOW)]
    return [*of_another, *_if_any(2, BUFFERS, 0)]


def _only_families(*, loopback: bool) -> list[bytes]:
    families = (UNIX, INET, INET6) if loopback else (UNIX,)
    tests = [
        _step(EQUAL, family, len(families) - place, 0) for place, family in enumerate(families)
    ]
    return [_argument(0), *tests, _step(RETURN, refuse(errno.EAFNOSUPPORT)), _step(RETURN, ALLOW)]
