"""The seccomp program, run call by call in an interpreter of BPF, for both machines."""

import errno
import struct

import pytest

from agenteval.sandbox.inside import seccomp

ALLOWED = "allowed"
KILLED = "killed"
CLONES = {"thread": 0x3D0F00, "fork": 0x1200011, "user": 0x10000011, "net": 0x40000011}


def verdict(machine, number, *arguments, arch=None, loopback=False):
    """What the kernel would answer to this call under the filter."""
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine, loopback=loopback)))
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
            case seccomp.RETURN:
                if value == seccomp.ALLOW:
                    return ALLOWED
                return KILLED if value == seccomp.KILL else errno.errorcode[value & 0xFFFF]


MACHINES = list(seccomp.ARCH)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_refused_call_is_refused_and_its_neighbours_are_not(machine):
    column = MACHINES.index(machine)
    refused = {numbers[column] for numbers in seccomp.REFUSED.values()} - {None}
    unknown = {numbers[column] for numbers in seccomp.UNKNOWN.values()}
    expected = {
        number: "EPERM" if number in refused else "ENOSYS" if number in unknown else ALLOWED
        for number in range(500)
        if number not in {pair[column] for pair in seccomp.SOCKETS}
    }
    assert {number: verdict(machine, number) for number in expected} == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_what_decides_by_its_arguments(machine):
    column = MACHINES.index(machine)
    clone, ioctl = seccomp.CLONE[column], seccomp.IOCTL[column]
    sockets = [numbers[column] for numbers in seccomp.SOCKETS]
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
        "clone": {"thread": ALLOWED, "fork": ALLOWED, "user": "EPERM", "net": "EPERM"},
        "ioctl": [ALLOWED, "EPERM", "EPERM"],
        "alone": [{"unix"}] * 2,
        "loopback": [{"unix", "inet", "inet6"}] * 2,
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_process_may_change_of_itself_it_may_not_change_of_the_runner(machine):
    column = MACHINES.index(machine)
    for numbers, index in seccomp.OF_PROCESS_1.values():
        said = [
            verdict(machine, numbers[column], *[0] * index, pid) for pid in (0, 1, 1 << 32 | 1, 7)
        ]
        assert said == [ALLOWED, "EPERM", "EPERM", ALLOWED]


def test_calls_of_another_machine_kill_and_x32_is_unknown():
    assert [
        verdict("x86_64", 39, arch=0x40000003),
        verdict("aarch64", 39, arch=0x40000028),
        verdict("x86_64", seccomp.X32 + 39),
    ] == [KILLED, KILLED, "ENOSYS"]
