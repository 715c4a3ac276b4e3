"""How a reply ended, in the words of servers and in the protocol's."""

import pytest

from agenteval.replies.arrival import _end_of


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "stop"),
        ("", ""),
        ("end_turn", "stop"),
        ("EOS_TOKEN", "stop"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("TOOL_CALLS", "tool_calls"),
        ("tool_use", "tool_calls"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("sensitive", "content_filter"),
        ("model_context_window_exceeded", "model_context_window_exceeded"),
        ("repeats", "repeats"),
        ("Some: other", "Some: other"),
    ],
)
def test_an_end_is_told_in_the_words_of_the_protocol(said, meant) -> None:
    assert _end_of(said) == meant
