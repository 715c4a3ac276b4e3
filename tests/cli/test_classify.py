import bz2
import gzip
import json
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.malformed import KINDS
from agenteval.cli.app import app
from agenteval.errors import UsageError

HEAD = "uv run scripts/notes.py list | head -5"


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["classify", *arguments], input=text)


def lines(result: Result) -> Iterator[dict[str, object]]:
    return (json.loads(line) for line in result.stdout.splitlines())


def test_a_denied_command_is_one_line_of_json() -> None:
    result = run("--json", HEAD)
    assert result.exit_code == 0
    (found,) = lines(result)
    assert found == {
        "command": HEAD,
        "verdict": "denied",
        "class": "pipe-to-filter",
        "also": ["bare-binary"],
        "evidence": {"text": "| head -5", "start": 29, "end": 38},
        "hint": "Run `uv run scripts/notes.py list` alone and read its whole output.",
        "facets": ["script-listed", "rule-stated"],
    }


def test_an_allowed_command_has_neither_class_nor_evidence() -> None:
    (found,) = lines(run("--json", "git status"))
    assert (found["verdict"], found["class"], found["evidence"]) == ("allowed", None, None)


def test_without_json_the_offending_part_is_underlined() -> None:
    assert run(HEAD).stdout.splitlines() == [
        "denied  pipe-to-filter",
        f"  {HEAD}",
        "                               ^^^^^^^^^",
        "  Run `uv run scripts/notes.py list` alone and read its whole output.",
        "  script-listed, rule-stated",
        "  also: bare-binary",
    ]
    assert run("git status").stdout == "allowed\n  git status\n"


def test_wide_characters_and_lines_keep_the_mark_below_what_it_marks() -> None:
    shown = run("git log 日本\n").stdout.splitlines()
    assert shown[1:3] == ["  git log 日本", "          ^^^^"]
    shown = run("git status &&\nls | wc").stdout.splitlines()
    assert shown[1:4] == ["  git status &&", "  ls | wc", "     ^^^^"]
    shown = run("git status\ngit status").stdout.splitlines()
    assert shown[1:4] == ["  git status", "            ^", "  git status"]


def test_no_control_character_reaches_the_terminal() -> None:
    shown = run("ls \x1b[31m\u202e\ud800").stdout
    assert "\x1b" not in shown
    assert "ls ␛[31m\ufffd\ufffd" in shown


def test_the_article_names_its_own_rows() -> None:
    (found,) = lines(run("--json", "--taxonomy", "article", "ls 2>&1 | head"))
    assert found["class"] == "pipe to head / tail / grep / jq / sed"
    assert found["also"] == [
        "stderr redirect (2>&1, 2>/dev/null)",
        "bare disallowed binary (ls, head, cat, find)",
    ]


@pytest.mark.parametrize(("end", "failure_class"), [("", None), ("\r", "ambiguous-shell")])
def test_a_dash_reads_the_command_with_its_carriage_returns(end: str, failure_class) -> None:
    (found,) = lines(run("--json", "-", text=f"git status{end}\n"))
    assert (found["command"], found["class"]) == (f"git status{end}", failure_class)


CALLS = """
{"command": "ls", "id": "a"}
{"name": "read", "arguments": {"path": "/etc/passwd"}}

{"function": {"name": "read", "arguments": "{\\"path\\""}}
{"name": "read", "arguments": "[1]"}
{"name": "read", "arguments": 5}
{"name": "web_search"}
{"name": "bash", "arguments": {"command": "git status"}}
"""


@pytest.mark.parametrize("source", ["-", "file"])
def test_lines_of_json_are_commands_or_whole_calls(tmp_path: Path, source: str) -> None:
    (tmp_path / "calls").write_text(CALLS)
    result = run("--json", "--jsonl", "-" if source == "-" else str(tmp_path / "calls"), text=CALLS)
    assert [found["class"] for found in lines(result)] == [
        "bare-binary",
        "blocked-path",
        "malformed-arguments",
        "malformed-arguments",
        "malformed-arguments",
        "hallucinated-tool",
        None,
    ]
    first, second, third, *_ = lines(result)
    assert first["id"] == "a"
    assert (second["command"], second["name"]) == (None, "read")
    assert second["arguments"] == {"path": "/etc/passwd"}
    assert third["arguments"] == '{"path"'
    assert result.exit_code == 0


def test_other_tools_are_shown_with_their_arguments() -> None:
    shown = run("--jsonl", "-", text='{"name": "read", "arguments": {"path": "/etc/x"}}').stdout
    assert shown.splitlines()[:4] == [
        "denied  blocked-path",
        "  read",
        '  {"path": "/etc/x"}',
        "            ^^^^^^",
    ]


def test_a_bad_line_is_named_and_the_others_are_judged() -> None:
    text = '{"command": "ls"}\nnot json\n[]\n{"x": 1}\n' + "[" * 99_999 + '\n{"command": "ls"}\n'
    result = run("--json", "--jsonl", "-", text=text)
    assert result.exit_code == 2
    assert len(list(lines(result))) == 2
    complaints = result.stderr.splitlines()
    assert [line.split(": ")[1] for line in complaints] == ["-:2", "-:3", "-:4", "-:5"]
    assert complaints[1].endswith("expected an object, got list")
    assert complaints[2].endswith('expected "command" (a string), or "name" and "arguments"')


@pytest.mark.parametrize(
    "value",
    [
        *("-0", "0.1", "123456789012345678901234567890", "5e-324"),
        *('"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000/\\/"', '{"a": 1, "a": 2}', "[true, null]"),
    ],
)
def test_a_line_is_read_as_python_reads_json(value: str) -> None:
    text = f'{{"name": "read", "arguments": {{"path": {value}}}}}\n'
    (found,) = lines(run("--json", "--jsonl", "-", text=text))
    assert repr(found["arguments"]) == repr(json.loads(text)["arguments"])


@pytest.mark.parametrize("value", ["01", "1.", "'x'", '"\\x"', '"a\tb"', "nul", '"\\u00zz"'])
def test_a_line_that_is_no_json_is_told_as_python_tells_it(value: str) -> None:
    text = f'{{"command": {value}}}\n'
    with pytest.raises(ValueError) as found:  # noqa: PT011 -- JSONDecodeError of any message
        json.loads(text)
    assert run("--jsonl", "-", text=text).stderr == f"agenteval: -:1: {found.value}\n"


def test_messages_without_a_call_are_passed_over_and_counted() -> None:
    text = '{"role": "user", "content": "hi"}\n{"command": "ls"}\n{"type": "summary"}\n'
    result = run("--json", "--jsonl", "-", text=text)
    assert (result.exit_code, len(list(lines(result)))) == (0, 1)
    assert result.stderr == "agenteval: -: 2 messages hold no tool call\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_file_may_be_packed_and_begin_with_a_mark(tmp_path: Path, pack) -> None:
    text = '\ufeff{"command": "git status"}\r\n\r\n{"command": "ls"}\r\n'
    (tmp_path / "calls").write_bytes(pack(text.encode()))
    result = run("--json", "--jsonl", str(tmp_path / "calls"))
    assert [found["command"] for found in lines(result)] == ["git status", "ls"]


def test_a_packed_file_that_is_cut_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "calls.gz").write_bytes(gzip.compress(b'{"command": "ls"}\n' * 99)[:-9])
    result = run("--jsonl", str(tmp_path / "calls.gz"))
    assert isinstance(result.exception, UsageError)
    assert "calls.gz: cannot be read: Compressed file ended" in str(result.exception)


@pytest.mark.parametrize("text", ['{\n  "command": "ls"\n}\n', '[\n{"command": "ls"}\n]\n'])
def test_a_document_of_many_lines_is_one_complaint(text: str) -> None:
    result = run("--jsonl", "-", text=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "agenteval: -:1: a document of many lines; give an object a line, as by jq -c\n"
    )


@pytest.mark.parametrize("broken", ["{", "[", " {", "{\n\n", "]", '{"command": "x', "[\n[1,"])
@pytest.mark.parametrize("before", [0, 1])
def test_a_broken_line_stops_none_of_the_others(before: int, broken: str) -> None:
    good = ['{"command": "git status"}', '{"command": "ls"}', '{"command": "pwd"}']
    result = run("--json", "--jsonl", "-", text="\n".join([*good[:before], broken, *good[before:]]))
    assert [found["command"] for found in lines(result)] == ["git status", "ls", "pwd"]
    assert (result.exit_code, f"agenteval: -:{before + 1}: " in result.stderr) == (2, True)


def test_documents_between_good_lines_are_one_complaint() -> None:
    calls = [{"command": "ls", "more": [{"a": 1}, {}]}, [{"command": "pwd"}, {"command": "id"}]]
    text = "\n".join(json.dumps(one, indent=indent) for one in calls for indent in (1, 4))
    result = run("--json", "--jsonl", "-", text=f'{{"command": "a"}}\n{text}\n{{"command": "b"}}\n')
    assert [found["command"] for found in lines(result)] == ["a", "b"]
    assert result.stderr == (
        "agenteval: -:2: a document of many lines; give an object a line, as by jq -c\n"
    )


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
@pytest.mark.parametrize("form", ["object", "text"])
def test_arguments_that_are_no_json_come_as_text(form: str, number: str) -> None:
    arguments = f'{{"path": "README.md", "offset": {number}}}'
    given = json.dumps(arguments) if form == "text" else arguments
    result = run("--json", "--jsonl", "-", text=f'{{"name": "read", "arguments": {given}}}')
    (found,) = (json.loads(line, parse_constant=pytest.fail) for line in result.stdout.splitlines())
    assert isinstance(found["arguments"], str)
    assert found["arguments"] == arguments or form == "object"


@pytest.mark.parametrize(("command", "code"), [("ls", 1), ("git status", 0)])
def test_the_exit_code_tells_a_denial_only_when_asked(command: str, code: int) -> None:
    assert run("--exit-code", command).exit_code == code
    assert run(command).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give one command, - or --jsonl FILE"),
        (["ls", "--jsonl", "-"], "give one command, - or --jsonl FILE"),
        (["--jsonl", "/none"], "/none: cannot be read: No such file"),
        (["--allowlist", "none", "ls"], "no allow list 'none'"),
    ],
)
def test_what_the_user_must_mend_is_one_line(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError)
    assert complaint in str(result.exception)


def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = CliRunner().invoke(app, ["classify", "ls | x"], color=True).stdout
    monkeypatch.delenv("NO_COLOR")
    coloured = CliRunner().invoke(app, ["classify", "ls | x"], color=True).stdout
    piped = CliRunner().invoke(app, ["classify", "ls | x"]).stdout
    assert plain == piped == re.sub(r"\x1b\[\d+m", "", coloured)
    assert coloured.startswith("\x1b[31mdenied\x1b[0m  \x1b[1mpipe\x1b[0m\n  ls ")


@pytest.mark.parametrize("options", [["--json"], []])
def test_classify_starts_without_the_heavy_libraries(options: list[str]) -> None:
    program = (
        f"import sys; sys.argv[1:] = ['classify', *{options}, 'ls | head']\n"
        "from agenteval.cli.app import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'scipy', 'sqlmodel', 'openai', 'pydantic', 'rich', 'tree_sitter'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_explain_lists_the_classes_and_shows_the_page_of_one() -> None:
    listed = CliRunner().invoke(app, ["explain"]).stdout.splitlines()
    assert listed[0].startswith("malformed-arguments  ")
    assert len(listed) == len(failure_classes()) + len(KINDS)
    page = CliRunner().invoke(app, ["explain", "pipe-to-filter"]).stdout
    assert page.startswith("## pipe-to-filter\n\nOutput piped into a text filter.\n")
    assert HEAD in page
    page = CliRunner().invoke(app, ["explain", "call-in-text"]).stdout
    assert page.startswith("### call-in-text\n\nA call left as text in the reply.\n")


@pytest.mark.parametrize(
    ("wrong", "cure"),
    [("pipe-to-filtr", "did you mean pipe-to-filter?"), ("zzz", "lists them all")],
)
def test_explain_of_an_unknown_class_names_the_nearest(wrong: str, cure: str) -> None:
    result = CliRunner().invoke(app, ["explain", wrong])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).endswith(cure)


def test_what_was_judged_is_shown_before_what_ends_it(cli, tmp_path):
    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"command": "git status"}\n' * 300 + "[]\n", encoding="utf-8")
    said = cli("classify", "--jsonl", str(calls), "--json")
    assert (said.code, said.out.count("\n")) == (2, 300)
    assert f"{calls}:301: " in said.err


@pytest.mark.parametrize(
    ("command", "alone", "asked"),
    [
        ("git log", "allowed", "allowed"),
        (
            "for f in a; do ls; done",
            "allowed",
            "allowed",
        ),  # what Codex alone reads, it alone judges
        ("rm -f x", "denied", "denied"),
    ],
)
def test_the_second_reader_is_asked_as_in_a_run_where_that_is_wanted(
    tmp_path: Path, command: str, alone: str, asked: str
) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(pattern=["git"])')
    found = []
    for more in ((), ("--second-reader",)):
        told = run("-a", f"codex-never:{tmp_path}/a.rules", "--json", *more, command)
        found.append(json.loads(told.stdout))
    assert [each["verdict"] for each in found] == [alone, asked]
    assert (found[1]["class"] == "ambiguous-shell") is (alone != asked)
