"""One sandbox backend for all tests of a process, and a copy of the project for other users."""

import shutil

import pytest
from available import installed
from users import copy_of_the_project

from agenteval.sandbox.choose import AUTOMATIC, BACKENDS

pytest.register_assert_rewrite("behaviours")


@pytest.fixture(scope="session", params=AUTOMATIC)
def backend_name(request):
    return installed(request.param)


@pytest.fixture(scope="session")
def backend(backend_name):
    return BACKENDS[backend_name]()


@pytest.fixture(scope="session")
def forking(backend_name):
    """The same backend, running unchanged scripts of the fixture in a fork."""
    return BACKENDS[backend_name](prefork=True)


@pytest.fixture(scope="session")
def shared_copy():
    folder = copy_of_the_project()
    yield folder
    shutil.rmtree(folder)
