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


@attempt
def keep_rights_of_files_in_memory():
    """A list of rights is no page of the filesystem: it counts nowhere."""
    everybody = 0xFFFFFFFF
    entries = [(1, 7, everybody), *[(2, 7, 1000)] * 100, (4, 7, everybody), (16, 7, everybody)]
    entries.append((32, 7, everybody))
    rights = struct.pack("I", 2) + b"".join(struct.pack("HHI", *entry) for entry in entries)
    Path("rights").touch()
    os.setxattr("rights", "system.posix_acl_access", rights)


@attempt
def watch_files_as_all_programs_of_the_user_may():
    call(294, 26, 0)


@attempt
def enlarge_the_buffer_of_a_socket():
    one, _ = socket.socketpair()
    before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    if one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= before:
        raise StoppedError("it has the size that it had")


@attempt
def slow_process_1_by_its_user():
    os.setpriority(os.PRIO_USER, 0, 19)


@attempt
def slow_process_1_by_its_group():
    os.setpriority(os.PRIO_PGRP, os.getpgid(1) or 1, 19)


@attempt
def slow_the_disk_of_process_1_by_its_user():
    call(251, 30, 3, 0, 3 << 13)


@attempt
def run_before_all_others():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))


@attempt
def change_the_host_name():
    socket.sethostname("escaped")


@attempt
def enter_the_namespaces_of_process_1_by_a_descriptor():
    call(308, 268, os.pidfd_open(1), 0x20000)


@attempt
def open_a_device_beyond_the_usual():
    usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    for folder, _, names in os.walk("/dev"):
        for name in set(names) - usual:
            path = Path(folder, name)
            if path.is_symlink() or folder == "/dev/pts":
                continue
            if path.is_char_device() or path.is_block_device():
                with suppress(OSError):
                    os.close(os.open(path, os.O_RDWR))
                    return
    raise StoppedError("there is none")


@attempt
def replace_the_program_of_process_1():
    os.close(os.open("/proc/1/exe", os.O_WRONLY))


@attempt
def look_at_what_process_1_does():
    for name in ("syscall", "stack", "io", "pagemap", "mem", "smaps", "timers", "task/1/mem"):
        with suppress(OSError):
            if Path("/proc/1", name).read_bytes():
                return
    raise StoppedError("nothing of it can be read")


@attempt
def relabel_itself_or_process_1():
    for name in ("self/attr/exec", "self/attr/current", "1/attr/current", "1/setgroups"):
        with suppress(OSError):
            Path("/proc", name).write_text("unconfined")
            return
    raise StoppedError("no file of it takes that")


@attempt
def map_itself_as_root():
    for name in ("uid_map", "gid_map"):
        with suppress(OSError):
            Path("/proc/self", name).write_text("0 0 1")
            return
    raise StoppedError("it is mapped already")


@attempt
def have_its_memory_written_to_a_file():
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
