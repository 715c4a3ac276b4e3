"""A stored run judged again, by today's taxonomy or under another allow list."""

import json
import sqlite3

import pytest

STORE = "reports/agenteval.db"
SIM = ("-m", "sim/qwen3.6-35b", "ralf/handshake", "--trials", "3", "--seed", "5")


@pytest.fixture
def played(cli, project):
    cli("run", *SIM)
    return project / STORE


def asked(path, sql, *values):
    with sqlite3.connect(path) as connection:
        found = connection.execute(sql, values).fetchall()
    connection.close()
    return found


def aged(path):
    """As if an older agenteval, which knew one class fewer, had judged it."""
    asked(path, "UPDATE run SET taxonomy = '5'")
    asked(
        path,
        "UPDATE call SET taxonomy = '5', failure_class = 'other-shell' WHERE NOT allowed",
    )


def test_an_outdated_run_is_judged_as_today_and_its_judgement_is_kept(cli, played):
    before = asked(played, "SELECT id, failure_class FROM call ORDER BY id")
    errors = asked(played, "SELECT errors, recovery FROM trial ORDER BY id")
    aged(played)

    said = cli("rescore", "last")

    denied = sum(bool(failure_class) for _, failure_class in before)
    assert (said.code, denied > 0) == (0, True)
    assert f"{denied} of {len(before)} calls are judged differently" in said.out
    assert asked(played, "SELECT id, failure_class FROM call ORDER BY id") == before
    assert asked(played, "SELECT errors, recovery FROM trial ORDER BY id") == errors
    assert asked(played, "SELECT failure_class, count(*) FROM judgement GROUP BY 1") == [
        ("other-shell", denied)
    ]
    assert asked(played, "SELECT taxonomy_before, taxonomy FROM rescore") == [
        ("5", asked(played, "SELECT taxonomy FROM run")[0][0])
    ]


def test_a_run_that_is_judged_alike_again_changes_nothing(cli, played):
    before = asked(played, "SELECT failure_class, findings, policy FROM call ORDER BY id")
    assert " 0 of " in cli("rescore", "last").out
    assert asked(played, "SELECT failure_class, findings, policy FROM call ORDER BY id") == before
    assert asked(played, "SELECT count(*) FROM judgement") == [(0,)]


def test_another_allow_list_judges_the_same_calls(cli, played, project):
    (project / "strict.toml").write_text('description = "Nothing."\n[bash]\nallow = ["true"]\n')
    said = cli("rescore", "last", "--allowlist", "strict.toml")
    calls = asked(played, "SELECT count(*) FROM call")[0][0]
    bash = asked(played, "SELECT count(*) FROM call WHERE name = 'bash'")[0][0]
    denied = asked(played, "SELECT count(*) FROM call WHERE name = 'bash' AND NOT allowed")[0][0]
    assert (said.code, bash > 0, denied) == (0, True, bash)
    assert f" of {calls} calls are judged differently" in said.out
    assert "allowed -> " in said.out


def test_gate_and_resume_name_the_cure_and_the_gate_can_do_it(cli, played):
    first = asked(played, "SELECT id FROM run")[0][0]
    aged(played)
    cli("run", *SIM)
    gate = ("gate", "--baseline", first, "--candidate", "last", "--allow-simulated")
    refused, resumed = cli(*gate), cli("run", "--resume", first)
    judged = cli(*gate, "--rescore")
    assert (refused.code, f"`agenteval rescore {first}` judges" in refused.err) == (2, True)
    assert (resumed.code, f"`agenteval rescore {first}` judges" in resumed.err) == (2, True)
    assert (judged.code in {0, 1, 3}, "margin" in judged.out) == (True, True)


def test_an_allow_list_that_changed_is_named(cli, played):
    asked(played, """UPDATE run SET policies = '{"ralf": "gone"}'""")
    said = cli("rescore", "last")
    assert (said.code, "allow list 'ralf' is no longer what judged it" in said.err) == (2, True)


def test_a_script_that_a_stored_call_wrote_is_the_model_s_own(cli, project):
    cli("run", "-m", "sim/qwen3.5-27b", "coding/slug-function", "--trials", "1")
    store = project / STORE
    ((path, written),) = asked(
        store,
        "SELECT json_extract(arguments, '$.path'), turn FROM call "
        "WHERE name = 'write' AND exit_code = 0 LIMIT 1",
    )
    ((later, position),) = asked(
        store,
        "SELECT turn, position FROM call WHERE name = 'bash' AND turn > ? LIMIT 1",
        written,
    )
    asked(
        store,
        "UPDATE turn SET calls = json_set(calls, ?, json(?)) WHERE number = ?",
        f"$[{position}].arguments",
        json.dumps({"command": f"uv run {path}"}),
        later,
    )

    cli("rescore", "last")

    query = "SELECT failure_class FROM call WHERE turn = ? AND position = ?"
    assert asked(store, query, later, position) == [("self-written-script",)]


def test_what_was_kept_outside_the_workspace_stays_open_to_be_read(cli, project):
    cli("run", "-m", "sim/qwen3.5-27b", "mail/triage", "--trials", "1", "--arm", "taught/tools")
    store = project / STORE
    first, *_, (turn, position) = asked(
        store, "SELECT turn, position FROM call WHERE name = 'bash' AND exit_code = 0"
    )
    long = f"UPDATE call SET output = ? WHERE {at(*first)}"
    read = {"name": "read", "arguments": {"filePath": "/tmp/agent/tool-output/1.txt"}}
    patch = json.dumps({**read, "raw": json.dumps(read["arguments"])})

    seen = []
    for output in ("line\n" * 20_000, "short"):
        asked(store, long, output)
        asked(
            store,
            "UPDATE turn SET calls = json_replace(calls, ?, json_patch(calls ->> ?, ?)) "
            "WHERE number = ?",
            *(f"$[{position}]", f"$[{position}]", patch, turn),
        )
        cli("rescore", "last")
        seen += asked(store, f"SELECT failure_class FROM call WHERE {at(turn, position)}")
    assert seen == [("",), ("blocked-path",)]


def at(turn, position):
    return f"turn = {turn} AND position = {position}"
