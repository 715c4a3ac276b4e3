"""The taxonomy has another version whenever it explains a call in another way."""

import pytest
from explained import digest, renewed

from agenteval.classes.catalogue import EXPLAINED

MODULE = 'SHIPPED_VERSION = "{}"  # stored\nEXPLAINED = "{}"  # digest\n'


def test_what_is_explained_how_is_what_the_version_records() -> None:
    assert digest() == EXPLAINED, "calls get other classes: run make format"


@pytest.mark.parametrize(
    ("now", "committed", "found", "expected"),
    [
        (("6", "aa"), ("6", "aa"), "bb", ("7", "bb")),
        (("7", "bb"), ("6", "aa"), "cc", ("7", "cc")),
        (("7", "bb"), ("6", "aa"), "aa", ("6", "aa")),
        (("7", "bb"), ("7", "bb"), "cc", ("8", "cc")),
    ],
)
def test_the_version_is_one_more_than_that_of_the_last_commit(
    now, committed, found, expected
) -> None:
    assert renewed(MODULE.format(*now), MODULE.format(*committed), found) == MODULE.format(
        *expected
    )


def test_without_a_commit_it_is_one_more_than_the_module_has() -> None:
    assert renewed(MODULE.format("6", "aa"), "", "bb") == MODULE.format("7", "bb")
