"""Every module that is to be mutated, and every test of it, is where `targets.py` says."""

from targets import ROOT, TARGETS


def test_every_path_of_a_target_is_there() -> None:
    paths = [*TARGETS, *(test for tests in TARGETS.values() for test in tests)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
