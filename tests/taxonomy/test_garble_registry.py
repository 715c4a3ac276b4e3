"""What a kind of malformed call may look at."""

import pytest

from agenteval.taxonomy.malformed_arguments import parsed

LIMIT = 262_144


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", None),
        ('{"a": ', None),
        ('{"a": "' + "x" * LIMIT + '"}', None),
    ],
)
def test_arguments_are_a_json_object_of_a_bounded_length(raw, expected) -> None:
    assert parsed(raw) == expected
