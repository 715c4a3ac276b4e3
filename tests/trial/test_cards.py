"""What is kept of a served model: the classes that its server keeps it from."""

import pytest

from agenteval.trial.run import (
    BROKEN_ARGUMENTS,
    FITTED,
    FREE,
    GRAMMAR,
    INVENTED,
    INVENTED_TOOL,
    STOPPED,
    THROUGH,
    ModelCard,
)


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ({}, None),
        ({GRAMMAR: FREE}, ()),
        ({GRAMMAR: FITTED}, (INVENTED_TOOL, BROKEN_ARGUMENTS)),
        ({GRAMMAR: FITTED, INVENTED: THROUGH}, (BROKEN_ARGUMENTS,)),
        ({GRAMMAR: STOPPED}, (BROKEN_ARGUMENTS,)),  # what it stops is counted as an invented tool
    ],
)
def test_a_grammar_keeps_its_model_from_the_classes_that_it_was_seen_to(seen, classes) -> None:
    assert ModelCard("m", "m", seen=seen).cannot_occur == classes
