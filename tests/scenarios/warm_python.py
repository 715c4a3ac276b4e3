"""Scripts run by processes forked from one that has imported what scripts import.

`SHELL` is what stands for `uv` in a bash that asks for them: `uv run SCRIPT` has the streams, the
folder and the exit code that a new Python would have given it.
"""

import argparse  # noqa: F401 -- here and below: had by the scripts
import contextlib
import gc
import gettext  # noqa: F401
import json  # noqa: F401
import os
import random  # noqa: F401
import re  # noqa: F401
import runpy
import shutil  # noqa: F401
import socket
import sqlite3  # noqa: F401
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# Streams 4 to 6 are its own: printf has another of its own while it is read.
# The end of the connection, and not the code on it, tells that the script's process is over.
SHELL = """() {
    local code
    exec 3<>"/dev/tcp/127.0.0.1/$WARM_PYTHON" 4<&0 5>&1 6>&2 || return 125
    printf '%s\\0' "$#" "$BASHPID" "$PWD" "${@:2}" >&3
    IFS= read -r -d '' -u 3 code
    exec 3>&- 4<&- 5>&- 6>&-
    return "${code:-125}"
}"""


@contextlib.contextmanager
def serving(environment: dict[str, str]) -> Iterator[str]:
    """The port at which such processes are to be had."""
    with subprocess.Popen(
        [sys.executable, __file__], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        gc.freeze()  # else each would copy what it looks through
        while True:
            asked, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _play(asked)
                return
            asked.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _play(asked: socket.socket) -> None:
    with asked.makefile("rb") as lines:
        count, shell, folder = _words(lines, 3)
        arguments = _words(lines, int(count) - 1)
    os.chdir(folder)
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        os.dup2(os.open(f"/proc/{shell}/fd/{number + 4}", mode | os.O_APPEND), number)
    sys.argv[:] = arguments
    script = Path(arguments[0]).absolute()
    sys.path[0] = str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
        asked.sendall(b"0")
        sys.stdout.flush()
        os._exit(0)  # to take all modules apart would cost half as much again
    except SystemExit as ended:
        told = isinstance(ended.code, str)
        asked.sendall(str(1 if told else ended.code or 0).encode())
        raise
    except BaseException:
        asked.sendall(b"1")
        raise


def _words(lines: BinaryIO, count: int) -> list[str]:
    """The next words, each of which ends with a null byte."""
    found = []
    for _ in range(count):
        word = bytearray()
        while (byte := lines.read(1)) != b"\0":
            assert byte
            word += byte
        found.append(word.decode())
    return found


if __name__ == "__main__":
    main()
