"""Which command a reply of mini-swe-agent asks for, in text or beside it."""

import json

import pytest
from test_readers import read, written

RAN = {"role": "user", "content": "<returncode>0</returncode>\n<output>\na</output>"}
PYTHON = "```python\nx = 1\n```"
BASH = "```bash\nls -a\n```"


def session(folder, *messages):
    log = written(folder, "m.traj.json", json.dumps({"messages": [*messages]}))
    ((found,), skipped) = read("swe-agent", log)
    assert skipped == []
    return found


def commands(folder, *messages):
    calls = session(folder, *messages).calls
    return [(call.call.command, str(call.recorded), call.exit_code) for call in calls]


@pytest.mark.parametrize(
    "text",
    [
        f"It says:\n{PYTHON}\nSo I look.\n\n{BASH}",
        f"{BASH}\nwhich shows\n{PYTHON}",
        f"```\nplain\n```\nthen\n{BASH}",
        f"```python\nx = 1```\nThen\n{BASH}",  # a block that does not end where it should
        f"First {PYTHON}, then: ```bash\nls -a\n```",
        "```bash\necho as an example\n```\n```mswea_bash_command\nls -a\n```",
        "```\nls -a\n```",
    ],
)
def test_other_code_in_a_reply_is_no_command(tmp_path, text) -> None:
    assert commands(tmp_path, {"role": "assistant", "content": text}, RAN) == [("ls -a", "ran", 0)]


def test_a_reply_with_two_commands_has_none(tmp_path) -> None:
    error = {"role": "user", "content": "Please always provide EXACTLY ONE action"}
    ((command, recorded, _),) = commands(
        tmp_path, {"role": "assistant", "content": f"{BASH}\n{BASH}"}, error
    )
    assert (command, recorded) == (None, "malformed")


def test_what_version_2_understood_of_a_reply_counts(tmp_path) -> None:
    text = "<mswea_bash_command>ls -a</mswea_bash_command>"
    asked = {"role": "assistant", "content": text, "extra": {"actions": [{"command": "ls -a"}]}}
    said = {"role": "user", "content": "no", "extra": {"returncode": 2}}
    assert commands(tmp_path, asked, said) == [("ls -a", "ran", 2)]


def test_replies_of_the_responses_api_are_read(tmp_path) -> None:
    asked = {
        "object": "response",
        "model": "gpt-x",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "I look"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 12, "output_tokens": 3},
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c"}], "timestamp": 1_760_000_000},
    }
    told = {"type": "function_call_output", "call_id": "c", "output": "a"}
    found = session(tmp_path, asked, told | {"extra": {"returncode": 0}})
    (turn,), (call,) = found.turns, found.calls
    assert (turn.model, turn.text, turn.usage.prompt_tokens) == ("gpt-x", "I look", 12)
    assert (call.call.command, call.said, call.exit_code) == ("ls", "a", 0)


@pytest.mark.parametrize(
    "kept",
    [
        {"model_response": "no command"},
        {"response": {"model": "m", "choices": [{"message": {"content": "no command"}}]}},
        {"response": {"output": [{"type": "function_call", "arguments": "no command"}]}},
        {"response": {"choices": [
            {"message": {"tool_calls": [{"function": {"arguments": "no command"}}]}}
        ]}},
    ],
)  # fmt: skip
def test_a_reply_that_stands_in_its_error_alone_is_a_malformed_call(tmp_path, kept) -> None:
    asked = {"role": "assistant", "content": BASH}
    error = {"role": "user", "content": "x", "extra": {"interrupt_type": "FormatError", **kept}}
    found = session(tmp_path, asked, RAN, error)
    assert [len(turn.calls) for turn in found.turns] == [1, 1]
    assert (found.calls[1].call.raw, found.calls[1].recorded) == ("no command", "malformed")
