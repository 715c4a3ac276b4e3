"""Running this project's code as another user: an ordinary one, when the tests run as root."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from agenteval.sandbox.inside import namespace
from agenteval.sandbox.interpreter import interpreter

NOBODY = 65534
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
    python = interpreter()

    def become() -> None:
        if user == "ordinary" and os.geteuid() == 0:
            if python.prefix:
                namespace.uncover(python.prefix)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    words = [python.executable, "-S", script, *arguments]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={
            "HOME": str(folder / "home"),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder / "tmp"),
            **extra,
        },
        preexec_fn=become,  # noqa: PLW1509 - no thread runs here that could hold a lock
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
