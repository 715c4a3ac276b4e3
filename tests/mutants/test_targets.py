"""Every module that is to be mutated, every test of it and every line explained is there."""

from survivors import explanations
from targets import ROOT, TARGETS


def test_every_path_of_a_target_is_there() -> None:
    paths = [*TARGETS, *(test for tests in TARGETS.values() for test in tests)]
    assert [path for path in paths if not _is_there(*path.split("::"))] == []


def _is_there(path: str, test: str = "") -> bool:
    file = ROOT / path
    return file.exists() and (not test or f"def {test}(" in file.read_text("utf-8"))


def test_every_explained_mutant_is_of_a_line_that_stands() -> None:
    assert [one for one in explanations() if not one.stands() or not one.because] == []


def test_every_explained_mutant_is_of_a_module_that_is_mutated() -> None:
    assert {one.module for one in explanations()} <= set(TARGETS)
