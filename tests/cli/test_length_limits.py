"""Replies that a limit of length cut: by the end of the context, or by another limit."""

import json
from pathlib import Path

import pytest
from scripted_server import answers, bash, scripted

CUT_CALL = {
    "content": None,
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "l'}}
    ],
}
CUT_WORDS = {"content": "First I look at what there is, and th"}


def cut_in_turn_two(message, prompt: int, completion: int):
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    ends = {
        "model": "m",
        "choices": [{"message": {"role": "assistant", **message}, "finish_reason": "length"}],
        "usage": usage,
    }

    def script(messages):
        return ends if answers(messages) else bash("cat x | head")  # which is denied

    return script


def played(cli, message, prompt: int, completion: int, window: int | None):
    """How the one trial of a run ended, its reason and its turns."""
    with scripted(cut_in_turn_two(message, prompt, completion), window=window) as url:
        said = cli("run", "-m", "m", "--base-url", url, "--trials", "1", "--json", "ralf/handshake")
    assert said.code == 0, said.err
    assert cli("export", "trials", "last", "--file", "trials.jsonl").code == 0
    (trial,) = map(json.loads, Path("trials.jsonl").read_text().splitlines())
    return trial["outcome"], trial["reason"], trial["turns"]


@pytest.mark.parametrize("message", [CUT_CALL, CUT_WORDS], ids=["in a call", "in words"])
@pytest.mark.parametrize("completion", [1096, 1085], ids=["at its end", "a few tokens before"])
def test_a_reply_cut_by_the_end_of_the_context_ends_its_trial_so(cli, message, completion) -> None:
    outcome, reason, turns = played(cli, message, 3000, completion, 4096)
    used = f"3000 tokens of prompt and {completion} of reply"
    said = f"the conversation filled the context of 4096: {used}; not met: "
    assert (outcome, turns, reason.startswith(said)) == ("out-of-context", 2, True)


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (None, "the server does not tell its context"),
        (4096, "the context holds 4096"),
    ],
)
def test_words_cut_by_another_limit_leave_the_outcome_and_say_so(cli, window, told) -> None:
    outcome, reason, turns = played(cli, CUT_WORDS, 3000, 512, window)
    said = f"cut by a length limit, after 3000 tokens of prompt and 512 of reply; {told}"
    assert (outcome, turns, reason.startswith(f"{said}; not met: ")) == ("gave-up", 2, True)
