"""The backends that can be tested here, and a copy of the project for other users."""

import shutil

import pytest
from users import copy_of_the_project

from agenteval.sandbox.choose import AUTOMATIC, BACKENDS


def installed(name: str) -> str:
    if name == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return name


@pytest.fixture(scope="session", params=AUTOMATIC)
def backend_name(request):
    return installed(request.param)


@pytest.fixture(scope="session")
def backend(backend_name):
    return BACKENDS[backend_name]()


@pytest.fixture(scope="session")
def shared_copy():
    folder = copy_of_the_project()
    yield folder
    shutil.rmtree(folder)
