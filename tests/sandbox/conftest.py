"""The backends that can be tested here, each with a reason where one cannot."""

import shutil

import pytest

from agenteval.sandbox.choose import BACKENDS

ISOLATING = ("bubblewrap", "namespaces")


@pytest.fixture(scope="session", params=ISOLATING)
def backend(request):
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return BACKENDS[request.param]()
