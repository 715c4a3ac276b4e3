"""How to mend what makes a sandbox fail, by the machine's settings and the failure's words."""

import re
from collections.abc import Sequence
from pathlib import Path

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
            "--security-opt systempaths=unconfined (for podman the last is unmask=ALL)"
        ),
    ),
    (
        r"does not support user namespaces|Invalid argument",
        "this kernel has no user namespaces: use --sandbox container",
    ),
)
ENGINES = (
    (
        r"no program",
        "install podman (apt install podman uidmap, dnf install podman) or docker",
    ),
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
    """What to do about this failure of a backend, or nothing when that is not known."""
    if backend == "container":
        return _told(ENGINES, reason)
    if known := _told(PROGRAMS, reason):
        return known
    refused = _told(REFUSALS, reason)
    forbidden = (text for path, value, text in SETTINGS if _holds(Path(path), value))
    return next(forbidden, refused) if refused else ""


def _told(words: Sequence[tuple[str, str]], reason: str) -> str:
    return next((text for pattern, text in words if re.search(pattern, reason)), "")


def _holds(path: Path, value: str) -> bool:
    return path.exists() and path.read_text().strip() == value
