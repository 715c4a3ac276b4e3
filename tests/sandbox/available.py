"""Which backends can be tested on this machine."""

import os
import shutil

import pytest

ENGINE = {  # what a container engine needs to hear from us, wherever it is started
    name: os.environ[name]
    for name in ("AGENTEVAL_CONTAINER_IMAGE", "CONTAINERS_CONF", "DOCKER_HOST")
    if name in os.environ
}


def installed(name: str) -> str:
    """The name; skips the test, with the reason, where this backend's program is missing."""
    if name == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if name == "container" and "AGENTEVAL_CONTAINER_IMAGE" not in ENGINE:
        pytest.skip("AGENTEVAL_CONTAINER_IMAGE names no image that an engine here can run")
    return name
