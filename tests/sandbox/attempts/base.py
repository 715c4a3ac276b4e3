"""What every attempt at leaving a sandbox is made with; lies beside them inside."""

import ctypes
import errno
import json
import os
import socket
import sys
from pathlib import Path

BAIT = json.loads(Path(sys.argv[1]).read_text())
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"
ATTEMPTS = {}


class StoppedError(Exception):
    """An attempt came to nothing without an error of the kernel."""


def attempt(function):
    ATTEMPTS[function.__name__.replace("_", " ")] = function
    return function


def check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(x86, arm, *arguments):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return check(LIBC.syscall(ctypes.c_long(x86 if X86 else arm), *words))


def in_child(body):
    """Do it in a forked child: it would change or end the process that attempts the others."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except OSError as error:
            os._exit(error.errno or 1)
        except StoppedError:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code > 0:
        raise OSError(code, os.strerror(code))
    if code < 0:
        raise StoppedError(f"killed by signal {-code}")


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(address)
        made.send(b"escaped")
        if kind == socket.SOCK_DGRAM:
            raise StoppedError("sent into the void; the host counts what arrives")


def stopped_by(function):
    try:
        function()
    except (OSError, ValueError, StoppedError) as error:
        return f"{errno.errorcode.get(getattr(error, 'errno', None), '')} {error}".strip()
    return ""
