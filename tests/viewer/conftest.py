"""A store with two runs, and who reads it."""

import pytest
from starlette.testclient import TestClient
from stored import stored
from two_runs import FIRST, SECOND, client


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory) -> str:
    """A store that no test writes to."""
    return stored(str(tmp_path_factory.mktemp("view") / "runs.db"), FIRST, SECOND)


@pytest.fixture
def reader(looked_at) -> TestClient:
    return client(looked_at)
