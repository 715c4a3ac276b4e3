"""Harnesses on this machine: installed in the tested version, or the user's own.

The registry is the one that npm or pip is set to use here. Nothing of an installed harness is run,
and nothing stands where a program of the user's could find it.
"""

import asyncio
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agenteval.errors import UsageError
from agenteval.harness.recipes import CHAT, FOLDER, Program, programs
from agenteval.host import locked
from agenteval.lazily import OWN_SAFE_PATH
from agenteval.trial.redaction import is_secret

SECONDS = 900
# Written last: an installation without it is half of one.
MARK = "agenteval.json"
_ARCH = {"x86_64": "x64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Installed:
    """`digest` is of the program's file; `binary` its path below `folder`."""

    program: Program
    folder: Path
    binary: str
    digest: str

    @property
    def inside(self) -> str:
        """Return the program's path in a sandbox."""
        return f"{FOLDER}/{self.binary}"

    @property
    def label(self) -> str:
        return f"{self.program.name} {self.program.version} (sha256 {self.digest[:12]})"

    @property
    def cure(self) -> str:
        """Return the fix for a program that asks for a login, or for somebody else's model."""
        again = f"agenteval harness install {self.program.name}"
        return f"remove {self.folder} and get it again: `{again}`"

    @property
    def protocol(self) -> str:
        """Return the program's label for a run's record, with its translation if there is one."""
        speaks = self.program.speaks
        return self.label if speaks == CHAT else f"{self.label}, {speaks} translated to {CHAT}"


def data() -> Path:
    """Return the folder of all that agenteval installs for a user."""
    if folder := os.environ.get("AGENTEVAL_DATA"):
        return Path(folder)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "agenteval"


def _place(name: str) -> tuple[Program, Path]:
    """Return a harness, and the folder of its tested version. Raises UsageError if it has none."""
    program = programs().get(name)
    if program is None:
        raise UsageError(f"no harness {name!r} is known. Known: {', '.join(programs())}")
    return program, data() / "harness" / f"{name}@{program.version}"


def installed(name: str) -> Installed:
    """Return the harness in the version tried. Raises UsageError, with what would get it."""
    program, folder = _place(name)
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
        installation = Installed(program, folder, mark["binary"], mark["sha256"])
    except (OSError, ValueError, KeyError) as error:
        folders = {*folder.parent.glob(f"{name}@*")} - {folder}
        others = sorted(path.name for path in folders)
        has = f"there is {', '.join(others)}, and it plays with" if others else "it plays with"
        raise UsageError(
            f"{name} is not installed: {has} {program.version}: "
            f"`agenteval harness install {name}` gets it ({program.megabytes} MB)"
        ) from error
    for need in program.needs:
        if shutil.which(need) is None:
            raise UsageError(f"{name} needs the program {need}, which is not on PATH: install it")
    return installation


def install(name: str) -> Installed:
    """Install a harness if it is missing, and return it as `installed` does. Raises UsageError."""
    program, folder = _place(name)
    with locked(folder.parent):  # who installs the same at this time has it when he has waited
        if not (folder / MARK).is_file():
            _renew(program, folder)
    return installed(name)


def _renew(program: Program, folder: Path) -> None:
    """Get it into a new folder, which takes the place of the old one when it is whole."""
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        _get(program, new)
        _note(program, new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def _get(program: Program, folder: Path) -> None:
    for command in _commands(program, folder):
        tool = command[0]
        try:
            subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=True,
            )
        except FileNotFoundError as error:
            raise UsageError(f"{program.name} comes by {tool}: install that first") from error
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"{program.name}: {tool} did not end in {SECONDS} s") from error
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or ["no reason given"]
            raise UsageError(f"{program.name}: {tool} could not get it: {lines[-1]}") from error


def _commands(program: Program, folder: Path) -> Iterator[Sequence[str]]:
    if program.registry == "npm":
        machine = platform.machine()
        package = program.package.format(arch=_ARCH.get(machine, machine))
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        yield ("npm", "install", *quiet, "--prefix", str(folder), f"{package}@{program.version}")
        return
    yield (sys.executable, "-P", "-m", "venv", str(folder))
    pinned = f"{program.package}=={program.version}"
    python = str(folder / "bin" / "python")
    # mini-swe-agent imports mcp without declaring it.
    yield (python, "-P", "-m", "pip", "install", "--quiet", pinned, "mcp")


def _note(program: Program, folder: Path) -> None:
    base = "node_modules/" if program.registry == "npm" else ""
    binaries = sorted(folder.glob(f"{base}{program.binary}"))
    if not binaries:
        raise UsageError(
            f"{program.name} {program.version}: its package has no program for this machine "
            f"({platform.machine()})"
        )
    with binaries[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    mark = {"binary": str(binaries[0].relative_to(folder)), "sha256": digest}
    (folder / MARK).write_text(json.dumps(mark), encoding="utf-8")


def foreign_environment(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that another's program is started with.

    A program whose model is ours needs no key: what it logs or sends can hold none.
    """
    return {
        name: value
        for name, value in variables.items()
        if not is_secret(name, value) and (name, value) != OWN_SAFE_PATH
    }


async def version_of(path: str) -> str:
    """Return the version that a user's own program reports; "" if it reports none."""
    process = await asyncio.create_subprocess_exec(
        path,
        "--version",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=foreign_environment(os.environ),
    )
    try:
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    words = output.decode(errors="replace").split()
    versions = (word for word in words if word[:1].isdigit())
    return next(versions, "")
