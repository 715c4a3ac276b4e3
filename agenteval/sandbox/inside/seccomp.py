"""The seccomp filter: which kernel calls a command never needs, as a BPF program."""

import errno
import struct

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: number on x86_64, number on aarch64 (None: it has no such call)
REFUSED: dict[str, tuple[int | None, int | None]] = {
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
# Their callers fall back to an older call when the kernel does not know these.
UNKNOWN: dict[str, tuple[int, int | None]] = {
    "clone3": (435, 435), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # all programs of a user share few of these, those outside too
    "inotify_init": (253, None), "inotify_init1": (294, 26),
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
CLONE, IOCTL, SETSOCKOPT = (56, 220), (16, 29), (54, 208)
SOCKETS = ((41, 198), (53, 199))  # socket, socketpair
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into the terminal of somebody else
SOL_SOCKET, BUFFERS = 1, (7, 8)  # SO_SNDBUF and SO_RCVBUF: how much a socket may hold
UNIX, INET, INET6 = 1, 2, 10
X32 = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16
KILL, ALLOW = 0x80000000, 0x7FFF0000


def refuse(number: int) -> int:
    return 0x50000 | number


def program(machine: str, *, loopback: bool) -> bytes:
    """The filter for this machine; without `loopback` there are no internet sockets at all."""
    column = list(ARCH).index(machine)
    code = [_step(LOAD, MACHINE), _step(EQUAL, ARCH[machine], 1, 0), _step(RETURN, KILL)]
    code += [_step(LOAD, NUMBER)]
    if machine == "x86_64":
        code += [_step(AT_LEAST, X32, 0, 1), _step(RETURN, refuse(errno.ENOSYS))]
    answers = ((REFUSED, errno.EPERM), (UNKNOWN, errno.ENOSYS), (UNSUPPORTED, errno.EOPNOTSUPP))
    for table, number in answers:
        for numbers in table.values():
            if (call := numbers[column]) is not None:
                code += _when(call, [_step(RETURN, refuse(number))])
    for name, (numbers, index) in OF_PROCESS_1.items():
        kind = [] if name not in ONE_PROCESS else _unless(0, ONE_PROCESS[name], errno.EPERM)
        code += _when(numbers[column], [*kind, *_if_any(index, (1,), errno.EPERM)])
    code += _when(CLONE[column], _if_bits(0, NEW_NAMESPACES, errno.EPERM))
    code += _when(IOCTL[column], _if_any(1, TERMINAL_INPUT, errno.EPERM))
    code += _when(SETSOCKOPT[column], _ignore_buffers())
    for numbers in SOCKETS:
        code += _when(numbers[column], _only_families(loopback=loopback))
    return b"".join([*code, _step(RETURN, ALLOW)])


def _step(what: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", what, then, otherwise, value)


def _when(call: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which must end in a return, when this is the call."""
    return [_step(EQUAL, call, 0, len(body)), *body]


def _argument(index: int) -> bytes:
    return _step(LOAD, ARGUMENTS + 8 * index)


def _if_bits(index: int, bits: int, number: int) -> list[bytes]:
    refused = _step(RETURN, refuse(number))
    return [_argument(index), _step(ANY_BIT, bits, 0, 1), refused, _step(RETURN, ALLOW)]


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
