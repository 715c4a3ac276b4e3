"""Corners: what few programs use, and what is left of the runner within reach of a command."""

import ctypes
import fcntl
import os
import resource
import socket
import struct
from contextlib import suppress
from pathlib import Path

from base import LIBC, StoppedError, attempt, call, check

OURS = {"/workspace", "/tmp", "/dev/shm"}
WIDE = 1 << 32  # the kernel cuts this bit off; a filter must not be misled by it


@attempt
def type_into_a_console():
    call(16, 29, 0, 0x541C, ctypes.create_string_buffer(16))


@attempt
def type_into_a_terminal_by_a_wide_number():
    call(16, 29, 0, WIDE | 0x5412, b"x")


@attempt
def open_a_netlink_socket_by_a_wide_number():
    call(41, 198, WIDE | socket.AF_NETLINK, socket.SOCK_RAW, 0)


@attempt
def open_a_socket_of_any_rare_family():
    for family in {*range(3, 46)} - {socket.AF_INET6}:
        with suppress(OSError):
            socket.socket(family, socket.SOCK_DGRAM).close()
            return
    raise StoppedError("of none")


@attempt
def change_a_mount_attribute():
    call(442, 442, -100, b"/usr", 0, struct.pack("4Q", 0, 1, 0, 0), 32)


@attempt
def move_a_mount():
    call(429, 429, -100, b"/tmp", -100, b"/usr", 0)


@attempt
def name_a_file_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    call(303, 264, -100, b"/usr", handle, ctypes.byref(ctypes.c_int()), 0)


@attempt
def climb_to_the_namespace_above():
    for name in ("user", "pid"):
        fcntl.ioctl(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0xB702)


@attempt
def advise_on_the_memory_of_process_1():
    call(440, 440, os.pidfd_open(1), struct.pack("2Q", 4096, 4096), 1, 21, 0)


@attempt
def take_the_filter_off():
    check(LIBC.prctl(22, 0, 0, 0, 0))


@attempt
def allow_new_privileges():
    check(LIBC.prctl(38, 0, 0, 0, 0))


@attempt
def change_the_limits_of_process_1():
    resource.prlimit(1, resource.RLIMIT_CORE, resource.prlimit(1, resource.RLIMIT_CORE))


@attempt
def change_the_limits_of_process_1_by_a_wide_number():
    call(302, 261, WIDE | 1, resource.RLIMIT_CORE, struct.pack("2Q", 0, 0), 0)


@attempt
def signal_process_1_by_every_number():
    """The next call shows whether it lives."""
    for number in range(1, 65):
        os.kill(1, number)
    raise StoppedError("the runner is asked afterwards")


@attempt
def change_how_process_1_is_killed_or_scheduled():
    for name in ("oom_score_adj", "autogroup", "coredump_filter", "timerslack_ns", "comm"):
        with suppress(OSError):
            Path("/proc/1", name).write_text("1")
            return
    raise StoppedError("no file of it takes that")


@attempt
def be_spared_when_memory_is_short():
    Path("/proc/self/oom_score_adj").write_text("-1000")


@attempt
def speak_to_the_evaluator_over_an_inherited_descriptor():
    own = {int(name) for name in os.listdir("/proc/self/fd")}
    for number in own:
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                os.write(number, b"\0" * 16)
                return
    raise StoppedError("none of them is a socket")


@attempt
def pretend_to_be_process_1():
    one, _ = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", 1, 0, 0))])


@attempt
def write_any_setting_of_the_kernel():
    for folder, _, names in os.walk("/proc/sys"):
        for name in names:
            with suppress(OSError):
                os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
                return
    raise StoppedError("none can be opened")


@attempt
def make_a_file_on_any_other_mount():
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = line.split()[4]
        if place not in OURS and os.path.isdir(place):
            with suppress(OSError):
                os.close(os.open(f"{place}/escaped", os.O_CREAT | os.O_WRONLY))
                return
    raise StoppedError("on none of them")


@attempt
def read_what_only_root_sees_in_proc():
    for name in ("kmsg", "kpagecount", "vmallocinfo", "slabinfo", "timer_list", "1/maps", "1/auxv"):
        with suppress(OSError):
            if Path("/proc", name).read_bytes():
                return
    raise StoppedError("nothing")


@attempt
def hoard_descriptors_in_flight():
    """Sent and not received they count for nobody's table; the kernel has a limit for them."""
    held = []
    for _ in range(1 << 10):
        held.append(socket.socketpair())
        socket.send_fds(held[-1][0], [b"x"], [held[-1][0].fileno()] * 200)
        held[-1][0].close()
