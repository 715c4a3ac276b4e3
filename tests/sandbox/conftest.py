"""One sandbox backend for all tests of a process, and a copy of the project for other users."""

import shutil

import pytest
from available import ENGINE, installed, rootless_engine
from users import copy_of_the_project, end_the_engine, engine_of_the_ordinary

from agenteval.sandbox.backends import AUTOMATIC, BACKENDS

pytest.register_assert_rewrite("behaviours")


# The walls are the same: the backend that a run would take here is tried by `make test`, and the
# other one by `make test-slow`.
FIRST = next(name for name in AUTOMATIC if name != "bubblewrap" or shutil.which("bwrap"))


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(name, marks=[] if name == FIRST else pytest.mark.slow) for name in AUTOMATIC
    ],
)
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


@pytest.fixture(scope="session")
def rootless(shared_copy):
    """What the ordinary user's container engine needs in his environment; made when asked for."""
    made: list[dict[str, str]] = []

    def engine() -> dict[str, str]:
        rootless_engine()
        if not made:
            made.append(engine_of_the_ordinary(shared_copy, ENGINE["AGENTEVAL_CONTAINER_IMAGE"]))
        return made[0]

    yield engine
    for environment in made:
        end_the_engine(environment)
