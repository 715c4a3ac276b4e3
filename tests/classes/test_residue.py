"""What a chat template puts around a command is found, and the command in it."""

import pytest

from agenteval.classes.failure_class import residue, without_residue
from agenteval.replies.text_calls import DIALECTS

COMMAND = "uv run scripts/notes.py list --limit 5"
# The texts in which a model is told to write its calls, cut at the place of the command.
WRITTEN = {
    name: dialect.instructions({}).replace("PARAMETER", "command").rpartition("VALUE")[::2]
    for name, dialect in DIALECTS.items()
    if "VALUE" in dialect.instructions({})
}
ELEMENTS = [name for name, (before, _) in WRITTEN.items() if before[-1:] in {">", "\n"}]
IN_JSON = [name for name, (before, _) in WRITTEN.items() if before.endswith(': "')]
IN_PYTHON = {"gemma", "pythonic"}  # `")` may end any command


def _first_lines(text: str) -> str:
    return text.partition("\n\n")[0]


def test_every_dialect_that_is_taught_is_tried() -> None:
    assert {*ELEMENTS, *IN_JSON, *IN_PYTHON} == {*WRITTEN}


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_elements_of_a_dialect_are_no_part_of_the_command_in_them(name: str) -> None:
    before, behind = WRITTEN[name]
    assert without_residue(COMMAND + _first_lines(behind)) == COMMAND
    front = before[before.rfind("<") :]
    assert without_residue(f"{front.lstrip()}{COMMAND}") == COMMAND


@pytest.mark.parametrize("name", IN_JSON)
def test_the_json_of_a_dialect_that_goes_on_behind_a_command_is_no_part_of_it(name: str) -> None:
    assert without_residue(COMMAND + _first_lines(WRITTEN[name][1])) == COMMAND


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (f"<think>a > b, </b> too.</think>\n{COMMAND}", "<think>a > b, </b> too.</think>"),
        (f"</think>\n{COMMAND}", "</think>"),
        (f"[THINK]{COMMAND}", "[THINK]"),
        (f"{COMMAND}<end_of_turn>\n", "<end_of_turn>"),
        (f"{COMMAND}<|eot_id|>", "<|eot_id|>"),
        (f"{COMMAND}<\uff5ctool\u2581sep\uff5c>", "<\uff5ctool\u2581sep\uff5c>"),
        (f"{COMMAND}</s>", "</s>"),
        (f"{COMMAND} <eos>", "<eos>"),
        (f"{COMMAND}\n<think>", "<think>"),
        (f"{COMMAND} </command>", "</command>"),
        (f"{COMMAND}<0x0A>", "<0x0A>"),
        (f"{COMMAND}</bash>", "</bash>"),
        (f"<bash>{COMMAND}", "<bash>"),
        (f'{COMMAND}"}}', '"}'),
        (f'{COMMAND}", "timeout": 30}}', '", "timeout": 30}'),
        (f'{COMMAND}", "description": "a b"}}', '", "description": "a b"}'),
        (f"user@host:~/a$ {COMMAND}", "user@host:~/a$"),
        (f"root@3f2a:/w# {COMMAND}", "root@3f2a:/w#"),
        (f"[me@host a]$ {COMMAND}", "[me@host a]$"),
        (f"bash-5.2$ {COMMAND}", "bash-5.2$"),
        (f"% {COMMAND}", "%"),
        (f"~~~bash\n{COMMAND}", "~~~bash"),
    ],
)  # fmt: skip
def test_marks_that_no_server_took_away(text: str, mark: str) -> None:
    found = residue(text)
    assert found
    assert text[slice(*found)] == mark
    assert without_residue(text) == COMMAND


@pytest.mark.parametrize(
    "text",
    [
        "uv run scripts/notes.py show <note>",
        "uv run scripts/notes.py <command>",
        "uv run scripts/notes.py add <args>",
        "uv run scripts/notes.py list [ARGS]",
        "sort <in>out",
        "<in>out sort",
        "ls data/[A-Z]",
        "ls [A]",
        "echo hi >/dev/null",
        "awk '{print \"a\"}' notes/a",
        'echo "{"a": "b"}',
        'echo {"a"}',
        "cat <<E\n<b>bold</b>\nE",
        "echo '</tool_call>'",
        "[[ -f a ]]",
    ],
)
def test_shell_that_ends_or_begins_with_the_same_characters_is_no_mark(text: str) -> None:
    assert residue(text) is None


@pytest.mark.parametrize(
    "text",
    [
        f'["bash", "-lc", "{COMMAND}"]',
        f'["/bin/sh","-c","{COMMAND}"]',
        f'{{"command": ["bash", "-lc", "{COMMAND}"]}}',
        f'{{"cmd": "{COMMAND}"}}',
    ],
)
def test_a_command_is_found_in_the_json_of_a_shell_s_words(text: str) -> None:
    assert residue(text) is not None
    assert without_residue(text) == COMMAND


@pytest.mark.parametrize("text", ["[ -f a ]", '["bash"]', '{"cmd": [1, 2]}', '["bash", [], {}]'])
def test_what_holds_no_command_gives_none(text: str) -> None:
    assert without_residue(text) in {text, ""}


@pytest.mark.parametrize("text", ["me@host a", "a@b:c ls", "a.b-c# ls", "~/a.sh x", "ls a~"])
def test_what_only_looks_like_a_prompt_or_a_fence_is_none(text: str) -> None:
    assert residue(text) is None
