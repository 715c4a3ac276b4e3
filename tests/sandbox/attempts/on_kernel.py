"""Kernel calls that change the world, or hide from its limits."""

import ctypes
import fcntl
import mmap
import os
import struct

from base import LIBC, X86, StoppedError, attempt, call, check, in_child


@attempt
def mount_a_filesystem():
    check(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None))


@attempt
def mount_with_the_new_calls():
    call(430, 430, b"tmpfs", 0)


@attempt
def clone_a_mount():
    call(428, 428, -100, b"/", 1)


@attempt
def make_the_root_writable():
    check(LIBC.mount(None, b"/", None, 32 | 4096, None))


@attempt
def make_usr_writable():
    check(LIBC.mount(None, b"/usr", None, 32 | 4096, None))


@attempt
def unmount_proc():
    check(LIBC.umount2(b"/proc", 2))


@attempt
def change_the_root():
    in_child(lambda: os.chroot("/proc/1/root"))


@attempt
def unshare_a_user_namespace():
    in_child(lambda: check(LIBC.unshare(0x10000000)))


@attempt
def clone_into_a_user_namespace():
    in_child(lambda: call(56, 220, 0x10000000 | 17, 0, 0, 0, 0))


@attempt
def clone3_into_a_user_namespace():
    arguments = ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0))
    in_child(lambda: call(435, 435, arguments, 64))


@attempt
def enter_the_namespaces_of_process_1():
    check(LIBC.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))


@attempt
def enter_a_namespace_of_its_own():
    check(LIBC.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0))


@attempt
def open_a_file_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + bytes(120))
    call(304, 265, -100, handle, 0)


@attempt
def load_a_bpf_program():
    call(321, 280, 0, ctypes.create_string_buffer(128), 128)


@attempt
def open_a_performance_counter():
    call(
        298, 241, ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104)), 0, -1, -1, 0
    )


@attempt
def open_a_userfault():
    call(323, 282, 1)


@attempt
def add_a_key():
    call(248, 217, b"user", b"name", b"text", 4, -3)


@attempt
def read_keys():
    call(250, 219, 0, -3, 1)


@attempt
def make_sysv_shared_memory():
    call(29, 194, 0, 1 << 20, 0o1600)


@attempt
def make_a_message_queue():
    call(240, 180, b"queue", os.O_CREAT | os.O_RDWR, 0o600, 0)


@attempt
def use_io_uring():
    call(425, 425, 4, ctypes.create_string_buffer(120))


@attempt
def hide_memory_in_a_file():
    os.memfd_create("hidden")


@attempt
def hide_memory_in_a_secret_file():
    call(447, 447, 0)


@attempt
def load_a_module():
    call(175, 105, b"x", 1, b"")


@attempt
def reboot():
    call(169, 142, 0xFEE1DEAD, 672274793, 0)


@attempt
def set_the_clock():
    call(227, 112, 0, struct.pack("qq", 0, 0))


@attempt
def type_into_a_terminal():
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")


@attempt
def type_into_any_file():
    fcntl.ioctl(0, 0x5412, b"x")


@attempt
def call_the_kernel_as_x32():
    in_child(lambda: call(0x40000000 + 272, 97, 0x10000000))


@attempt
def call_the_kernel_as_i386():
    """unshare(CLONE_NEWUSER) by its 32-bit number, in machine code."""
    if not X86:
        raise StoppedError("no such calls on this machine")
    code = b"\x53\xb8\x36\x01\x00\x00\xbb\x00\x00\x00\x10\xcd\x80\x5b\xc3"
    room = mmap.mmap(-1, 4096, prot=7)  # never closed: the function below lies in it
    room.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))

    def body():
        if (result := function()) < 0:
            raise OSError(-result, os.strerror(-result))

    in_child(body)


@attempt
def read_the_kernel_log():
    call(103, 116, 3, ctypes.create_string_buffer(64), 64)
