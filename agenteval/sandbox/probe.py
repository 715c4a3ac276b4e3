"""The probe of a backend: real commands, and a small battery of escapes that must all fail."""

import asyncio
import json
import os
import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import getsource
from pathlib import Path

from agenteval.errors import InfrastructureError
from agenteval.protocols import Sandbox, SandboxBackend
from agenteval.sandbox.inside import battery
from agenteval.sandbox.launch import SHOWN, interpreter
from agenteval.temporary import temporary_folder
from agenteval.trial.trial import Limits

APPARMOR = (
    "AppArmor keeps user namespaces from programs without a profile (Ubuntu since 23.10). Give "
    "bubblewrap one: printf 'abi <abi/4.0>,\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) "
    "{ userns, }\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r "
    "/etc/apparmor.d/bwrap . Or lift it for all: "
    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)
# file, the value that forbids, what to do
SETTINGS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", APPARMOR),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are off: sudo sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are off: sudo sysctl user.max_user_namespaces=10000",
    ),
)
PROGRAMS = (
    (
        r"Permission denied: '[^']*python",
        "this user cannot execute that Python: use one below /usr, or make it readable",
    ),
    (r"no program bwrap", "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)"),
    (
        r"[Uu]nknown option",
        (
            "this bubblewrap is too old: install 0.7 or later (Debian 12, Ubuntu 23.04 and Fedora "
            "37 have it); the sandbox `namespaces` needs none"
        ),
    ),
)
REFUSALS = (
    (
        r"ENOSPC|No space left|Too many users",
        (
            "so many namespaces are in use that the kernel gives no more: end what holds them, or "
            "raise the sysctls user.max_*_namespaces"
        ),
    ),
    (
        r"ermitted|ermission|not implemented|/proc",
        (
            "whoever started this forbids new namespaces or masks /proc, as container engines do, "
            "and systemd units, snaps and other sandboxes: run outside of it, or start the "
            "container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined (for podman the last is unmask=ALL). That costs "
            "the outer container these walls for all that runs in it, agenteval too: what gets out "
            "of our sandbox has the host's kernel before it, so keep to a machine of its own"
        ),
    ),
    (
        r"does not support user namespaces|Invalid argument",
        "this kernel has no user namespaces: use --sandbox container",
    ),
)
ENGINES = (
    (r"no program", "install podman (apt install podman uidmap, dnf install podman) or docker"),
    (
        r"image not known|No such image",
        (
            "fetch the image (podman pull IMAGE, docker pull IMAGE), or name another: "
            "AGENTEVAL_CONTAINER_IMAGE=..."
        ),
    ),
    (
        r'"python3": executable file|python3.*not found in \$PATH|SyntaxError',
        (
            "that image has no python3 of 3.11 or later on its PATH: name another by "
            "AGENTEVAL_CONTAINER_IMAGE=..."
        ),
    ),
    (
        r"OCI runtime .*(not found|invalid argument)|unknown or invalid runtime name",
        (
            "the engine has no runtime of that name: install it (https://gvisor.dev has runsc) and "
            "name it to the engine, or unset AGENTEVAL_CONTAINER_RUNTIME"
        ),
    ),
    (
        r'"new[ug]idmap": executable',
        "install what gives an ordinary user more user ids (apt install uidmap)",
    ),
    (
        r"unable to setup user|no sub[ug]id ranges|doesn't map UID",
        (
            "this user has no user ids to lend to a container: sudo usermod --add-subuids "
            "100000-165535 --add-subgids 100000-165535 $USER && podman system migrate"
        ),
    ),
    (
        r"permission denied while trying to connect",
        "let this user reach the engine: sudo usermod -aG docker $USER, and log in again",
    ),
    (r"[Cc]annot connect to", "start the engine (systemctl start docker, podman machine start)"),
    (
        r"cgroups in hybrid mode",
        (
            'crun cannot use the cgroups of this machine: install runc, and write runtime = "runc" '
            "below [engine] in /etc/containers/containers.conf"
        ),
    ),
    (
        r"cgroup controller|controller .* is not available",
        (
            "this user may not limit memory and processes: log in through systemd (loginctl "
            "enable-linger $USER), with Delegate=cpu memory pids in user@.service"
        ),
    ),
    (
        r"cannot re-exec|ermission denied|not permitted",
        "the engine cannot work for this user here, as inside another container: run outside of it",
    ),
)


def cure(backend: str, reason: str) -> str:
    """Return the fix for this failure of a backend; "" if none is known."""
    if backend == "container":
        return _first_fix(ENGINES, reason)
    if known := _first_fix(PROGRAMS, reason):
        return known
    refused = _first_fix(REFUSALS, reason)
    forbidden = (text for path, value, text in SETTINGS if _holds(Path(path), value))
    return next(forbidden, refused) if refused else ""


def _first_fix(words: Sequence[tuple[str, str]], reason: str) -> str:
    return next((text for pattern, text in words if re.search(pattern, reason)), "")


def _holds(path: Path, value: str) -> bool:
    return path.exists() and path.read_text().strip() == value


SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of probing a backend. `blocked` maps each tried escape to what stopped it."""

    backend: str
    works: bool
    reason: str = ""
    cure: str = ""
    blocked: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the line for a backend that failed."""
        return f"{self.backend}: {self.reason}" + (f" ({self.cure})" if self.cure else "")


async def probe(backend: SandboxBackend) -> Probe:
    """Run real commands and the battery in a sandbox of this backend."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _probe(backend)
    except InfrastructureError as error:
        reason = str(error).removeprefix("sandbox: ")
        return Probe(backend.name, works=False, reason=reason, cure=cure(backend.name, reason))
    except TimeoutError:
        return Probe(backend.name, works=False, reason=f"no answer within {SECONDS:g} s")


async def _probe(backend: SandboxBackend) -> Probe:
    with ExitStack() as stack:
        bait = _bait(stack)
        files = {"battery.py": getsource(battery).encode(), "bait.json": bait}
        async with backend.open(files, Limits()) as sandbox:
            if broken := await _broken(sandbox):
                return Probe(backend.name, works=False, reason=broken)
            report = await sandbox.run(["python3", "battery.py", "bait.json"])
    try:
        tried: dict[str, str] = json.loads(report.output)
    except ValueError:
        return Probe(backend.name, works=False, reason=f"battery: {report.output.strip()[-200:]}")
    blocked = tuple((name, why) for name, why in tried.items() if why)
    if through := [name for name, why in tried.items() if not why]:
        reason = f"got through: {', '.join(through)}"
        return Probe(backend.name, works=False, reason=reason, blocked=blocked)
    return Probe(backend.name, works=True, blocked=blocked)


async def _broken(sandbox: Sandbox) -> str:
    """Return why real commands do not run there; "" if they do."""
    await sandbox.write("hello.py", b"print('hello')\n")
    for argv, expected in (
        (["/bin/sh", "-c", "pwd; echo $HOME"], "/workspace\n/workspace\n"),
        (["python3", "hello.py"], "hello\n"),
        (["uv", "run", "hello.py"], "hello\n"),
    ):
        done = await sandbox.run(argv)
        if (done.exit_code, done.output) != (0, expected):
            return f"{' '.join(argv)}: exit {done.exit_code}, {done.output.strip()[-200:]!r}"
    return ""


def _bait(stack: ExitStack) -> bytes:
    """Set out the battery's targets: a file, a port, an abstract socket and a process of ours."""
    folder = stack.enter_context(temporary_folder())
    folder.chmod(0o755)  # so that nothing but the sandbox keeps it from other users
    (folder / "secret").write_text("found")
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    name = f"agenteval-bait-{os.getpid()}-{server.getsockname()[1]}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    bait = {
        "abstract": name,
        "command": Path("/proc/self/cmdline").read_text(errors="replace"),
        "home": str(Path.home()),
        "names": sorted(_private_names()),
        "pid": os.getpid(),
        "port": server.getsockname()[1],
        "secret": str(folder / "secret"),
    }
    return json.dumps(bait).encode()


def _private_names() -> set[str]:
    """Return the names in the user's home, without the first steps to what a sandbox shows."""
    home, prefix = Path.home(), interpreter().prefix
    shown = (Path(path) for path in (*SHOWN, prefix) if path)
    steps = {path.relative_to(home).parts[0] for path in shown if home in path.parents}
    try:
        return {path.name for path in home.iterdir()} - steps
    except OSError:
        return set()
