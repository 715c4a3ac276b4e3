"""A name is one line wherever it is printed, and no part of a log is a command."""

import subprocess

import pytest
from hostile_names import LINE_ENDS, hostile_names, moves, obeyed

from agenteval.trial.text import as_file_part, as_name, as_word, without_log_commands

SOME = [300, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("end", [*LINE_ENDS, "\t"], ids=ascii)
def test_each_end_of_a_line_is_a_sign_in_a_name(end) -> None:
    shown = as_name(f"a{end}b")
    assert (shown.isprintable(), len(shown.splitlines()), shown == f"a{end}b") == (True, 1, False)


@pytest.mark.parametrize(
    "name",
    ["", "qwen3.6-35b", "a b", "Ångström", "模型", "org/model:8b", "a::b", "## x", "\U0001f600"],
)
def test_a_name_that_hides_nothing_stays_as_it_is(name) -> None:
    assert (as_name(name), without_log_commands(name)) == (name, name)


@pytest.mark.parametrize("count", SOME)
def test_a_name_has_one_line_and_moves_nothing(count) -> None:
    names = [as_name(name) for name in hostile_names(count)]
    assert [name for name in names if moves(name) or len(name.splitlines()) > 1] == []


OBEYED = {
    "::add-mask::x": "\u2237add-mask::x",
    "a\n  ::warning::x": "a\n  \u2237warning::x",
    "a\r\u3000::x::": "a\r\u3000\u2237x::",
    "\u2028::error::": "\u2028\u2237error::",
    "\ufe0f:\u034f:error::": "\ufe0f\u2237error::",
    "\0\x1f::error::": "\0\x1f\u2237error::",
    "a ##[error]b": "a #\u266f[error]b",
    "a ##vso[task.x]b": "a #\u266fvso[task.x]b",
    "a ##VSO[task.x]b": "a #\u266fVSO[task.x]b",
    "##teamcity[a]": "#\u266fteamcity[a]",
    "#\u200d#\ufe0f[x]": "#\u266f\ufe0f[x]",
    "###[x]": "##\u266f[x]",
    ":::add-mask::x": "\u2237:add-mask::x",
}


@pytest.mark.parametrize(("text", "shown"), OBEYED.items(), ids=map(ascii, OBEYED))
def test_what_a_runner_obeys_becomes_a_look_alike(text, shown) -> None:
    assert (without_log_commands(text), obeyed(shown)) == (shown, [])


@pytest.mark.parametrize("count", SOME)
def test_no_runner_obeys_a_text(count) -> None:
    texts = hostile_names(count)
    assert [text for text in texts if obeyed(without_log_commands(text))] == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["\x1c", "\0", " ", "\u2028", "#", "##v", "\ufe0f"], ids=ascii)
def test_a_long_line_of_what_nobody_sees_is_read_in_a_moment(piece) -> None:
    assert without_log_commands(piece * 200_000) == piece * 200_000


FILES = {
    "sim/qwen3.6-35b": "sim-qwen3.6-35b",
    "../../etc/passwd": "etc-passwd",
    "-rf": "rf",
    ".ssh": "ssh",
    "": "_",
    "\n": "_",
    "con": "_con",
    "NUL.txt": "_NUL.txt",
    "a\\b": "a-b",
    "qwen3:8b": "qwen3:8b",
    "$(touch x)": "touch-x-",
    "é" * 200: "é" * 60,
}


@pytest.mark.parametrize(("name", "part"), FILES.items(), ids=map(ascii, FILES))
def test_a_part_of_a_file_name_has_no_separator_option_or_device(name, part) -> None:
    assert as_file_part(name) == part


@pytest.mark.parametrize("count", SOME)
def test_a_file_of_any_name_lies_in_its_folder(count, tmp_path) -> None:
    parts = {as_file_part(name) for name in hostile_names(count)}
    for part in parts:
        (tmp_path / f"{part}.html").touch()
    assert {path.name for path in tmp_path.iterdir()} == {f"{part}.html" for part in parts}
    assert [part for part in parts if part.startswith(("-", ".")) or moves(part)] == []


@pytest.mark.parametrize("count", SOME)
def test_bash_reads_a_name_in_a_proposed_command_as_one_word(count, tmp_path) -> None:
    """What is pasted is the line as it is printed."""
    printed = [as_name(f"printf '%s\\0' {as_word(name)}") for name in hostile_names(count)]
    script = "\n".join(map(without_log_commands, printed))
    ran = subprocess.run(
        ["bash", "--norc"], input=script.encode(), cwd=tmp_path, capture_output=True, check=True
    )
    words = [without_log_commands(f"x{as_name(name)}")[1:] for name in hostile_names(count)]
    assert (ran.stdout.decode().split("\0")[:-1], ran.stderr) == (words, b"")
    assert [*tmp_path.iterdir()] == []


AWKWARD = ["", "it's", "a b", "~", "$HOME", "*", "-n", "a\nb", "ü", "#x", "{a,b}", "=ls", "\\"]


def test_bash_reads_a_name_as_one_word_and_a_plain_one_stays_as_it_is() -> None:
    words = " ".join(map(as_word, AWKWARD))
    said = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True
    )
    assert said.stdout.decode().split("\0")[:-1] == AWKWARD
    assert as_word("logs/2026-11-26_a.jsonl") == "logs/2026-11-26_a.jsonl"
