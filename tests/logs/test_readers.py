"""Every reader: what was recorded of each call, what cannot be shown, and what is broken."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_logs import (
    CHAT,
    CLAUDE,
    CODEX,
    LISTS,
    OPENCODE,
    OTHER_SPANS,
    PIPES,
    RULES,
    SAMPLES,
    SECOND,
    SWE,
    claude,
    codex_call,
    database,
    export,
    jsonl,
    second_database,
    span,
    tree,
)

from agenteval.logs import workers
from agenteval.logs.formats import FORMATS
from agenteval.logs.workers import reads_as
from agenteval.trial.session import PART, Recorded, Skipped
from agenteval.trial.trial import Usage

NAMED = {"the", "session", "message", "part"}  # places in a database
IDS = [f"{name} {file}" for name, file, *_ in SAMPLES]


def written(folder, file, content):
    path = folder / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(name, path):
    """The sessions in a file, and what was skipped of it."""
    found = [*FORMATS[name].read(path)]
    skipped = [one for one in found if isinstance(one, Skipped)]
    return [one for one in found if not isinstance(one, Skipped)], skipped


def recorded(sessions):
    return [str(call.recorded) for session in sessions for call in session.calls]


def test_in_a_folder_that_was_collected_by_hand_the_ending_counts(tmp_path) -> None:
    for name in ("a/deep/one.jsonl", "a/two.json", "b/rollout-1.jsonl", "b/three.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "folder.jsonl").mkdir()

    def found(format_name, folder, **how):
        files = FORMATS[format_name].find_files(tmp_path / folder, **how)
        return [str(file.relative_to(tmp_path)) for file in files]

    assert found("codex", "a") == []
    assert found("codex", "a", by_ending=True) == ["a/deep/one.jsonl"]
    assert found("codex", "b", by_ending=True) == ["b/rollout-1.jsonl"]  # as one has its name
    assert found("gemini-cli", "a/deep", by_ending=True) == ["a/deep/one.jsonl"]
    assert found("opencode", "a", by_ending=True) == ["a/two.json", "a/deep/one.jsonl"]


def test_of_a_hook_its_logs_are_read_and_not_what_locks_them(tmp_path) -> None:
    logs = ["calls.jsonl", "calls.jsonl.1", "calls.jsonl.2.gz", "calls.jsonl.gz"]
    for name in (*logs, "calls.jsonl.lock"):
        (tmp_path / name).touch()
    assert [file.name for file in FORMATS["hook"].find_files(tmp_path)] == logs


@pytest.mark.parametrize(("name", "file", "content", "told"), SAMPLES, ids=IDS)
def test_a_reader_tells_what_was_recorded_of_each_call(tmp_path, name, file, content, told) -> None:
    sessions, skipped = read(name, written(tmp_path, file, content))
    assert (recorded(sessions), skipped) == (told, [])


def test_a_database_is_read_with_what_is_only_in_its_wal(tmp_path) -> None:
    store = database(tmp_path / "opencode.db")
    sessions, skipped = read("opencode", tmp_path / "opencode.db")
    store.close()
    assert (recorded(sessions), skipped) == ([told for _, told in OPENCODE], [])


def test_the_tables_of_opencode_2_are_read(tmp_path) -> None:
    second_database(tmp_path / "opencode.db").close()
    ((session,), skipped) = read("opencode", tmp_path / "opencode.db")
    assert (recorded([session]), skipped) == ([told for _, told in SECOND], [])
    assert (session.id, session.agent, session.version, session.project) == (
        "ses_2", "build", "2.0.12", "/srv/two")  # fmt: skip
    first = session.turns[0]
    assert (first.model, first.text, first.at) == ("qwen", "on", 1_760_000_000.5)
    assert first.usage.prompt_tokens == 12
    assert (session.calls[0].call.command, session.calls[0].said) == (LISTS, "[]")
    assert session.rules == RULES


def test_a_database_of_both_generations_has_the_sessions_of_both(tmp_path) -> None:
    first = database(tmp_path / "opencode.db")
    second_database(tmp_path / "opencode.db").close()
    sessions, skipped = read("opencode", tmp_path / "opencode.db")
    first.close()
    assert ([one.id for one in sessions], skipped) == (["ses_1", "ses_2"], [])


def test_a_tree_of_files_tells_the_same_as_an_export(tmp_path) -> None:
    of_tree, _ = read("opencode", tree(tmp_path / "storage"))
    of_export, _ = read("opencode", written(tmp_path, "export.json", export()))
    for one in (*of_tree, *of_export):
        one.path = ""
    assert of_tree == of_export


def test_a_session_keeps_who_made_it_and_the_rules_that_its_denials_quote(tmp_path) -> None:
    ((session,), _) = read("opencode", written(tmp_path, "export.json", export()))
    first = session.turns[0]
    assert (
        (session.id, session.agent, session.version, session.project, session.rules)
        == ("ses_1", "worker", "1.18.33", "/srv/proj", RULES)
    )  # fmt: skip
    assert (first.model, first.at, first.usage.prompt_tokens) == ("qwen", 1_760_000_000.5, 12)
    assert (first.calls[0].exit_code, first.calls[0].seconds) == (0, 1.5)
    assert [call.call.command for call in session.calls[:2]] == [LISTS, PIPES]


def test_broken_arguments_are_kept_as_they_were_written(tmp_path) -> None:
    ((session,), _) = read("opencode", written(tmp_path, "export.json", export()))
    broken = [call.call.raw for call in session.calls if call.recorded is Recorded.MALFORMED]
    assert broken[:2] == ['{"command": ', '{"comm']


def test_a_sub_agent_of_claude_code_is_a_session_of_its_own(tmp_path) -> None:
    lines = [json.loads(line) | {"agentId": "a9"} for line in claude().splitlines()[1:3]]
    folder = tmp_path / "c1" / "subagents"
    folder.mkdir(parents=True)
    path = written(folder, "agent-a9.jsonl", "\n".join(map(json.dumps, lines)))
    written(folder, "agent-a9.meta.json", '{"agentType": "explorer"}')
    ((session,), _) = read("claude-code", path)
    assert (session.id, session.agent, session.parent) == ("c1/a9", "explorer", "c1")


def test_newer_lines_of_claude_code_say_themselves_why_a_call_did_not_run(tmp_path) -> None:
    use, result = (json.loads(line) for line in claude().splitlines()[3:5])
    for kind, told in {
        "user-rejected": "rejected",
        "permission-rule": "denied",
        "sibling_error": "cascade",
        "invalid_input": "malformed",
    }.items():
        for line in (
            {"toolDenialKind": kind},
            {"tool_result_meta": [{"non_execution_kind": kind}]},
        ):
            text = f"{json.dumps(use)}\n{json.dumps(result | line)}\n"
            sessions, _ = read("claude-code", written(tmp_path, "x.jsonl", text))
            assert recorded(sessions) == [told], (kind, line)


def test_codex_tells_the_tokens_of_a_reply_behind_it_and_some_twice(tmp_path) -> None:
    def counted(made, total, cached=0):
        last = {"input_tokens": made, "cached_input_tokens": cached, "output_tokens": 3}
        last["reasoning_output_tokens"] = 2
        so_far = {"total_token_usage": {"input_tokens": total}} if total else {}
        info = so_far | {"last_token_usage": last}
        return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}

    def reply(number):
        return codex_call(number, "shell", '{"command": ["ls"]}', "Exit code: 0")

    limits = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    early = counted(99, 99)
    lines = [early, *reply(1), counted(10, 109), counted(10, 109), limits]
    lines += [*reply(2), counted(20, 129, cached=8), *reply(3), counted(5, 0), counted(6, 0)]
    ((session,), _) = read("codex", written(tmp_path, "rollout-1.jsonl", jsonl(*lines)))
    assert [one.usage for one in session.turns] == [
        Usage(10, 3, 2, 0),
        Usage(20, 3, 2, 8),
        Usage(11, 6, 4, 0),
    ]


def test_a_log_of_another_program_is_no_session_of_codex(tmp_path) -> None:
    sessions, (skipped,) = read("codex", written(tmp_path, "c1.jsonl", claude()))
    assert (sessions, skipped.reason) == ([], "no session of Codex's in it")
    begun = jsonl({"type": "session_meta", "payload": {"id": "x1", "cli_version": "0.9"}})
    (session,), skipped = read("codex", written(tmp_path, "rollout-2.jsonl", begun))
    assert (session.id, session.turns, skipped) == ("x1", [], [])


@pytest.mark.parametrize(("name", "file", "content", "told"), SAMPLES, ids=IDS)
def test_a_log_is_known_by_its_content_and_to_others_a_log_with_faults(
    tmp_path, name, file, content, told
) -> None:
    path = written(tmp_path, file, content)
    own, *others = reads_as(path)
    assert (own, set(others) <= {"openai"}) == (name, True)  # calls of many shapes are read there
    for other in FORMATS.keys() - {name, "openai"}:
        sessions, skipped = read(other, path)
        assert skipped or not any(one.turns for one in sessions), other


def test_what_is_no_log_reads_as_none(tmp_path) -> None:
    for content in (b"", b"{}\n", b"\x00\xff", b"[" * 5_000, b"hello\n" * 50):
        assert reads_as(written(tmp_path, "x.jsonl", content)) == []
    assert reads_as(tmp_path) == reads_as(tmp_path / "gone") == []


def test_a_large_file_is_not_read_once_more_for_each_format(tmp_path) -> None:
    path = written(tmp_path, "c1.jsonl", claude())
    assert reads_as(path) == ["claude-code"]
    with path.open("a") as file:
        file.truncate(1 << 24)
    assert reads_as(path) == []


def test_older_outputs_of_codex_tell_their_exit_code_in_their_text(tmp_path) -> None:
    ((session,), _) = read("codex", written(tmp_path, "rollout-1.jsonl", CODEX))
    assert [(call.said, call.exit_code) for call in session.calls[4:5]] == [("a", 2)]


def test_swe_agent_tells_its_model_in_its_settings(tmp_path) -> None:
    ((session,), _) = read("swe-agent", written(tmp_path, "a.traj", SWE))
    assert (session.model, len(session.turns)) == ("gpt-x", 2)


@pytest.mark.parametrize("name", OTHER_SPANS)
def test_calls_are_known_in_the_spans_of_other_libraries(tmp_path, name) -> None:
    spans = [
        span(1, "ChatOpenAI.chat", ("traceloop.span.kind", "llm"), ("llm.model_name", "gpt")),
        span(2, name, *OTHER_SPANS[name]),
        span(3, "agent", ("traceloop.span.kind", "agent"), ("input.value", "go")),
    ]
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    ((session,), _) = read("otel", written(tmp_path, "spans.json", text))
    assert [(call.call.name, call.call.command) for call in session.calls] == [("bash", "ls")]
    assert (len(session.turns), session.model) == (1, "gpt")


def test_the_replies_of_a_batch_are_read(tmp_path) -> None:
    reply = json.loads(CHAT.splitlines()[0])["messages"][1]
    body = {"model": "qwen", "choices": [{"index": 0, "message": reply}]}
    line = {
        "id": "batch_req_0123456789",
        "custom_id": "1",
        "response": {"status_code": 200, "body": body},
    }
    ((session,), _) = read("openai", written(tmp_path, "out.jsonl", json.dumps(line) + "\n"))
    assert (session.id, session.model, len(session.calls)) == ("batch_req_0123456789", "qwen", 2)


def test_a_session_whose_model_was_changed_is_cut_by_model(tmp_path) -> None:
    text = claude().replace('"model": "opus"', '"model": "haiku"', 3)
    ((session,), _) = read("claude-code", written(tmp_path, "c1.jsonl", text))
    cut = {one.model: len(one.calls) for one in session.by_model()}
    assert cut == {"haiku": 3, "opus": len(CLAUDE) - 3}


def test_a_line_that_is_half_written_is_named_and_the_others_are_read(tmp_path) -> None:
    text = claude()
    lines = text.splitlines(keepends=True)
    broken = "".join([*lines[:3], "{half\n", "[1]\n", *lines[3:5], '{"type": "assis'])
    path = written(tmp_path, "c1.jsonl", broken)
    sessions, skipped = read("claude-code", path)
    assert recorded(sessions) == ["ran", "denied"]
    assert [(one.path, one.at) for one in skipped] == [
        (str(path), f"line {number}") for number in (4, 5, 8)
    ]
    assert "half written" in skipped[-1].reason


def test_bytes_that_are_no_text_are_kept(tmp_path) -> None:
    path = written(tmp_path, "c1.jsonl", claude().encode().replace(b'"ls"', b'"ls \xff"'))
    ((session,), _) = read("claude-code", path)
    assert session.calls[0].call.command == "ls \udcff"


@pytest.mark.parametrize(("name", "file", "content", "told"), SAMPLES, ids=IDS)
def test_no_cut_and_no_garbage_stops_a_reader(tmp_path, name, file, content, told) -> None:
    whole = content if isinstance(content, bytes) else content.encode()
    for end in range(0, len(whole), 11):
        sessions, skipped = read(name, written(tmp_path, file, whole[:end]))
        assert len(recorded(sessions)) <= len(told)
        assert all(one.at and one.reason for one in skipped)
    for at in range(0, len(whole), 53):
        read(name, written(tmp_path, file, whole[:at] + b"\x00\xff[{" + whole[at + 4 :]))


def test_a_database_that_is_cut_off_is_named(tmp_path) -> None:
    database(tmp_path / "whole.db").close()
    whole = (tmp_path / "whole.db").read_bytes()
    for end in range(100, len(whole), 997):
        sessions, skipped = read("opencode", written(tmp_path, "cut.db", whole[:end]))
        assert len(sessions) < 2
        assert {one.at.partition(" ")[0] for one in skipped} <= NAMED
        assert sessions or skipped


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_lines_in_another_order_or_twice_make_no_call_out_of_nothing(tmp_path, data) -> None:
    lines = claude().splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))
    sessions, skipped = read("claude-code", written(tmp_path, "c1.jsonl", "".join(chosen)))
    uses = {line for line in chosen if '"tool_use"' in line and '"assistant"' in line}
    assert (len(recorded(sessions)), skipped) == (len(uses), [])


LISTED = tomllib.loads(Path(workers.__file__).with_name("keys.toml").read_text())
OTHER_KEYS = {"arguments", "choices", "history", "id", "role", "samples", "sessionId", "usage"}
KEYS = sorted(OTHER_KEYS | {*re.findall(r"\w+", json.dumps(LISTED))})
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)


@settings(
    deadline=None,
    max_examples=60,  # a machine that has much to do may be slow to make one
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.dictionaries(st.sampled_from(KEYS), HOSTILE, max_size=12))
def test_no_shape_of_json_stops_a_reader(tmp_path, value) -> None:
    for name, file in {(name, file) for name, file, *_ in SAMPLES}:
        read(name, written(tmp_path, file, json.dumps(value) + "\n"))


def test_a_long_session_comes_in_parts_that_are_never_all_held(tmp_path) -> None:
    use, result = claude().splitlines(keepends=True)[1:3]
    path = tmp_path / "c1.jsonl"
    with path.open("w") as file:
        for number in range(2 * PART + 10):
            file.write(re.sub(r'"([autm])0"', rf'"\g<1>{number}"', use + result))
    parts = [(one.part, len(one.turns)) for one in FORMATS["claude-code"].read(path)]
    assert parts == [(0, PART), (1, PART), (2, 10)]


def test_an_export_may_name_its_session_behind_its_messages(tmp_path) -> None:
    whole = json.loads(export())
    turned = json.dumps({"messages": whole["messages"], "info": whole["info"]})
    assert read("opencode", written(tmp_path, "export.json", turned)) == read(
        "opencode", written(tmp_path, "export.json", export())
    )


def test_each_kind_of_object_whose_keys_are_checked_is_listed_and_no_other() -> None:
    folder = Path(workers.__file__).parent
    texts = [path.read_text() for path in folder.glob("*.py")]
    named = set(re.findall(r'check_keys\([^"]*?"([\w.-]+)"', "".join(texts)))
    listed = {f"{name}.{kind}" for name, kinds in LISTED.items() for kind in kinds}
    by_type = {f"codex.{kind}" for kind in LISTED["codex"] if "_" in kind}
    assert named | by_type == listed
