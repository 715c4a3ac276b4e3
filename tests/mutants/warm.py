"""Tests in a fork of a process that has loaded their libraries: most of a mutant's time was that.

The first run of a module's tests says which libraries they load; what is ours is never loaded here.
"""

import importlib
import json
import os
import py_compile
import resource
import select
import signal
import sys
from collections.abc import Sequence
from compileall import compile_dir
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_PYTEST = "--assert=plain -x -q -n 0 -p no:cacheprovider -p no:randomly --no-header"
_LOADED = "loaded.json"
_OURS = ("agenteval", "conftest", "_pytest", "pytest", "xdist")


@dataclass(frozen=True)
class Patience:
    """How long tests may take, of the processor's time and of the clock's, in seconds."""

    processor: int = 600
    clock: int = 1200


@dataclass(frozen=True)
class Ended:
    """The status, or None if it took too long; seconds of the processor; the last words."""

    status: int | None
    took: float
    said: str


def prepare(folder: Path) -> None:
    """Bytecode that is held against the text and not against its time: a mutant is as old as it."""
    kind = py_compile.PycInvalidationMode.CHECKED_HASH
    compile_dir(folder / "agenteval", quiet=1, invalidation_mode=kind)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a thread does not survive a fork
    os.environ["PYTHONPATH"] = str(folder)  # the copy goes before the installed package
    sys.path.insert(0, str(folder))


def first_run(folder: Path, tests: Sequence[str]) -> Ended:
    """As things are; afterwards the libraries of these tests are loaded."""
    ended = run(folder, tests, Patience(), keeps=True)
    if ended.status == 0:
        for name in json.loads((folder / _LOADED).read_text("utf-8")):
            with suppress(ImportError):  # a part that only its own package can load
                importlib.import_module(name)
    return ended


def run(folder: Path, tests: Sequence[str], patience: Patience, *, keeps: bool = False) -> Ended:
    """`keeps`: bytecode is written, and what was loaded is noted."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(folder, tests, patience, keeps=keeps)
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    in_time = poll.poll(patience.clock * 1000)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    os.close(handle)
    code = os.waitstatus_to_exitcode(status)
    said = _output(folder).read_text("utf-8", "replace")[-3000:]
    return Ended(code if in_time and code >= 0 else None, used.ru_utime + used.ru_stime, said)


def _output(folder: Path) -> Path:
    return folder / "output.txt"


def _child(folder: Path, tests: Sequence[str], patience: Patience, *, keeps: bool) -> None:
    status = 99
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (patience.processor, patience.processor))
        out = os.open(_output(folder), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.dont_write_bytecode = not keeps
        status = int(pytest.main([*_PYTEST.split(), *tests]))
        if keeps:
            (folder / _LOADED).write_text(json.dumps(_libraries()), "utf-8")
        sys.stdout.flush()
    finally:
        os._exit(status)


def _libraries() -> list[str]:
    return [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in _OURS
        and (
            "site-packages" in (getattr(module, "__file__", None) or "")
            or name.partition(".")[0] in sys.stdlib_module_names
        )
    ]
