"""A real, unmodified llama.cpp server: got once from Debian, run from a cache, never installed.

`python tests/servers/llama.py` gets it: from the unstable suite of the archive that apt is set to
use here, through apt and with its signatures checked, into folders of its own. Its programs want a
newer C library than a stable release has, so they run under the loader they came with.
"""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import AbsentError, cache, free_port, running

SUITE, PACKAGE = "unstable", "llama.cpp-tools"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
PROGRAM = Path("usr/bin/llama-server")
SECONDS = 120  # for each of apt's two commands


def got() -> Path:
    """The folder it was unpacked into. Raises AbsentError."""
    root = cache() / "llama.cpp"
    if not (root / PROGRAM).is_file():
        raise AbsentError("no llama-server in the cache; `make servers` gets it")
    return root


def get() -> Path:
    """As `got`, fetched when it is not there. Raises AbsentError where it cannot be had."""
    root = cache() / "llama.cpp"
    if (root / PROGRAM).is_file():
        return root
    system = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    if (system.get("ID"), platform.machine()) != ("debian", "x86_64"):
        raise AbsentError("llama-server is got from Debian's packages, on Debian and x86-64")
    work, new = cache() / "apt", cache() / "llama.cpp.new"
    for folder in (work, new):
        shutil.rmtree(folder, ignore_errors=True)
    for package in _downloaded(work):
        _run("dpkg", "-x", str(package), str(new))
    new.rename(root)
    shutil.rmtree(work)
    return root


def _downloaded(work: Path) -> list[Path]:
    """The package and all that it needs, down to the C library, whatever is installed here."""
    for folder in ("state/lists/partial", "cache/archives/partial", "sources"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources" / "suite.list").write_text(f"{_archive()}\n")
    own = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": work / "sources",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",  # it would not be let into the cache of another user
        "Debug::NoLocking": "1",
    }
    options = [part for name, value in own.items() for part in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "--error-on=any", "update")
    _run(
        "apt-get", *options, "--no-install-recommends", "--download-only", "-y", "install", PACKAGE
    )
    return sorted((work / "cache" / "archives").glob("*.deb"))


def _archive() -> str:
    """The line of a sources.list for the suite, in the archive that this release comes from."""
    system = platform.freedesktop_os_release()
    fields = "$(TARGET_OF) $(REPO_URI) $(COMPONENT) $(RELEASE) $(SIGNED_BY)"
    said = _run("apt-get", "indextargets", "--no-release-info", "--format", fields)
    for line in said.splitlines():
        kind, uri, component, release, *signed = line.split()
        if (kind, component, release) == ("deb", "main", system.get("VERSION_CODENAME")):
            keys = [key for key in signed if key.startswith("/")]
            option = f"[signed-by={keys[0]}] " if keys else ""
            return f"deb {option}{uri} {SUITE} {component}"
    raise AbsentError("apt is set to use no Debian archive, where llama-server would come from")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise AbsentError(f"{command[0]} {command[-1]}: nothing after {SECONDS} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AbsentError(f"{command[0]} {command[-1]} ends with {done.returncode}: {last}")
    return done.stdout


@contextmanager
def llama_server(
    root: Path, weights: Path, *, slots: int, name: str = "markov", window: int = 16384
) -> Iterator[str]:
    """Its address, without /v1, while it serves these weights under that name."""
    libraries = root / LIBRARIES
    backends = libraries / "ggml" / "backends0"
    fast = " avx2 " in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    port = free_port()
    program = [
        str(libraries / "ld-linux-x86-64.so.2"),
        "--library-path",
        f"{libraries}:{libraries / 'llama'}",
        str(root / PROGRAM),
    ]
    # One thread: with more, they wait for each other on a busy machine.
    options = f"--jinja -np {slots} -c {slots * window} -t 1 -tb 1 --no-webui --offline"
    with running(
        [*program, *options.split(), "-m", str(weights), "-a", name, "--port", str(port)],
        {"GGML_BACKEND_PATH": str(backends / f"libggml-cpu-{'haswell' if fast else 'x64'}.so")},
        ready=f"http://127.0.0.1:{port}/health",
        log=weights.with_suffix(".log"),
        wait=60,
    ):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"llama-server: {get()}\n")
    except AbsentError as absent:
        sys.exit(f"llama-server: not here: {absent}")
