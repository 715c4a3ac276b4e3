"""A small container image out of this machine's own Python and programs, as a tar archive.

python tests/sandbox/image.py [MORE PROGRAMS] | podman import - NAME
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from agenteval.sandbox.launch import interpreter

PROGRAMS = (
    *("sh", "bash", "cat", "cp", "echo", "env", "find", "head", "id", "ln", "ls", "mkdir"),
    *("mkfifo", "mv", "nohup", "printf", "ps", "rm", "sed", "seq", "setsid", "sleep"),
    *("sort", "timeout", "touch", "true"),
)
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "tkinter"}
TOP = ("bin", "sbin", "lib", "lib64")
LIBRARY = re.compile(r"(/\S+) \(0x")


def main(*more: str) -> None:
    """Write the archive to standard output."""
    python = interpreter().executable
    programs = [path for path in map(shutil.which, (*PROGRAMS, *more)) if path]
    modules = list(_modules(Path(os.__file__).parent))
    loaded = [python, *programs, *(path for path in modules if path.endswith(".so"))]
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in ("dev", "proc", "sys", "etc", "run", "tmp", "usr/bin"):
            archive.addfile(_entry(name, tarfile.DIRTYPE))
        links = [name for name in TOP if Path("/", name).is_symlink()]
        for name in links:
            archive.addfile(_entry(name, tarfile.SYMTYPE, os.readlink(f"/{name}")))
        if python != "/usr/bin/python3":
            archive.addfile(_entry("usr/bin/python3", tarfile.SYMTYPE, python))
        paths = sorted({_true(path) for path in [*loaded, *modules, *_libraries(loaded)]})
        # docker makes a folder that has no entry of its own for root alone
        for folder in sorted(
            {str(above) for path in paths for above in [*Path(path).parents][:-1]}
        ):
            archive.addfile(_entry(folder, tarfile.DIRTYPE))
        for path in paths:
            archive.add(os.path.realpath(path), path, filter=_of_everybody)


def _modules(library: Path) -> Iterator[str]:
    for folder, below, names in os.walk(library):
        below[:] = [name for name in below if name not in LEFT_OUT | {"__pycache__"}]
        yield from (f"{folder}/{name}" for name in names if name.endswith((".py", ".so")))


def _libraries(programs: Iterable[str]) -> set[str]:
    """What the loader would load for them."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return set(LIBRARY.findall(listed.stdout))


def _true(path: str) -> str:
    """The same file where no folder on its way is a link."""
    return f"{os.path.realpath(os.path.dirname(path))}/{os.path.basename(path)}"


def _entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, 0o755, target
    return entry


def _of_everybody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode, entry.uid, entry.gid = 0o755, 0, 0
    return entry


if __name__ == "__main__":
    main(*sys.argv[1:])
