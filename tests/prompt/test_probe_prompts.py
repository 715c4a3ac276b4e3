import pytest

from agenteval.workflows.preflight import TASK, _probe_prompt


@pytest.mark.parametrize("characters", [1, 1_000, 120_000])
def test_a_prompt_has_about_the_wanted_length_and_at_least_its_task(characters) -> None:
    (message,) = _probe_prompt("key", characters)
    assert (message.role, message.content.endswith(TASK)) == ("user", True)
    assert 0 <= len(message.content) - max(characters, len(TASK)) < 200


def test_prompts_of_other_keys_begin_otherwise_and_those_of_one_key_are_the_same() -> None:
    starts = {_probe_prompt(f"nonce/{number}", 1_000)[0].content[:18] for number in range(500)}
    assert (len(starts), _probe_prompt("a", 500)) == (500, _probe_prompt("a", 500))
