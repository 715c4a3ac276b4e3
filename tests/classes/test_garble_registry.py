"""What a kind of malformed call may look at."""

import pytest

from agenteval.classes.malformed import malformed_in, read_arguments
from agenteval.trial.call import Asked, Received, ReceivedCall

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
    assert read_arguments(raw) == expected


def test_each_call_is_held_against_the_schema_of_its_own_offer() -> None:
    received = Received(calls=(ReceivedCall("bash", '{"a": 1}', "call-0"),))
    seen = []
    for kind in ("integer", "string") * 50:  # more than are known at a time
        schema = {"properties": {"a": {"type": kind}}}
        seen.append([one.kind for one in malformed_in(received, Asked({"bash": schema}))])
    assert seen == [[], ["schema-mismatch"]] * 50
