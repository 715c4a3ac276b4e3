"""How to mend what makes a sandbox fail, by the machine's settings and the failure's words."""

import re
from pathlib import Path

SETTINGS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        (
            "AppArmor restricts user namespaces here: give this program a profile with `userns`, "
            "or set the sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are off: set the sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are off: set the sysctl user.max_user_namespaces=10000",
    ),
)
NAMESPACE_TROUBLE = re.compile(r"clone|unshare|user map|namespace|mount|uid|bwrap", re.IGNORECASE)
WORDS = (
    (r"no program podman", "install podman (apt install podman, dnf install podman) or docker"),
    (r"no program bwrap", "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)"),
    (
        r"image not known|No such image",
        "fetch the image (podman pull IMAGE), or name another: AGENTEVAL_CONTAINER_IMAGE=...",
    ),
    (
        r"Permission denied: '[^']*python",
        "this user cannot execute that Python: use one below /usr, or make it readable",
    ),
    (
        r"cgroups in hybrid mode",
        (
            'crun cannot use the cgroups of this machine: install runc, and write runtime = "runc" '
            "below [engine] in /etc/containers/containers.conf"
        ),
    ),
    (r"daemon", "start the container engine, or let this user reach it"),
    (r"[Uu]nknown option", "this bubblewrap is too old: 0.7 or later is needed"),
    (
        r"/proc",
        (
            "/proc is masked here, as in a container: start it with "
            "--security-opt systempaths=unconfined, or run outside of it"
        ),
    ),
    (
        r"ermitted|ermission|not implemented",
        (
            "a container's seccomp or capability rules forbid new namespaces: start it with "
            "--security-opt seccomp=unconfined (or --privileged), or run outside of it"
        ),
    ),
)


def cure(reason: str) -> str:
    """What to do about this failure, or nothing when that is not known."""
    for path, value, text in SETTINGS:
        if NAMESPACE_TROUBLE.search(reason) and _holds(Path(path), value):
            return text
    return next((text for words, text in WORDS if re.search(words, reason)), "")


def _holds(path: Path, value: str) -> bool:
    return path.exists() and path.read_text().strip() == value
