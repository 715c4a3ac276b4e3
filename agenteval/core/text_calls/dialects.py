"""The dialects in which calls are written as text, by name; and calls that were left as text."""

from collections.abc import Iterator

from agenteval.core.garble import Schemas
from agenteval.core.text_calls.call import Dialect, TextCall, fenced, fences
from agenteval.core.text_calls.hermes import HERMES
from agenteval.core.text_calls.json import JSON
from agenteval.core.text_calls.qwen3_coder import QWEN3_CODER

DIALECTS = {dialect.name: dialect for dialect in (HERMES, QWEN3_CODER, JSON)}
LONGEST = 1 << 18  # characters of a text that are searched


def read_calls(text: str, dialect: Dialect, schemas: Schemas) -> list[TextCall]:
    """The calls that a model was told to write so. What is only spoken about is none."""
    within = [] if dialect.in_fences else fences(text)
    return [call for call in dialect.find(text[:LONGEST], schemas) if not fenced(call, within)]


def calls_left(text: str, schemas: Schemas) -> Iterator[tuple[Dialect, TextCall, bool]]:
    """Calls of any dialect in a text that should hold none, and whether each stands in a fence."""
    if "<" not in text and "{" not in text:
        return
    text = text[:LONGEST]
    within, taken = fences(text), list[TextCall]()
    for dialect in DIALECTS.values():
        for call in dialect.find(text, schemas):
            if not any(other.start <= call.start < other.end for other in taken):
                taken.append(call)
                yield dialect, call, fenced(call, within)
