"""The seccomp program, run call by call in an interpreter of BPF, for both machines."""

import errno
import re
import struct
from pathlib import Path

import pytest

from agenteval.sandbox import seccomp

ALLOWED = "allowed"
KILLED = "killed"
IGNORED = "ignored"
CLONES = {
    "thread": 0x3D0F00,
    "fork": 0x1200011,
    "user": 0x10000011,
    "net": 0x40000011,
    "thread with files of its own": 0x3D0B00,
}


def verdict(machine, number, *arguments, arch=None, loopback=False):
    """What the kernel would answer to this call under the filter."""
    code = list(struct.iter_unpack("=HBBI", seccomp.sandbox_filter(machine, loopback=loopback)))
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, arch or seccomp.ARCH[machine], 0, *words)
    at, loaded = 0, 0
    while True:
        what, then, otherwise, value = code[at]
        at += 1
        match what:
            case seccomp.LOAD:
                (loaded,) = struct.unpack_from("<I", data, value)
            case seccomp.EQUAL:
                at += then if loaded == value else otherwise
            case seccomp.AT_LEAST:
                at += then if loaded >= value else otherwise
            case seccomp.ANY_BIT:
                at += then if loaded & value else otherwise
            case seccomp.AND:
                loaded &= value
            case seccomp.RETURN:
                if value == seccomp.ALLOW:
                    return ALLOWED
                number = value & 0xFFFF
                return KILLED if value == seccomp.KILL else errno.errorcode.get(number, IGNORED)


MACHINES = list(seccomp.ARCH)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_stands_in_no_table_is_unknown(machine):
    sections = seccomp.calls(machine)
    answers = {
        number: answer
        for section, answer in (
            ("allowed", ALLOWED),
            ("refused", "EPERM"),
            ("unsupported", "ENOTSUP"),
        )
        for number in sections[section].values()
    }
    expected = {
        number: answers.get(number, "ENOSYS")
        for number in (*range(700), 5000, seccomp.X32 - 1)
        if number not in sections["by_arguments"].values()
    }
    assert {number: verdict(machine, number) for number in expected} == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_no_name_and_no_number_stands_twice(machine):
    sections = seccomp.calls(machine).values()
    names = [name for section in sections for name in section]
    numbers = [number for section in sections for number in section.values() if number is not None]
    assert (len(set(names)), len(set(numbers))) == (len(names), len(numbers))


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")],
)
def test_numbers_are_those_of_the_kernels_headers(machine, header):
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    numbers = {name: int(number) for name, number in found}
    ours = {
        name: number
        for section in seccomp.calls(machine).values()
        for name, number in section.items()
    }
    assert len(ours.keys() & numbers.keys()) > 250
    assert {name: numbers[name] for name in ours if name in numbers} == {
        name: number for name, number in ours.items() if name in numbers
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_what_decides_by_its_arguments(machine):
    number = seccomp.calls(machine)["by_arguments"]
    clone, ioctl = number["clone"], number["ioctl"]
    sockets = [number["socket"], number["socketpair"]]
    families = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "vsock": 40}
    assert {
        "clone": {name: verdict(machine, clone, flags) for name, flags in CLONES.items()},
        "ioctl": [verdict(machine, ioctl, 0, request) for request in (0x5401, 0x5412, 0x541C)],
        "alone": [
            {name for name, family in families.items() if verdict(machine, call, family) == ALLOWED}
            for call in sockets
        ],
        "loopback": [
            {
                name
                for name, family in families.items()
                if verdict(machine, call, family, loopback=True) == ALLOWED
            }
            for call in sockets
        ],
    } == {
        "clone": dict(zip(CLONES, [ALLOWED, ALLOWED, "EPERM", "EPERM", "EPERM"], strict=True)),
        "ioctl": [ALLOWED, "EPERM", "EPERM"],
        "alone": [{"unix"}] * 2,
        "loopback": [{"unix", "inet", "inet6"}] * 2,
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_process_may_change_of_itself_it_may_not_change_of_the_runner(machine):
    for name, index in seccomp.OF_PROCESS_1.items():
        number = seccomp.calls(machine)["by_arguments"][name]
        kind = seccomp.ONE_PROCESS.get(name, 0)
        pids = (0, 1, 1 << 32 | 1, 7)
        answers = [verdict(machine, number, *[kind] * index, pid) for pid in pids]
        assert answers == [ALLOWED, "EPERM", "EPERM", ALLOWED]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_group_or_a_user_that_the_runner_belongs_to_is_not_changed(machine):
    number = seccomp.calls(machine)["by_arguments"]
    assert {
        name: {kind for kind in range(5) if verdict(machine, number[name], kind, 7) == ALLOWED}
        for name in seccomp.ONE_PROCESS
    } == {"setpriority": {0}, "ioprio_set": {1}}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_size_of_a_sockets_buffer_stays_and_its_other_options_do_not(machine):
    call = seccomp.calls(machine)["by_arguments"]["setsockopt"]
    options = [(1, 7), (1, 8), (1, 2), (0, 8), (6, 7)]
    assert [verdict(machine, call, 3, *option) for option in options] == [
        IGNORED,
        IGNORED,
        ALLOWED,
        ALLOWED,
        ALLOWED,
    ]


def test_calls_of_another_machine_kill_and_x32_is_unknown():
    assert [
        verdict("x86_64", 39, arch=0x40000003),
        verdict("aarch64", 39, arch=0x40000028),
        verdict("x86_64", seccomp.X32 + 39),
    ] == [KILLED, KILLED, "ENOSYS"]
