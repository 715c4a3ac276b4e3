"""Names in a command that a user is told: a shell reads each as one word."""

import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenteval.trial.text import as_word

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@settings(max_examples=30, deadline=None)
@given(st.lists(NAMES, max_size=20))
@example(["", "it's", "a b", "~", "$HOME", "*", "-n", "a\nb", "ü", "#x", "{a,b}", "=ls", "\\"])
def test_bash_reads_a_name_as_one_word(names) -> None:
    words = " ".join(map(as_word, names))
    said = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {words}"], stdout=subprocess.PIPE, check=True
    ).stdout
    assert said.decode().split("\0")[:-1] == (names or [""])


def test_a_plain_name_stays_as_it_is() -> None:
    assert as_word("logs/2026-11-26_a.jsonl") == "logs/2026-11-26_a.jsonl"
