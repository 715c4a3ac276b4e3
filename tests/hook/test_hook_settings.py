"""The hook in a harness's settings: put in, put in again, taken out, and every byte as it was."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.cli.app import main
from agenteval.errors import UsageError
from agenteval.hook import installing
from agenteval.hook.installing import _entry_of, _with_hook, _without_hook

MARK = "/hook/client.py"
ENTRY = _entry_of(f"python 'a b{MARK}' --for x")
SETTINGS = """\
{
    // what I like
    "model": "m",   "env": {},
    "permissions": {"allow": ["Bash(git diff:*)"], "deny": []},
    "hooks": {
        "Stop": [ { "hooks": [] } ],
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine \\" [{"}]}
        ]
    } /* the last */
}
"""
_OTHER = st.sampled_from(
    [0, None, True, "", 'a " [{ü', [], {}, [[1], {"hooks": 1}], {"PreToolUse": [2], "b": {"c": []}}]
)
_ENTRIES = st.lists(_OTHER, min_size=1, max_size=3)
_HOOKS = st.dictionaries(st.sampled_from(["Stop", "Start"]), _ENTRIES, max_size=2).flatmap(
    lambda others: (
        _ENTRIES.map(lambda own: {**others, "PreToolUse": own}) | st.just(others or {"Stop": []})
    )
)
_WHOLE = st.dictionaries(st.sampled_from(["env", "a"]), _OTHER, max_size=2).flatmap(
    lambda others: st.just(others) | _HOOKS.map(lambda hooks: {**others, "hooks": hooks})
)


@given(_WHOLE, st.sampled_from([None, 1, 2, 4, "\t"]), st.sampled_from(["", "\n", "\n\n"]))
def test_put_in_and_taken_out_leaves_every_byte(settings, indent, end) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=False) + end
    done = _with_hook(text, ENTRY, "f")
    hooks = json.loads(done)["hooks"]
    before = settings.get("hooks", {})
    assert hooks["PreToolUse"] == [ENTRY, *before.get("PreToolUse", [])]
    assert {**json.loads(done), "hooks": 0} == {**settings, "hooks": 0}
    assert _with_hook(done, ENTRY, "f") == done
    assert _without_hook(done, "f") == text


def test_comments_and_order_stay() -> None:
    done = _with_hook(SETTINGS, ENTRY, "f")
    assert [line for line in SETTINGS.splitlines() if line not in done.splitlines()] == []
    assert _without_hook(done, "f") == SETTINGS


def test_what_others_changed_in_between_stays() -> None:
    done = json.loads(_with_hook('{"a": 1}', ENTRY, "f"))
    done["hooks"]["PreToolUse"].insert(0, {"mine": 2})
    done["b"] = 3
    left = _without_hook(json.dumps(done, indent=3), "f")
    assert json.loads(left) == {"a": 1, "b": 3, "hooks": {"PreToolUse": [{"mine": 2}]}}


@pytest.mark.parametrize(
    "text", ["{", "[]", "nonsense", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "{} {}",
             '{"a" 1}', '{"a": ]', '{"a": 1 "b": 2}', '"open', '{"\\q": 1}', '{"a\nb": 1}',
             '{"a":' * 900 + "1" + "}" * 900, '{"hooks": {}, "hooks": {}}',
             '{"hooks": {"PreToolUse": [], "PreToolUse": []}}'],
)  # fmt: skip
def test_what_is_no_such_json_is_left_alone(text) -> None:
    with pytest.raises(UsageError, match=r"settings\.json: .*mend it first"):
        _with_hook(text, ENTRY, "settings.json")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "rules.toml").write_text('[bash]\nallow = ["ls"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def hook(project, monkeypatch, capsys):
    """The command as a user types it, and what it prints; of an error, what it complains."""

    def typed(*words: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["agenteval", "hook", *words])
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return said.err if code else said.out

    return typed


PUT = ("--allowlist", "rules.toml", "--yes")
FILES = {
    "claude-code": (".claude/settings.json", "home/.claude/settings.json"),
    "codex": (".codex/hooks.json", "home/.codex/hooks.json"),
    "opencode": (".opencode/plugin/agenteval.js", "home/.config/opencode/plugin/agenteval.js"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", ["--project", "--user"])
def test_where_nothing_was_nothing_is_left(name, place, hook, project) -> None:
    file = project / FILES[name][place == "--user"]
    shown = hook("install", "--for", name, place, *PUT)
    assert f"+++ {file}" in shown
    assert "client.py" in file.read_text()
    assert "is there already" in hook("install", "--for", name, place, *PUT)
    hook("remove", "--for", name, place, "--yes")
    assert not file.parent.exists()
    assert "no hook of ours" in hook("remove", "--for", name, place, "--yes")


@pytest.mark.parametrize("text", [SETTINGS, "{}", '{"hooks": {"PreToolUse": []}}\r\n', "\n"])
def test_settings_are_restored_and_the_backup_goes(text, hook, project) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    file.chmod(0o640)
    shown = hook("install", "--for", "claude-code", *PUT)
    assert (file.parent / "settings.json.before-agenteval").read_bytes() == text.encode()
    assert [line for line in shown.splitlines() if "client.py" in line and line[0] == "+"]
    hook("install", "--for", "claude-code", "--observe", *PUT)
    assert "--observe" in file.read_text()
    hook("remove", "--for", "claude-code", "--yes")
    assert file.read_bytes() == text.encode()
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]
    assert file.stat().st_mode & 0o777 == 0o640


def test_settings_behind_a_link_are_changed_where_they_are(hook, project) -> None:
    (project / "dotfiles.json").write_text("{}")
    (project / ".claude").mkdir()
    (project / ".claude/settings.json").symlink_to("../dotfiles.json")
    hook("install", "--for", "claude-code", *PUT)
    assert (project / ".claude/settings.json").is_symlink()
    assert "client.py" in (project / "dotfiles.json").read_text()


def test_the_command_denies_where_python_is_gone(hook, project) -> None:
    hook("install", "--for", "claude-code", *PUT)
    settings = json.loads((project / ".claude/settings.json").read_text())
    line = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    gone = line.replace(str(Path(sys.executable).parent), "/gone")
    assert (gone != line, subprocess.run(["sh", "-c", gone], check=False).returncode) == (True, 2)


def test_the_command_that_observes_denies_nothing(hook, project) -> None:
    hook("install", "--for", "claude-code", "--observe", *PUT)
    assert "exit 2" not in (project / ".claude/settings.json").read_text()
    hook("install", "--for", "opencode", "--observe", *PUT)
    assert "const CLOSED = false" in (project / FILES["opencode"][0]).read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install", "--for", "vim", *PUT), "--for vim: expected one of claude-code, codex"),
        (("install", "--for", "codex", "-a", "gone.toml"), "gone.toml"),
        (("install", "--for", "codex", *PUT, "--fail", "soft"), "expected closed or open"),
        (("install", "--for", "codex", "-a", "rules.toml"), "give --yes"),
    ],
)
def test_what_cannot_be_put_in_is_one_line_with_the_cure(words, said, hook, project) -> None:
    told = hook(*words, code=2)
    assert (told.count("\n"), said in told) == (1, True), told
    assert not (project / ".codex").exists()


def test_a_file_where_the_folder_should_be_is_named(hook, project) -> None:
    (project / ".claude").write_text("mine")
    told = hook("install", "--for", "claude-code", *PUT, code=2)
    assert ".claude is no folder: move it out of the way" in told


@pytest.mark.parametrize(
    ("version", "is_function"),
    [("1.0.152", True), ("1.18.28", True), ("1.18.29", False), ("2.0.3", False), ("local", False)],
)
def test_an_old_opencode_gets_a_function_and_a_new_one_an_object(
    version, is_function, hook, project, monkeypatch
) -> None:
    (project / "bin").mkdir()
    program = project / "bin/opencode"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{project / 'bin'}:{os.environ['PATH']}")
    hook("install", "--for", "opencode", *PUT)
    text = (project / FILES["opencode"][0]).read_text()
    assert ("export default {" in text, "export const AgentevalHook" in text) == (
        not is_function, is_function)  # fmt: skip


def test_a_plug_in_of_that_name_by_somebody_else_is_not_taken_away(hook, project) -> None:
    file = project / ".opencode/plugin/agenteval.js"
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = 1\n")
    assert "is not the plug-in" in hook("remove", "--for", "opencode", "--yes", code=2)
    assert file.read_text() == "export const Mine = 1\n"


def at_once(times: int, *words: str) -> list[tuple[int, str]]:
    """The exit codes and the lines on standard error of so many that start together."""
    command = [sys.executable, "-m", "agenteval", *words]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(times)
    ]
    errors = [one.communicate(timeout=60)[1] for one in running]
    return [(one.returncode, error) for one, error in zip(running, errors, strict=True)]


def test_six_installations_at_once_put_in_one_hook_and_keep_the_file_as_it_was(project) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(SETTINGS)
    done = at_once(6, "hook", "install", "--for", "claude-code", *PUT)
    text = file.read_text()
    backup = file.with_name("settings.json.before-agenteval").read_text()
    assert (done, text.count("client.py"), backup) == ([(0, "")] * 6, 1, SETTINGS)


def test_a_change_made_while_a_diff_was_looked_at_is_not_lost(project) -> None:
    file = project / ".claude" / "settings.json"
    words = installing.command("claude-code", "rules.toml", observe=False, fail="closed")
    change = installing.installed("claude-code", words, user=False, fail="closed")
    file.parent.mkdir()
    file.write_text('{"theirs": 1}')
    with pytest.raises(UsageError, match=r"settings\.json was changed meanwhile: start this"):
        change.make()
    assert file.read_text() == '{"theirs": 1}'


def test_of_two_guarded_shells_written_at_once_one_is_told_that_it_is_there(project) -> None:
    words = ("guard", "--allowlist", "rules.toml", "--write", "guarded", "--", "bash")
    codes = [code for code, _ in at_once(2, *words)]
    assert (sorted(codes), (project / "guarded").read_text().count("exec ")) == ([0, 2], 1)
