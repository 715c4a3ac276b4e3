"""The evaluator's side of control groups: our own group, and one below it for each sandbox."""

import os
import re
import shutil
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agenteval.sandbox.inside import control_group, usage


@cache
def own_group() -> tuple[str, str]:
    """The control group of this process, divided until it ends; or "" and the reason."""
    group = control_group.of(os.getpid())
    try:
        if lacking := control_group.lacking(group, _family):
            return "", lacking
        control_group.divide(group)
    except OSError as error:
        return "", f"{error.filename}: {error.strerror}"
    weakref.finalize(_family, control_group.restore, group, os.getpid())  # after the launchers
    return group, ""


def _family() -> set[int]:
    return {os.getpid(), *(process.pid for process in usage.processes())}


def scope() -> tuple[list[str], dict[str, str]]:
    """Words that start a program in a group of its own, by systemd; none where that is not there.

    Root asks the machine's systemd, anybody else his own. The variables are for these words.
    """
    program, user = shutil.which("systemd-run"), os.geteuid()
    own = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{user}") if user else control_group.SYSTEMD
    if program is None or not Path(control_group.SYSTEMD).is_dir() or not Path(own).is_dir():
        return [], {}
    options = ["--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]
    variables = {"XDG_RUNTIME_DIR": own, "PATH": os.environ.get("PATH", os.defpath)}
    return [program, *(["--user"] if user else []), *options], variables


CURES = (
    (
        r"has no controller|no control groups",
        (
            "version 2 with its controllers is needed: start the machine with "
            "systemd.unified_cgroup_hierarchy=1, or without what still uses version 1"
        ),
    ),
    (
        r"Failed to (connect|start)|no answer",
        "this user's systemd does not answer: log in by it, or sudo loginctl enable-linger $USER",
    ),
    (
        r"\S",
        (
            "start agenteval in a group of its own: systemd-run --user --scope -p Delegate=yes "
            "agenteval ... (as root without --user); in a container, as the first program of one "
            "whose /sys/fs/cgroup it may write"
        ),
    ),
)


def cure(lacking: str) -> str:
    """Return how to give sandboxes a control group where `lacking` is in the way."""
    return next((text for pattern, text in CURES if re.search(pattern, lacking)), "")


class Groups:
    """The control groups of one launcher's sandboxes, below `group`; none if that is "".

    `lacking` is why there are none. `held` is what the kernel limits in each.
    """

    def __init__(self, group: str = "", launcher: int = 0, lacking: str = "") -> None:
        self.group, self._launcher, self._made = group, launcher, 0
        self._dying: list[str] = []
        self.held = control_group.controllers(group) if group else ()
        self.lacking = "" if group else lacking

    def make(self, bounds: Mapping[str, int]) -> str:
        """Make the group of the next sandbox; return "" if none can be made."""
        self.sweep()
        if not self.group:
            return ""
        self._made += 1
        try:
            return control_group.make(self.group, f"{self._launcher}-{self._made}", bounds)
        except OSError as error:
            self.give_up(f"{error.filename}: {error.strerror}")
            return ""

    def began(self, made: str) -> None:
        """Give up on control groups if a new sandbox is not in its group."""
        if made and not control_group.count(made, "cgroup.events", "populated"):
            self.give_up("this kernel starts no process in a control group (Linux 5.7 does)")

    def ended(self, made: str) -> None:
        """Remove the group of a sandbox that has ended, now or once its processes are dead."""
        if made and not control_group.remove(made):
            self._dying.append(made)

    def sweep(self) -> None:
        """Remove those whose processes were still dying."""
        self._dying = [made for made in self._dying if not control_group.remove(made)]

    def give_up(self, reason: str) -> None:
        """Make no more."""
        self.group, self.held, self.lacking = "", (), reason
