"""Files, devices and settings of the host."""

import os
from pathlib import Path

from base import BAIT, StoppedError, attempt


@attempt
def read_a_host_file():
    Path(BAIT["secret"]).read_text()


@attempt
def read_a_host_file_through_the_root_of_process_1():
    Path("/proc/1/root" + BAIT["secret"]).read_text()


@attempt
def read_a_host_file_through_the_working_folder_of_process_1():
    Path("/proc/1/cwd/../../../../.." + BAIT["secret"]).read_text()


@attempt
def follow_a_symlink_to_a_host_file():
    link = Path("link-to-secret")
    link.unlink(missing_ok=True)
    link.symlink_to(BAIT["secret"])
    link.read_text()


@attempt
def see_names_in_the_home():
    if not set(os.listdir(BAIT["home"])) & set(BAIT["names"]):
        raise StoppedError("nothing of it is there")


@attempt
def find_the_project():
    if not Path(BAIT["project"]).exists():
        raise StoppedError("not there")


@attempt
def find_the_canary_in_any_environment():
    seen = b"".join(map(readable, Path("/proc").glob("[0-9]*/environ")))
    if BAIT["canary"].encode() not in seen + repr(os.environ).encode():
        raise StoppedError("in none of them")


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


@attempt
def read_the_environment_of_process_1():
    if not Path("/proc/1/environ").read_bytes():
        raise StoppedError("empty")


@attempt
def make_a_file_of_root():
    Path("mine").write_text("x")
    os.chown("mine", 0, 0)


@attempt
def gain_rights_from_a_setuid_program():
    """The kernel grants none to a process with this mark, whatever program it executes."""
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        raise StoppedError("no new privileges")


@attempt
def hold_a_capability():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb")) and int(line.split()[1], 16):
            return
    raise StoppedError("it has none")


@attempt
def make_a_device():
    os.mknod("disk", 0o60666, os.makedev(8, 0))


@attempt
def open_kernel_memory():
    os.open("/dev/mem", os.O_RDWR)


@attempt
def open_a_disk():
    os.open("/dev/vda" if Path("/dev/vda").exists() else "/dev/sda", os.O_RDONLY)


def write_to(path, text="x"):
    with open(path, "w") as file:
        file.write(text)


@attempt
def write_core_pattern():
    write_to("/proc/sys/kernel/core_pattern", "|/workspace/evil")


@attempt
def write_modprobe():
    write_to("/proc/sys/kernel/modprobe", "/workspace/evil")


@attempt
def write_sysrq():
    write_to("/proc/sysrq-trigger", "b")


@attempt
def write_a_global_setting():
    write_to("/proc/sys/vm/overcommit_memory", "1")


@attempt
def allow_more_user_namespaces():
    write_to("/proc/sys/user/max_user_namespaces", "99999")


@attempt
def read_kernel_memory():
    with open("/proc/kcore", "rb") as file:
        file.read(16)


@attempt
def write_to_sys():
    write_to("/sys/kernel/uevent_helper", "/workspace/evil")


@attempt
def set_a_release_agent():
    write_to("/sys/fs/cgroup/release_agent", "/workspace/evil")


@attempt
def write_below_usr():
    write_to("/usr/bin/escaped")


@attempt
def write_below_etc():
    write_to("/etc/passwd", "root::0:0::/:/bin/sh")


@attempt
def write_below_the_interpreter():
    write_to(Path(os.__file__).parent / "escaped.py")


@attempt
def write_to_the_root():
    write_to("/escaped")


@attempt
def write_to_dev():
    write_to("/dev/escaped")


@attempt
def fill_shared_memory():
    with open("/dev/shm/big", "wb") as file:
        try:
            file.writelines(bytes(1 << 20) for _ in range(64))
        finally:
            os.unlink("/dev/shm/big")
