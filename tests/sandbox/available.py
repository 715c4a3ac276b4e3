"""Which backends can be tested on this machine."""

import os
import shutil

import pytest

ENGINE = {  # what a container engine needs to hear from us, wherever it is started
    name: os.environ[name]
    for name in (
        "AGENTEVAL_CONTAINER_ENGINE",
        "AGENTEVAL_CONTAINER_IMAGE",
        "CONTAINERS_CONF",
        "DOCKER_HOST",
    )
    if name in os.environ
}


def installed(name: str) -> str:
    """The name; skips the test, with the reason, where this backend's program is missing."""
    if name == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if name == "container" and "AGENTEVAL_CONTAINER_IMAGE" not in ENGINE:
        pytest.skip("AGENTEVAL_CONTAINER_IMAGE names no image that an engine here can run")
    return name


def rootless_engine() -> None:
    """Skips the test, with the reason, where an ordinary user cannot have containers of his own."""
    if os.path.basename(ENGINE.get("AGENTEVAL_CONTAINER_ENGINE", "podman")) != "podman":
        pytest.skip("this engine is root's, whoever asks it")
    missing = [name for name in ("podman", "newuidmap") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
