"""Rules files of Codex that are hostile, or not there: each is one line that names the file."""

import errno
import os
import sys
from pathlib import Path

import pytest

from agenteval.config.allowlists import load_any
from agenteval.errors import UsageError

TOO_MUCH = "1: not a rules file: it takes too long, or too much memory, to run"


def complaint(given: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_any(given, roots=[])
    return str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        "x = " + "[" * 50_000 + "]" * 50_000,
        "-" * 100_000 + "x",
        "if 1: pass\n" + "elif 1: pass\n" * 50_000,
        "a = [0]\nb = a" + "[0]" * 50_000,
        "def f(): return f\nf" + "()" * 50_000,
        "x = 'x'\nfor _ in range(40): x = x + x",
        "def f():\n  for _ in range(2000000000): pass\nf()",
        "prefix_rule(['x' * (5 << 20)])",
    ],
    ids=["brackets", "signs", "elif", "index", "call", "text", "loop", "long"],
)
def test_rules_that_cannot_be_run_are_one_line(tmp_path: Path, rules: str) -> None:
    path = tmp_path / "a.rules"
    path.write_text(rules, "utf-8")
    assert complaint(str(path)) == f"{path}:{TOO_MUCH}"


@pytest.mark.parametrize(
    ("rules", "given"),
    [
        ("x = []\nfor _ in range(24): x = [x, x]\nprefix_rule(x)", [[None] * 2] * 2),
        ("x = []\nfor _ in range(5000): x = [x]\nprefix_rule(x)", [[None]]),
        ("x = ['ls']\nx.append(x)\nprefix_rule(x)", ["ls", ["ls", None]]),
        ("\n\nprefix_rule([len, ('a', 'b'), {'a': 1}])", [None] * 3),
    ],
)
def test_of_lists_in_lists_in_lists_no_more_is_told_than_codex_could_take(
    tmp_path: Path, rules: str, given: object
) -> None:
    path = tmp_path / "a.rules"
    path.write_text(rules, "utf-8")
    told = f"{path}:3: pattern: expected words, or lists of words, got {given}"
    assert complaint(str(path)) == told


@pytest.mark.parametrize("name", ["_called", "_given", "call_stack"])
def test_rules_see_no_function_but_those_of_codex(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.rules"
    path.write_text(f'\n{name}("prefix_rule", "* rules:1", pattern=["rm"])', "utf-8")
    told = complaint(str(path))
    assert told.startswith(f"{path}:2: not a rules file: Variable `{name}` not found")


def test_a_long_list_of_rules_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text("".join(f'prefix_rule(["p{n}", ("-" + "x")])\n' for n in range(3000)), "utf-8")
    policy = load_any(str(path), roots=[])
    assert len(policy.bash.patterns) == 3000


def test_what_is_wrong_in_a_folder_of_rules_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(["ls"])', "utf-8")
    bad = tmp_path / "b.rules"
    told = []
    bad.write_bytes(b"# \xff")
    told.append(complaint(f"codex:{tmp_path}"))
    bad.unlink()
    bad.mkdir()
    told.append(complaint(f"codex:{tmp_path}"))
    bad.rmdir()
    bad.symlink_to("nowhere")
    told.append(complaint(f"codex:{tmp_path}"))
    assert told == [
        f"{bad}: not UTF-8 text (byte 2)",
        f"{bad}: is a folder, and only regular files are read: take it away",
        f"{bad}: cannot be read: {os.strerror(errno.ENOENT)}",
    ]


def test_no_rules_at_all_are_no_allow_list(tmp_path: Path) -> None:
    assert [complaint("codex:"), complaint(f"codex:{tmp_path}")] == [
        "codex:: names no file: expected one behind the colon",
        f"{tmp_path}: a folder without any .rules file",
    ]


def test_without_starlark_the_extra_that_brings_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rules"
    path.write_text("")
    monkeypatch.setitem(sys.modules, "starlark", None)  # as Python has it: not to be imported
    assert complaint(str(path)) == f"{path}: needs Starlark: install agenteval-gate[codex]"
