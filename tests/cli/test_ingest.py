"""`agenteval ingest`: sessions of logs as runs, once each, whole or not at all."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.cli.logs import Progress
from agenteval.logs.formats import FORMATS
from agenteval.logs.trials import BESIDE, MODE
from agenteval.logs.workers import Intake, Taken
from agenteval.store.search import reviews
from agenteval.store.sql import SqlStore

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import (
    CHAT,
    CLAUDE,
    CODEX,
    GEMINI,
    HOOK,
    LISTS,
    MINI,
    PIPES,
    QWEN,
    claude,
    claude_call,
    codex_call,
    database,
    export,
    jsonl,
    qwen_call,
    run_json,
)

RUN = re.compile(r"^(2\S+)  ", re.MULTILINE)


@pytest.fixture
def far_from_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC+9")  # as POSIX has it: nine hours behind
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def agenteval(*arguments, code=0):
    found = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.output


def ingested(*arguments):
    return json.loads(agenteval("ingest", *arguments, "--json"))


def rows(query):
    with closing(sqlite3.connect("reports/agenteval.db")) as store:
        return store.execute(query).fetchall()


def test_three_facts_of_a_call_are_kept_apart(here) -> None:
    (here / "export.json").write_text(export())
    agenteval("ingest", "opencode", "export.json")
    facts = 'SELECT raw, harness, derived, offending, failure_class, shape FROM "call" ORDER BY id'
    assert rows(facts)[:2] == [
        (LISTS, "ran", "allowed", "", "", "plain"),
        (PIPES, "denied", "denied", "head", "pipe-to-filter", "pipe-to-filter"),
    ]


def test_pending_calls_and_cascades_are_counted_and_are_in_no_rate(here) -> None:
    (here / "c1.jsonl").write_text(claude())
    (run,) = ingested("claude-code", "c1.jsonl")["runs"]
    told = {recorded: [one[-1] for one in CLAUDE].count(recorded) for *_, recorded in CLAUDE}
    assert run["recorded"] == told
    shown = json.loads(agenteval("show", run["id"], "--json"))["models"][0]
    errors = told["denied"] + told["invalid-tool"] + told["malformed"]
    assert (shown["errors"]["count"], shown["errors"]["n"]) == (errors, len(CLAUDE) - 1)


def test_ingesting_twice_adds_nothing(here) -> None:
    (here / "c1.jsonl").write_text(claude())
    agenteval("ingest", "claude-code", "c1.jsonl")
    before = rows('SELECT * FROM "call"')
    again = ingested("claude-code", ".")
    touched = (here / "c1.jsonl").write_text(claude() + "\n")
    once_more = ingested("claude-code", "c1.jsonl")
    assert touched
    assert (again["files_unchanged"], again["runs"]) == (1, [])
    assert once_more["runs"][0]["sessions"] == {"unchanged": 1}
    assert rows('SELECT * FROM "call"') == before


def test_a_log_that_grows_is_taken_up_where_it_stopped(here) -> None:
    lines = claude().splitlines(keepends=True)
    calls = []
    for end in (2, 4, 9, len(lines)):
        (here / "c1.jsonl").write_text("".join(lines[:end]))
        ingested("claude-code", "c1.jsonl")
        calls.append(rows("SELECT count(*) FROM 'call'")[0][0])
    assert (calls, rows("SELECT count(*) FROM trial")) == ([0, 1, 4, 7], [(1,)])
    whole = rows('SELECT name, raw, harness FROM "call" ORDER BY id')
    (here / "reports/agenteval.db").unlink()
    ingested("claude-code", "c1.jsonl")
    assert rows('SELECT name, raw, harness FROM "call" ORDER BY id') == whole


def test_a_session_of_opencode_that_grows_in_files_beside_its_own_is_read_again(here) -> None:
    calls = []
    for number in (1, 2):
        tree(here / "storage", number)
        ingested("opencode", ".")
        calls.append(rows("SELECT count(*) FROM 'call'")[0][0])
    assert (calls, rows("SELECT count(*) FROM trial")) == ([1, 2], [(1,)])


def tree(storage, number) -> None:
    """One more message with one more call in OpenCode's older tree."""
    message = f"msg_{number}"
    state = {"status": "completed", "input": {"command": "ls"}, "output": "a"}
    part = {"id": f"p{number}", "messageID": message, "type": "tool", "tool": "bash"}
    files = {
        "session/p/ses_1.json": {"id": "ses_1"},
        f"message/ses_1/{message}.json": {"id": message, "role": "assistant", "modelID": "m"},
        f"part/{message}/p{number}.json": {**part, "callID": f"c{number}", "state": state},
    }
    for name, value in files.items():
        (storage / name).parent.mkdir(parents=True, exist_ok=True)
        (storage / name).write_text(json.dumps(value))


def test_a_log_whose_run_was_removed_can_be_taken_in_again(here) -> None:
    (here / "c1.jsonl").write_text(claude())
    (run,) = ingested("claude-code", "c1.jsonl")["runs"]
    agenteval("runs", "rm", run["id"], "--yes")
    (again,) = ingested("claude-code", "c1.jsonl")["runs"]
    assert again["sessions"] == {"added": 1}


def test_copies_of_one_session_are_one_trial(here) -> None:
    store = database(here / "opencode.db")
    (here / "export.json").write_text(export())
    (here / "run.jsonl").write_text(run_json())
    for path in ("opencode.db", "export.json", "run.jsonl"):
        ingested("opencode", path)
    store.close()
    assert rows("SELECT count(*), sum(calls) FROM trial") == [(1, 9)]


def test_a_database_that_a_running_program_has_locked_is_read(here) -> None:
    store = database(here / "opencode.db")
    store.execute("BEGIN IMMEDIATE")
    found = ingested("opencode", "opencode.db")
    store.close()
    assert (found["skipped"], found["runs"][0]["sessions"]) == ([], {"added": 1})


def test_what_a_log_cannot_show_is_not_observable_in_every_table(here) -> None:
    (here / "chat.jsonl").write_text(CHAT)
    (run,) = ingested("openai", "chat.jsonl")["runs"]
    shown = agenteval("show", run["id"], "--details")
    assert "how a trial ended, denials, exit codes" in shown
    for label in ("goal reached, of trials", "completed", "typical exit"):
        assert re.search(rf"^{label} +not observable", shown, re.MULTILINE), label
    listed = json.loads(agenteval("show", "--json"))["runs"][0]
    assert (listed["reached"]["n"], listed["source"]) == (0, "openai")
    whole = json.loads(agenteval("show", run["id"], "--json"))["models"][0]
    assert (whole["errors"]["n"], whole["errors"]["count"]) == (0, 0)


def test_an_allow_list_judges_instead_of_the_record(here) -> None:
    (here / "chat.jsonl").write_text(CHAT)
    (run,) = ingested("openai", "chat.jsonl", "--allowlist", "demo")["runs"]
    assert run["derived"] == {"denied": 4}
    shown = json.loads(agenteval("show", run["id"], "--json"))["models"][0]
    assert (shown["errors"]["count"], shown["errors"]["n"]) == (4, 4)


def codex_calls():
    """Four commands of Codex that ran: two as they are, two for which it asked to be let out."""
    more = {"sandbox_permissions": "require_escalated"}
    asked = [{"cmd": "git log | head -3"}, {"cmd": "rm -f x"}, {"cmd": "ls"} | more]
    asked.append({"cmd": "git pull"} | more)
    told = "Process exited with code 0"
    for number, given in enumerate(asked):
        yield from codex_call(number, "exec_command", json.dumps(given), told)


def derived_of_all() -> str:
    """The first letters of what the list says of each call; a dot where it says nothing."""
    calls = rows('SELECT derived FROM "call" ORDER BY id')
    return "".join(derived[:1] or "." for (derived,) in calls)


@pytest.mark.parametrize(
    ("mode", "derived"),
    [
        ("", "ddda"),
        ("untrusted", "ddda"),
        ("on-request", "adda"),
        ("never", "addd"),
        ("unheard-of", "ddda"),
    ],
)
def test_the_rules_of_codex_judge_in_the_mode_that_its_log_names(here, mode, derived) -> None:
    (here / "a.rules").write_text('prefix_rule(pattern=["git"])')
    context = {"model": "m", "cwd": "/srv/p"} | ({"approval_policy": mode} if mode else {})
    (here / "rollout-1.jsonl").write_text(
        jsonl({"type": "turn_context", "payload": context}, *codex_calls())
    )
    ingested("codex", "rollout-1.jsonl", "--allowlist", "a.rules")
    assert derived_of_all() == derived


@pytest.mark.parametrize(
    ("mode", "folder", "derived", "policy"),
    [
        ("untrusted", "codex/rules", "ddda", BESIDE),
        ("on-request", "codex/rules", "adda", BESIDE),
        ("never", "project/.codex/rules", "addd", BESIDE),
        ("on-request", "", "addd", MODE),
        ("never", "", "addd", MODE),
        ("unheard-of", "", "....", ""),
    ],
)
def test_rules_of_codex_are_found_beside_its_log_and_its_mode_alone_decides_too(
    here, mode, folder, derived, policy
) -> None:
    if folder:
        rules = here / folder / "default.rules"
        rules.parent.mkdir(parents=True)
        rules.write_text('prefix_rule(pattern=["git"])')
    context = {"model": "m", "cwd": str(here / "project"), "approval_policy": mode}
    log = here / "codex/sessions/2026/03/01/rollout-1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(jsonl({"type": "turn_context", "payload": context}, *codex_calls()))
    (run,) = ingested("codex", log)["runs"]
    assert derived_of_all() == derived
    assert [one.partition(":")[0] for (one,) in rows("SELECT policy FROM session")] == [policy]
    assert run["differ"]["count"] == derived.count("d")


@pytest.mark.parametrize("place", ["project/.qwen", "qwen"])
def test_rules_of_qwen_code_are_found_beside_its_log(here, place) -> None:
    settings = here / place / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(ls *)"]}, "telemetry": {}}))
    asked = (("run_shell_command", "ls -l"), ("run_shell_command", "curl x"), ("read_file", "y"))
    calls = [
        {**one, "cwd": str(here / "project")}
        for number, (name, text) in enumerate(asked)
        for one in qwen_call(number, name, {"command": text}, status="success", resultDisplay="a")
    ]
    log = here / "qwen/projects/p/chats/q.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(jsonl(*calls))
    (run,) = ingested("qwen-code", log)["runs"]
    assert derived_of_all() == "ad."
    assert run["differ"] == {"count": 1, "calls": ["ran, but denied: curl x"]}


def test_two_models_of_logs_are_compared_and_the_gate_says_what_is_not_known(here) -> None:
    (here / "export.json").write_text(export())
    (here / "c1.jsonl").write_text(claude())
    ingested("opencode", "export.json")
    ingested("claude-code", "c1.jsonl")
    compared = agenteval("compare", "qwen", "opus")
    assert "makes" in compared or "made" in compared
    told = agenteval("gate", "--baseline", "qwen", "--candidate", "opus", code=3)
    assert re.search(r"margin.completed .* 0/0 trials +INCONCLUSIVE", told)
    assert "Goal reached: not observable in the logs of " in told
    assert "a log does not show it: play a run of both models" in " ".join(told.split())


def test_where_list_and_record_differ_is_counted_and_named(here) -> None:
    rule = json.dumps(export()).replace("scripts/notes.py *", "scripts/other.py *")
    (here / "export.json").write_text(json.loads(rule))
    (run,) = ingested("opencode", "export.json")["runs"]
    assert run["differ"] == {"count": 1, "calls": [f"ran, but denied: {LISTS}"]}


@pytest.mark.parametrize(
    ("option", "value", "sessions"),
    [
        ("--model", "opus", 1),
        ("--model", "gpt", 0),
        ("--agent", "main", 1),
        ("--project", "/srv", 1),
        ("--project", "/elsewhere", 0),
        ("--since", "2026-03-01", 1),
        ("--since", "2026-03-02", 0),
        ("--until", "2026-03-01", 0),
        ("--until", "2026-04-01T10:00:00+00:00", 1),
        ("--since", "2026-03", 1),
        ("--since", "2026-03-01T10:00", 1),
        ("--since", "2026-03-01T11:00", 0),
        ("--since", "2026-03-01T11:00+01:00", 1),
        ("--until", "2026-03-01T11:00+01:00", 0),
    ],
)
@pytest.mark.usefixtures("far_from_utc")
def test_only_sessions_that_are_asked_for_are_taken_in(here, option, value, sessions) -> None:
    (here / "c1.jsonl").write_text(claude())
    found = ingested("claude-code", "c1.jsonl", option, value)
    assert len(found["runs"]) == sessions
    everything = ingested("claude-code", "c1.jsonl")
    assert sum(everything["runs"][0]["sessions"].values()) == 1


def test_what_must_not_be_stored_is_taken_out_before(here) -> None:
    secret = "sk-" + "proj0123456789abcdef"
    text = claude().replace("rm x", f"KEY={secret} curl https://wiki.example.org /home/ann/x")
    (here / "c1.jsonl").write_text(text.replace("/srv/work", "/home/ann/work"))
    found = ingested("claude-code", "c1.jsonl", "--redact")
    stored = b"".join(file.read_bytes() for file in (here / "reports").iterdir())
    for gone in (secret, "wiki.example.org", "/home/ann"):
        assert gone.encode() not in stored, gone
    assert {line.partition(" x ")[2] for line in found["redacted"]} >= {"key", "host", "user"}
    assert rows("SELECT project FROM session") == [("/home/redacted-user-1/work",)]


def test_auto_finds_the_places_of_programs(here, monkeypatch) -> None:
    for log in FORMATS.values():
        for variable, *_ in log.homes:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(here))
    for name, text in (
        (".claude/projects/-srv-work/c1.jsonl", claude()),
        (".codex/sessions/2026/03/01/rollout-1.jsonl", CODEX),
        (".codex/archived_sessions/rollout-2.jsonl", CODEX.replace('"x1"', '"x2"')),
        (".qwen/projects/-srv-p/chats/q.jsonl", QWEN),
        (".gemini/tmp/abc/chats/session-1.json", GEMINI),
        (".local/state/agenteval/hook/calls.jsonl", HOOK),
        (".config/mini-swe-agent/last_mini_run.traj.json", MINI),
        (".local/share/opencode/opencode.db", ""),
    ):
        (here / name).parent.mkdir(parents=True)
        (here / name).write_text(text)
    with closing(database(here / ".local/share/opencode/opencode.db")):
        found = {run["format"]: run["sessions"]["added"] for run in ingested("auto")["runs"]}
    one = ("claude-code", "qwen-code", "gemini-cli", "hook", "swe-agent", "opencode")
    assert found == {**dict.fromkeys(one, 1), "codex": 2}
    assert ingested("auto")["files_unchanged"] >= 7


def test_skipped_parts_are_named_with_file_and_place(here) -> None:
    (here / "c1.jsonl").write_text(claude() + "{half")
    told = agenteval("ingest", "claude-code", "c1.jsonl")
    last = len(claude().splitlines()) + 1
    assert f"parts skipped: 1\n  c1.jsonl: line {last}: cut off, or half written" in told


def test_a_log_in_which_there_is_no_session_is_named_with_the_format_that_reads_it(here) -> None:
    (here / "c1.jsonl").write_text(claude())
    (here / "notes.jsonl").write_text("{}\n")
    told = agenteval("ingest", "codex", "c1.jsonl")
    assert told.endswith(
        "c1.jsonl: no session in it. It is a log for\n  agenteval ingest claude-code c1.jsonl\n"
    )
    told = agenteval("ingest", "gemini-cli", "notes.jsonl")
    assert told.endswith("notes.jsonl: no session in it\n")
    assert "no session" not in agenteval("ingest", "claude-code", "notes.jsonl", "c1.jsonl")
    (here / "c2.jsonl").write_text(claude())
    found = ingested("codex", "c2.jsonl")["no_session"]
    assert found == {"path": "c2.jsonl", "formats": ["claude-code"]}
    assert ingested("claude-code", "c1.jsonl")["no_session"] is None


def test_the_command_that_is_proposed_can_be_pasted(here) -> None:
    name = "it's my log.jsonl"
    (here / name).write_text(claude())
    (word,) = re.findall("claude-code (.*)\n", agenteval("ingest", "codex", name))
    echoed = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert echoed.stdout.decode() == name


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fly", "x"], "'fly': no format of logs. Known: auto, opencode"),
        (["opencode", "nowhere"], "nowhere: no such file or folder of logs"),
        (["auto", "x"], "auto finds each program's own place"),
        (["opencode", "x", "--since", "soon"], "--since soon: no day or time"),
        (["codex", "empty"], "empty: no log of codex in it (**/rollout-*.jsonl)."),
        (["codex", "empty", "--workers", "0"], "0 is not in the range"),
    ],
)
def test_what_a_user_gets_wrong_is_told_in_a_line(cli, project, arguments, told) -> None:
    (project / "empty").mkdir()
    found = cli("ingest", *arguments)
    assert (found.code, told in found.err, found.err.count("\n")) == (2, True, 1)


@pytest.mark.slow
def test_an_ingest_that_is_killed_leaves_no_session_half_and_is_taken_up(here) -> None:
    for number in range(30):
        (here / f"{number}.jsonl").write_text(claude().replace('"c1"', f'"c{number}"'))
    command = [sys.executable, "-m", "agenteval", "ingest", "claude-code", "."]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL) as going:
        while going.poll() is None and not _trials():
            pass
        going.kill()
    assert {calls for calls, outcome in _trials() if outcome} <= {7}
    assert all(outcome for _, outcome in _trials())
    ingested("claude-code", ".")
    assert rows("SELECT count(*), sum(calls) FROM trial") == [(30, 210)]


def _trials():
    try:
        return rows("SELECT calls, outcome FROM trial")
    except sqlite3.OperationalError:
        return []


def weeks():
    """Sessions of four weeks; from the third on most calls are denied."""
    for week in range(4):
        for session in range(8):
            denied = (0, 1, 5, 6)[week] + session % 2
            for number in range(10):
                said = "Permission to use Bash with command ls has been denied."
                is_error = number < denied
                result = said if is_error else "a"
                call = claude_call(number, "Bash", {"command": "ls"}, result, is_error=is_error)
                for line in call:
                    text = json.dumps(line).replace('"c1"', f'"w{week}s{session}"')
                    yield json.loads(text.replace("2026-03-01", f"2026-03-{2 + 7 * week:02}"))


def test_progress_is_told_now_and_then_also_of_one_long_session(capsys) -> None:
    now = [10.0]
    progress = Progress(lambda: now[0])
    intake = Intake(file_count=3, files=1)
    intake.runs["r"] = Taken("r", "m", "codex", recorded=Counter(ran=41_000))
    intake.runs["r"].sessions["added"] = 20
    for seconds in (0.0, 1.0, 1.5, 0.0):
        now[0] += seconds
        progress(intake)
    line = "file 1 of 3, 20 sessions, 41,000 calls\n"
    assert capsys.readouterr().err == 2 * line


def test_a_trend_tells_each_week_and_the_change_that_is_settled(here) -> None:
    by_session = {}
    for line in weeks():
        by_session.setdefault(line["sessionId"], []).append(json.dumps(line))
    for name, lines in by_session.items():
        (here / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    ingested("claude-code", ".")
    found = json.loads(agenteval("trend", "--by", "week", "--json"))
    errors = {"2026-W10": 4, "2026-W11": 12, "2026-W12": 44, "2026-W13": 52}
    assert {one["label"]: one["errors"] for one in found["points"]} == errors
    assert {one["calls"] for one in found["points"]} == {80}
    assert "2026-W12" in [one["from"] for one in found["changes"]]
    assert {one["model"] for one in (*found["points"], *found["changes"])} == {"opus"}
    ingested("claude-code", ".", "--allowlist", "demo")
    again = json.loads(agenteval("trend", "--json"))
    trials = [sum(one["trials"] for one in of["points"]) for of in (found, again)]
    assert (again["judged_since"], trials[1]) == (trials[0], trials[0])  # no session counts twice
    last = json.loads(agenteval("show", "last", "--json"))["models"][0]
    assert sum(one["errors"] for one in again["points"]) == last["errors"]["count"]
    assert "judgements left out, as of a session the one with most calls" in agenteval("trend")
    metrics = agenteval("trend", "--by", "model", "--openmetrics")
    rate = 100 * last["errors"]["count"] / 320
    assert f'agenteval_errors_per_100_calls{{model="opus"}} {rate:.9g}\n' in metrics
    assert metrics.endswith("# EOF\n")


def test_of_a_session_that_grew_the_longest_judgement_counts_in_a_trend(here) -> None:
    lines = claude().splitlines()
    log = here / "a.jsonl"
    last = max(number for number, line in enumerate(lines) if "tool_use_id" in line)
    cut = max(number for number, line in enumerate(lines[:last]) if "tool_use_id" in line)
    log.write_text("\n".join(lines[: cut + 1]) + "\n")
    ingested("claude-code", ".", "--allowlist", "demo")
    ingested("claude-code", ".")
    log.write_text("\n".join(lines) + "\n")
    ingested("claude-code", ".", "--allowlist", "demo")
    found = json.loads(agenteval("trend", "--json"))
    assert [(one["calls"], one["trials"]) for one in found["points"]] == [(7, 1)]
    assert found["judged_since"] == 1


def test_a_reading_that_judged_nothing_displaces_no_judgement_in_a_trend(here) -> None:
    (here / "chat.jsonl").write_text(CHAT)
    ingested("openai", "chat.jsonl", "--allowlist", "demo")
    judged = json.loads(agenteval("trend", "--by", "model", "--json"))
    ingested("openai", "chat.jsonl")
    found = json.loads(agenteval("trend", "--by", "model", "--json"))
    assert found["points"] == judged["points"] != []
    assert (found["left_out"], found["judged_since"]) == (judged["points"][0]["trials"], 0)


def test_two_models_of_one_week_are_two_points_of_a_trend(here) -> None:
    (here / "a.jsonl").write_text(claude())
    (here / "b.jsonl").write_text(claude().replace('"c1"', '"c2"').replace("opus", "haiku"))
    ingested("claude-code", ".")
    points = json.loads(agenteval("trend", "--by", "week", "--json"))["points"]
    assert [(one["model"], one["trials"]) for one in points] == [("haiku", 1), ("opus", 1)]
    assert [line.split()[-1] for line in agenteval("trend").splitlines()] == ["haiku", "opus"]
    told = agenteval("trend", "--openmetrics")
    assert 'agenteval_calls{model="haiku",week="2026-W09"} 7\n' in told


def test_a_run_out_of_logs_is_judged_again_by_an_allow_list_and_not_without(here) -> None:
    (here / "chat.jsonl").write_text(CHAT)
    (run,) = ingested("openai", "chat.jsonl")["runs"]
    told = agenteval("rescore", run["id"], "--allowlist", "demo")
    assert "2 of 4 calls are judged differently" in told
    shown = json.loads(agenteval("show", run["id"], "--json"))["models"][0]
    assert (shown["errors"]["count"], shown["errors"]["n"]) == (4, 4)


def test_what_a_person_said_of_a_call_stays_when_its_session_grows(here) -> None:
    lines = claude().splitlines(keepends=True)
    (here / "c1.jsonl").write_text("".join(lines[:5]))
    ingested("claude-code", "c1.jsonl")
    (here / "c2.jsonl").write_text(claude().replace('"c1"', '"c2"'))
    ingested("claude-code", "c2.jsonl")  # what grows gets other numbers
    with closing(SqlStore("reports/agenteval.db")) as store:
        calls = "SELECT id, turn, position FROM call ORDER BY trial_id, id"
        (first, *place), *_ = store.ask(calls)
        assert store.review(first, "allowed", "as I asked \0", "2026-11-25T10:00:00+00:00")
        (here / "c1.jsonl").write_text("".join(lines))
        assert "sessions: 1 grown" in agenteval("ingest", "claude-code", "c1.jsonl")
        (now, *_), *_ = store.ask(calls)
        assert [[one.call, one.label, one.note] for one in reviews(store.ask)] == [
            [now, "allowed", "as I asked \0"]
        ]
        assert place == [*store.ask(calls)[0][1:]]
    assert agenteval("store", "check") == "nothing is wrong\n"
