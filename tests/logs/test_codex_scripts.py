"""Commands that a model hands to the shell in a script, as newer versions of Codex have it."""

import time

import pytest
from sample_logs import jsonl
from test_readers import read, written

from agenteval.logs.codex import _script_commands


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ('const r = await tools.exec_command({"cmd":"ls -a","workdir":"/w"}); text(r)', ["ls -a"]),
        ("tools.exec_command({ workdir: f(1, 'cmd'), cmd: 'it\\'s' })", ["it's"]),
        ("tools.exec_command({more: 1, other: {cmd: 'no'}})", [None]),
        ("tools.exec_command({...more}); other({a: 1, cmd: 'no'})", [None]),
        ("tools.exec_command({cmd: `a\nb`,})", ["a\nb"]),
        (r'tools.exec_command({cmd: "caf\u00e9 \ud83d\ude00\x21\n"})', ["café 😀!\n"]),
        (r'tools.exec_command({cmd: "\u{1F600} \u{00041} \U0041"})', ["😀 A U0041"]),
        (r'tools.exec_command({cmd: "\u{110000}"})', ["u{110000}"]),
        ('all([tools.exec_command({cmd:"a"}), tools.exec_command({cmd:"b"})])', ["a", "b"]),
        ("tools.exec_command({cmd: `a ${b}`})", [None]),
        ('tools.exec_command({cmd: "a" + b})', [None]),
        ("tools.exec_command({cmd})", [None]),
        ('tools.exec_command({cmd: "a', [None]),
        ("text(7)", []),
    ],
)
def test_a_command_is_what_its_literal_stands_for(script, wanted) -> None:
    assert _script_commands(script) == wanted


@pytest.mark.parametrize("text", ["{", '\\"', " ", "a[", "tools.exec_command({", "'"])
def test_a_long_script_is_read_in_one_go(text) -> None:
    begun = time.process_time()
    _script_commands("tools.exec_command({" + text * 20_001)
    assert time.process_time() - begun < 10


def rollout(folder, script, output, name="exec"):
    call = {"type": "custom_tool_call", "call_id": "c", "name": name, "input": script}
    told = {"type": "custom_tool_call_output", "call_id": "c", "output": output}
    items = [{"type": "response_item", "payload": one} for one in (call, told)]
    ((session,), skipped) = read("codex", written(folder, "rollout-1.jsonl", jsonl(*items)))
    assert skipped == []
    return [(one.call.command, str(one.recorded), one.exit_code) for one in session.calls]


def parts(head, *said):
    texts = (f"Script {head}\nWall time 0.1 seconds\nOutput:\n", *said)
    return [{"type": "input_text", "text": text} for text in texts]


ONE = 'text(await tools.exec_command({cmd:"ls"}))'
BOTH = 'await tools.exec_command({cmd:"ls"}); text(await tools.exec_command({cmd:"pwd"}))'
LOOP = 'await tools.exec_command({cmd:"ls"}); await tools.exec_command({cmd: next})'
REFUSED = 'exec_command failed: CreateProcess { message: "Rejected(\\"no\\")" }'


@pytest.mark.parametrize(
    ("script", "output", "wanted"),
    [
        (ONE, parts("completed", '{"exit_code":2,"output":"no"}'), [("ls", "ran", 2)]),
        (ONE, parts("completed", "a"), [("ls", "ran", None)]),
        (ONE, parts("failed", "Script error:\nboom"), [("ls", "tool-error", None)]),
        (ONE, parts("failed", f"Script error:\n{REFUSED}"), [("ls", "denied", None)]),
        (BOTH, parts("completed", '{"exit_code":2}'), [("ls", "ran", None), ("pwd", "ran", None)]),
        (LOOP, parts("completed", "a"), [("ls", "ran", None), (None, "ran", None)]),
        ("text(7)", parts("completed", "7"), [(None, "ran", None)]),
    ],
)
def test_each_command_of_a_script_is_a_call_with_its_result(
    tmp_path, script, output, wanted
) -> None:
    assert rollout(tmp_path, script, output) == wanted


def test_a_tool_of_another_name_is_no_script(tmp_path) -> None:
    assert rollout(tmp_path, ONE, "a", "apply_patch") == [(None, "ran", None)]


def test_what_a_custom_tool_is_given_need_be_no_json(tmp_path) -> None:
    patch = "*** Begin Patch\n*** End Patch"
    for kind, key, is_broken in (
        ("custom_tool_call", "input", False),
        ("function_call", "arguments", True),
    ):
        call = {"type": kind, "call_id": "c", "name": "apply_patch", key: patch}
        text = jsonl({"type": "response_item", "payload": call})
        ((session,), _) = read("codex", written(tmp_path, "rollout-1.jsonl", text))
        (found,) = session.calls
        assert (found.call.raw, bool(found.call.malformed)) == (patch, is_broken)
