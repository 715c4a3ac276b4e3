"""Running this project's code as another user: an ordinary one, when the tests run as root."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from agenteval.sandbox.inside import kernel, launcher
from agenteval.sandbox.launch import interpreter

NOBODY = 65534
IDS = "subordinate-ids"
USERS = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)


def copy_of_the_project() -> Path:
    """The package and these tests where every user can read them."""
    folder = Path(tempfile.mkdtemp(prefix="agenteval-tests-"))
    folder.chmod(0o755)
    shutil.copytree(Path(__file__).parents[2] / "agenteval", folder / "agenteval")
    shutil.copytree(Path(__file__).parent, folder, dirs_exist_ok=True)
    (folder / "home").mkdir()
    (folder / "home" / "diary").write_text("private")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)  # what a killed evaluator leaves there goes with the copy
    return folder


def start(user: str, folder: Path, script: str, *arguments: str, **extra: str) -> subprocess.Popen:
    """The script of this folder, started as this user with the interpreter that runs us."""
    words = [interpreter().executable, "-S", script, *arguments]
    return start_words(user, folder, words, **extra)


def start_words(
    user: str,
    folder: Path,
    words: Sequence[str],
    prepare: Callable[[], object] = lambda: None,
    **extra: str,
) -> subprocess.Popen:
    """Any program, started as this user in this folder, after what we prepare in its process."""
    prefix = interpreter().prefix

    def become() -> None:
        prepare()
        if user == "ordinary" and os.geteuid() == 0:
            if prefix:
                launcher._uncover([prefix])
            if (folder / IDS).exists():
                _lend(folder / IDS)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    return subprocess.Popen(
        words,
        cwd=folder,
        env={
            "HOME": str(folder / "home"),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder / "tmp"),
        }
        | extra,
        preexec_fn=become,  # noqa: PLW1509 - no thread runs here that could hold a lock
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _lend(ids: Path) -> None:
    """Let the kernel's helpers read there who may have more user ids; for nobody but us."""
    kernel.unshare(kernel.NEWNS)
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    for path in ("/etc/subuid", "/etc/subgid"):
        kernel.mount(str(ids), path, "", kernel.BIND)


def hide_processes() -> None:
    """Mount /proc with hidepid=2, which shows a user no process of another; for nobody but us."""
    kernel.unshare(kernel.NEWNS)
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    kernel.mount("proc", "/proc", "proc", 0, "hidepid=2")


def engine_of_the_ordinary(folder: Path, image: str) -> dict[str, str]:
    """Give the ordinary user a home with a podman that has the image; the environment for it."""
    places = {"HOME": folder / "own-home", "XDG_RUNTIME_DIR": folder / "run"}
    for place in places.values():
        place.mkdir(mode=0o700)
        os.chown(place, NOBODY, NOBODY)
    (places["HOME"] / "diary").write_text("private")
    (folder / IDS).write_text(f"{NOBODY}:100000:65536\n")
    environment = {name: str(place) for name, place in places.items()}
    archive = folder / "image.tar"
    with archive.open("wb") as file:
        subprocess.run([sys.executable, str(folder / "image.py")], stdout=file, check=True)
    words = ["podman", "import", "--quiet", str(archive), image]
    with start_words("ordinary", folder, words, **environment) as importing:
        _, complaints = importing.communicate(timeout=120)
    if importing.returncode:
        raise OSError(complaints.strip().rpartition("\n")[2])
    return environment


def end_the_engine(environment: dict[str, str]) -> None:
    """Podman leaves a process that holds its user's namespace."""
    for pid in Path(environment["XDG_RUNTIME_DIR"]).glob("libpod/tmp/pause.pid"):
        os.kill(int(pid.read_text()), signal.SIGKILL)
