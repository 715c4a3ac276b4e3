"""Other processes, other users and the limits of our own."""

import ctypes
import os
import resource
from pathlib import Path

from base import BAIT, StoppedError, attempt, call, in_child


@attempt
def see_a_host_process():
    if Path(f"/proc/{BAIT['pid']}/cmdline").read_text() != BAIT["command"]:
        raise StoppedError("the number belongs to a process of its own")


@attempt
def signal_host_processes():
    """The host looks whether its victim still lives."""
    if BAIT["victim"] != os.getpid():
        os.kill(BAIT["victim"], 9)
    raise StoppedError("it hit nobody, or a process of its own")


@attempt
def trace_process_1():
    call(101, 117, 16, 1, 0, 0)


@attempt
def read_the_memory_of_process_1():
    room = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(room), 8)
    call(310, 270, 1, vector, 1, vector, 1, 0)


@attempt
def write_the_memory_of_process_1():
    with open("/proc/1/mem", "r+b") as file:
        file.seek(4096)
        file.write(b"x")


@attempt
def list_the_files_of_process_1():
    os.listdir("/proc/1/fd")


@attempt
def take_a_file_of_process_1():
    pidfd = os.pidfd_open(1)
    for number in range(3, 20):
        call(438, 438, pidfd, number, 0)


@attempt
def become_root():
    in_child(lambda: os.setuid(0))


@attempt
def become_another_group():
    in_child(lambda: os.setgroups([0]))


@attempt
def raise_a_limit():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 16, 1 << 16))


@attempt
def raise_the_process_limit():
    resource.setrlimit(resource.RLIMIT_NPROC, (1 << 16, 1 << 16))


@attempt
def take_a_higher_priority():
    os.nice(-10)


@attempt
def kill_the_runner():
    """The next call shows whether it lives."""
    for number in (9, 19, 15, 2, 10, 11, 14, 6):
        os.kill(1, number)
    raise StoppedError("the runner is asked afterwards")
