"""A stored run judged again, by today's taxonomy or under another allow list."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from program import agenteval

from agenteval.config.files import shipped
from agenteval.store.sql import SqlStore

STORE = "reports/agenteval.db"
SIM = ("-m", "sim/qwen3.6-35b", "ralf/handshake", "--trials", "3", "--seed", "5")


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    assert agenteval(folder, "run", *SIM).returncode == 0
    return folder / STORE


@pytest.fixture
def played(project, first_run):
    (project / STORE).parent.mkdir()
    return shutil.copy(first_run, project / STORE)


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


def counted(path):
    rows = asked(path, "SELECT errors, recovery FROM trial ORDER BY id")
    return [[json.loads(value) for value in row] for row in rows]


def test_an_outdated_run_is_judged_as_today_and_its_judgement_is_kept(cli, played):
    before = asked(played, "SELECT id, failure_class FROM call ORDER BY id")
    errors = counted(played)
    aged(played)

    said = cli("rescore", "last")

    denied = sum(bool(failure_class) for _, failure_class in before)
    assert (said.code, denied > 0) == (0, True)
    assert f"{denied} of {len(before)} calls are judged differently" in said.out
    assert asked(played, "SELECT id, failure_class FROM call ORDER BY id") == before
    assert counted(played) == errors
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


def test_a_rescored_run_is_told_as_one_by_show_and_by_the_gate(cli, played, project):
    (project / "strict.toml").write_text('description = "Nothing."\n[bash]\nallow = ["true"]\n')
    cli("run", *SIM)
    first, last = (row[0] for row in asked(played, "SELECT id FROM run ORDER BY rowid"))
    before = asked(played, "SELECT count(*) FROM call WHERE NOT allowed")[0][0]
    for run in (first, last):
        cli("rescore", run, "--allowlist", "strict.toml")
    now = asked(played, "SELECT count(*) FROM call WHERE NOT allowed")[0][0]
    told = (
        f"judged first by ralf, and after the fact by strict: 0 calls denied then, and allowed "
        f"now; {(now - before) // 2} the other way round."
    )
    gated = cli("gate", "--baseline", first, "--candidate", last, "--allow-simulated")
    for said in (gated, cli("show", last), cli("compare", first, last)):
        assert told in " ".join(said.out.split())
    for run in (first, last):
        cli("rescore", run, "--own")
    assert "after the fact" not in cli("show", last).out


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


def changed(project, name="ralf"):
    """The scenario's own list, which has a rule more than when the run was played."""
    (project / "allowlists").mkdir()
    text = f'extends = "{shipped() / "allowlists" / name}.toml"\n[bash]\nallow = ["true"]\n'
    (project / "allowlists" / f"{name}.toml").write_text(text)


def test_an_allow_list_that_changed_is_named_and_its_own_of_today_judges(cli, played, project):
    before = asked(played, "SELECT policies, judged FROM run")
    changed(project)
    said, own = cli("rescore", "last"), cli("rescore", "last", "--own")
    assert (said.code, own.code) == (2, 0)
    assert "allow list 'ralf', which judged it, is not there as it was; --own judges" in said.err
    assert asked(played, "SELECT policies, judged FROM run") != before
    assert cli("rescore", "last").code == 0


def test_under_its_own_lists_a_run_is_as_it_was_played(cli, played):
    def judgement():
        with closing(SqlStore(str(played))) as store:
            run = store.load("last")
        return replace(run, effort=None)

    before = judgement()
    cli("rescore", "last", "--allowlist", "demo")
    under = judgement()
    assert (cli("rescore", "last").code, judgement()) == (0, under)
    assert under != before
    assert (cli("rescore", "last", "--own").code, judgement()) == (0, before)


def test_a_list_in_force_that_one_of_the_scenarios_has_too_judges_all_of_them(cli, project):
    cli("run", *SIM, "notes/append")
    ((policies,),) = asked(project / STORE, "SELECT policies FROM run")
    assert len(json.loads(policies)) == 2
    cli("rescore", "last", "--allowlist", "ralf")
    under = asked(project / STORE, "SELECT policy, count(*) FROM call GROUP BY 1")
    assert (cli("rescore", "last").code, len(under)) == (0, 1)
    assert asked(project / STORE, "SELECT policy, count(*) FROM call GROUP BY 1") == under


def test_a_scenario_that_changed_its_list_for_another_of_the_run_is_named(cli, project):
    cli("run", *SIM, "notes/append")
    ((judged,),) = asked(project / STORE, "SELECT judged FROM run")
    by = json.loads(judged)
    one, other = "notes/append", "ralf/handshake"
    swapped = by | {one: by[other], other: by[one]}
    asked(project / STORE, "UPDATE run SET judged = ?", json.dumps(swapped))
    said = cli("rescore", "last")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "another allow list judges 'notes/append' now than did then; --own judges" in said.err


def test_one_of_two_lists_is_to_be_named(cli, played):
    said = cli("rescore", "last", "--own", "--allowlist", "demo")
    assert (said.code, "--own and --allowlist: two allow lists" in said.err) == (2, True)


def test_no_gate_and_no_resume_mixes_what_two_lists_judged(cli, played):
    first = asked(played, "SELECT id FROM run")[0][0]
    cli("run", *SIM)
    gate = ("gate", "--baseline", first, "--candidate", "last", "--allow-simulated")
    assert cli(*gate).code in {0, 1, 3}

    cli("rescore", first, "--allowlist", "demo")
    refused, resumed = cli(*gate), cli("run", "--resume", first)
    shown = cli("compare", first, "last")
    assert (refused.code, resumed.code) == (2, 2)
    assert "were not asked and judged alike: allow lists (demo / ralf)" in refused.err
    assert "--own` judges" in refused.err
    assert "judged by another allow list (demo) than it plays under" in resumed.err
    assert "allow lists (demo / ralf)" in " ".join(shown.out.split())

    cli("rescore", "last", "--allowlist", "demo")
    judged = cli(*gate)
    assert judged.code in {0, 1, 3}
    assert "were judged by other allow lists or another taxonomy before" in judged.out

    cli("rescore", first, "last", "--own")
    assert (cli(*gate).code in {0, 1, 3}, cli("run", "--resume", first).code) == (True, 0)


def test_a_script_that_a_stored_call_wrote_is_the_model_s_own(cli, project):
    cli("run", "-m", "sim/qwen3.5-27b", "coding/slug-function", "--trials", "1")
    store = project / STORE
    made = "SELECT json_extract(arguments, '$.path'), turn FROM call"
    ((path, written),) = asked(store, f"{made} WHERE name = 'write' AND exit_code = 0 LIMIT 1")
    behind = "SELECT turn, position FROM call WHERE name = 'bash' AND turn > ? LIMIT 1"
    ((later, position),) = asked(store, behind, written)
    put = "UPDATE turn SET calls = json_set(calls, ?, json(?)) WHERE number = ?"
    command = json.dumps({"command": f"uv run {path}"})
    asked(store, put, f"$[{position}].arguments", command, later)

    cli("rescore", "last")

    query = "SELECT failure_class FROM call WHERE turn = ? AND position = ?"
    assert asked(store, query, later, position) == [("self-written-script",)]


def test_a_replaced_trial_leaves_no_file_in_the_world_of_its_successor(cli, project):
    """That met the same world, and is judged again after it."""
    cli("run", "-m", "sim/qwen3.5-27b", "coding/slug-function", "--trials", "2")
    store = project / STORE
    ((path, number),) = asked(
        store,
        "SELECT json_extract(arguments, '$.path'), number FROM call "
        "JOIN trial ON trial.id = trial_id WHERE name = 'write' AND exit_code = 0 LIMIT 1",
    )
    asked(store, "UPDATE trial SET replaced = TRUE WHERE number = ?", number)
    asked(store, "DELETE FROM call WHERE name = 'write' AND trial_id NOT IN (SELECT id FROM trial "
          "WHERE replaced)")  # fmt: skip
    asked(
        store,
        "UPDATE trial SET number = ?, seed = (SELECT seed FROM trial WHERE replaced), id = id + 10 "
        "WHERE NOT replaced",
        number,
    )
    asked(store, "UPDATE call SET trial_id = (SELECT max(id) FROM trial) WHERE trial_id NOT IN "
          "(SELECT id FROM trial)")  # fmt: skip
    asked(store, "UPDATE turn SET trial_id = (SELECT max(id) FROM trial) WHERE trial_id NOT IN "
          "(SELECT id FROM trial)")  # fmt: skip
    of = "trial_id = (SELECT max(id) FROM trial)"
    ((turn, position),) = asked(
        store, f"SELECT turn, position FROM call WHERE name = 'bash' AND {of} LIMIT 1"
    )
    asked(
        store,
        f"UPDATE turn SET calls = json_set(calls, ?, json(?)) WHERE number = ? AND {of}",
        f"$[{position}].arguments",
        json.dumps({"command": f"uv run {path}"}),
        turn,
    )

    assert cli("rescore", "last").code == 0

    query = f"SELECT failure_class FROM call WHERE {at(turn, position)} AND {of}"
    assert asked(store, query) == [("hallucinated-script",)]


def test_what_was_kept_outside_the_workspace_stays_open_to_be_read(cli, project):
    cli("run", "-m", "sim/qwen3.5-27b", "mail/triage", "--trials", "1", "--arm", "taught/tools")
    store = project / STORE
    first, *_, (turn, position) = asked(
        store, "SELECT turn, position FROM call WHERE name = 'bash' AND exit_code = 0"
    )
    long = f"UPDATE call SET output = ?, output_is_reply = 0 WHERE {at(*first)}"
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
