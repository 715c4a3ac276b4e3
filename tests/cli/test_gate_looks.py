"""A gate remembers each look at a candidate over a baseline, and each spends its share."""

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from stored import play
from test_gate_command import RULES, STORE, keep, played

from agenteval.protocols import TrialKey
from agenteval.report.console import render_verdict
from agenteval.store.sql import SqlStore
from agenteval.testing import card, run
from agenteval.trial.call import Blame, MalformedCall
from agenteval.workflows.gate import judged

PLANNED = 40


class Candidate:
    """A run of 40 trials under way, and the gate over it."""

    def __init__(self, cli):
        self.cli, self.trials = cli, 0
        made = [played(number) for number in range(1, PLANNED + 1)]
        keep(run(*made, run_id="base", model=card("old")), STORE)
        self.made = run(*made, run_id="next", model=card("new"), complete=False)
        store = SqlStore(STORE)
        store.add(self.made)
        store.close()

    def play(self, trials):
        store = SqlStore(STORE)
        recorder = store.recorder(self.made, dict.fromkeys(("notes",), "abc"))
        for one in self.made.trials[self.trials : trials]:
            play(recorder, one)
        if trials == PLANNED:
            store.close_run("next", complete=True, second_reader={})
        store.close()
        self.trials = trials

    def judged(self, rules="mine.toml", where="next", **known):
        said = self.cli(
            "gate", "--baseline", "base", "--candidate", where, "--gate", rules, "--json"
        )
        return said.code, json.loads(said.out)


@pytest.fixture
def candidate(cli, project):
    (project / "mine.toml").write_text(RULES)
    (project / "other.toml").write_text(RULES.replace("points = 20", "points = 21"))
    return Candidate(cli)


def test_a_trial_in_flight_is_no_trial_yet_and_spends_nothing(candidate):
    store = SqlStore(STORE)
    recorder = store.recorder(candidate.made, {"notes": "abc"})
    for one in candidate.made.trials:  # all are begun, none has ended
        recorder.begin(TrialKey(one.scenario, one.number, one.seed))
    store.close()
    code, early = candidate.judged()
    assert (code, early["verdict"], early["candidate"]["trials"]) == (3, "INCONCLUSIVE", 0)
    assert {one["verdict"] for one in early["criteria"]} == {"INCONCLUSIVE"}
    assert [row[1] for row in looks()] == [0]
    with closing(sqlite3.connect(STORE)) as store, store:
        store.execute("UPDATE trial SET replaced = 1 WHERE run_id = 'next'")
    candidate.play(PLANNED)
    code, late = candidate.judged()
    assert (code, late["verdict"], late["level"]) == (0, "PASS", 0.05)


def test_a_pass_tells_which_other_runs_of_the_candidate_did_not(candidate):
    keep(run(played(1), run_id="older", model=card("older")), STORE)
    for name, model in (("try-1", "new"), ("try-2", "new"), ("base-2", "old")):
        keep(run(played(1), played(2), run_id=name, model=card(model)), STORE)
        code, told = candidate.judged(where=name)
        assert (code, "did not pass over" in str(told["remarks"])) == (3, False)
    assert candidate.cli("gate", "--baseline", "older", "--candidate", "try-1").code == 3
    candidate.play(PLANNED)
    code, told = candidate.judged()
    tried = [one for one in told["remarks"] if "Other runs of the candidate" in one]
    assert (code, [one.partition(":")[0] for one in tried]) == (
        0,
        ["Other runs of the candidate did not pass over old (2 INCONCLUSIVE)"],
    )


@pytest.mark.parametrize("width", [80, 70])
def test_no_limit_and_no_verdict_is_cut_in_a_narrow_terminal(candidate, width):
    candidate.play(PLANNED)
    Path("long.toml").write_text(f"{RULES}[budgets.classes]\nprocess-substitution = 33.25\n")
    view = judged("base", "next", Path("long.toml"), STORE, allow_simulated=True)
    console = Console(width=width, file=StringIO())
    render_verdict(view, console)
    told = console.file.getvalue()
    assert ("…" in told, "< 33.25" in told, "none, < 40" in told) == (False, True, True)
    assert max(map(len, told.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 40])
def test_no_figure_is_cut_where_the_terminal_is_too_narrow_for_the_table(candidate, width):
    candidate.play(PLANNED)
    view = judged("base", "next", Path("mine.toml"), STORE, allow_simulated=True)
    console = Console(width=width, file=StringIO())
    render_verdict(view, console)
    lines = console.file.getvalue().splitlines()
    told = " ".join(" ".join(lines).split())
    for line in view.lines:
        *figures, limit, n = (line.estimate, line.bounds, f"limit {line.limit}", line.n)
        shown = ", ".join(filter(None, (" ".join(figures).strip(), limit, n)))
        assert f"{line.name} {line.verdict} {shown}" in told
    assert max(map(len, lines)) <= width


def test_what_a_server_did_to_the_calls_of_a_model_is_told(candidate):
    candidate.play(PLANNED)
    left = MalformedCall("call-in-text", Blame.PARSER, "<tool_call>", "a whole call in hermes")
    cut = MalformedCall("cut-reply", Blame.SERVER, "I", "the server's limit")
    slip = MalformedCall("broken-json", Blame.MODEL, "{", "no end", 0)
    garbles = json.dumps([asdict(one) for one in (left, cut, slip)])
    store = sqlite3.connect(STORE)
    sql = "UPDATE turn SET garbles = ? WHERE number = 0 AND trial_id IN (SELECT id FROM trial WHERE"
    store.execute(f"{sql} run_id = 'next' AND number <= 5)", [garbles])
    store.commit()
    store.close()
    said = candidate.judged()[1]["remarks"]
    told = [one for one in said if "spoilt" in one]
    shown = candidate.cli("show", "next", "--details").out
    assert len(told) == 1
    assert told[0].startswith("The candidate: 10 of 131 calls tried were spoilt by another")
    assert "(template or parser 5, server 5): left as text" in told[0]
    assert "10 of 131 calls tried were spoilt by another than the model" in " ".join(shown.split())


def looks():
    store = sqlite3.connect(STORE)
    found = store.execute("SELECT number, trials, round(level, 4), verdict, baseline FROM look")
    rows = found.fetchall()
    store.close()
    return rows


def test_looks_at_a_quarter_half_and_all_of_a_run_share_one_level(candidate):
    levels = []
    for trials in (10, 20, PLANNED):
        candidate.play(trials)
        levels.append(candidate.judged()[1]["level"])
    assert levels == pytest.approx([0.00009, 0.0055, 0.0482], abs=0.0001)
    assert [row[:2] for row in looks()] == [(1, 10), (2, 20), (3, 40)]
    assert "Look 3 at this candidate" in candidate.judged()[1]["remarks"][-1]


def test_a_single_look_at_a_whole_run_has_the_whole_level_and_no_remark(candidate):
    candidate.play(PLANNED)
    code, said = candidate.judged()
    assert (code, said["level"], "Look" in " ".join(said["remarks"])) == (0, 0.05, False)


def test_asking_again_about_the_same_trials_costs_nothing_and_says_the_same(candidate):
    candidate.play(20)
    first, again = candidate.judged(), candidate.judged()
    assert (first, len(looks())) == (again, 1)


def test_other_rules_over_the_same_trials_are_told(candidate):
    candidate.play(PLANNED)
    candidate.judged()
    _, said = candidate.judged("other.toml")
    assert (said["level"], len(looks())) == (0.05, 2)
    assert "held against other rules before" in said["remarks"][-1]


def test_after_the_last_look_nothing_is_left(candidate):
    """Trials that were void are played again after the verdict."""
    candidate.play(PLANNED)
    candidate.judged()
    store = sqlite3.connect(STORE)
    store.execute("UPDATE look SET data = 'another'")
    store.commit()
    store.close()
    code, said = candidate.judged()
    assert (code, said["verdict"]) == (3, "INCONCLUSIVE")
    assert "Play a fresh run" in said["remarks"][-1]


@pytest.mark.parametrize(("trials", "code", "told"), [(39, 3, "counts as"), (40, 0, "is the same")])
def test_a_pass_of_a_run_that_may_grow_does_not_count_where_it_cannot_be_kept(
    candidate, trials, code, told
):
    candidate.play(trials)
    store = sqlite3.connect(STORE)
    store.execute("CREATE TRIGGER full BEFORE INSERT ON look BEGIN SELECT RAISE(IGNORE); END")
    store.commit()
    store.close()
    said = candidate.judged()
    assert (said[0], told in said[1]["remarks"][-1], looks()) == (code, True, [])


def test_the_verdicts_over_other_baselines_are_told(candidate):
    candidate.play(PLANNED)
    other = [played(number) for number in range(1, PLANNED + 1)]
    keep(run(*other, run_id="rerun", model=card("old")), STORE)
    first = candidate.judged()[1]["remarks"]
    said = candidate.cli(
        "gate", "--baseline", "rerun", "--candidate", "next", "--gate", "mine.toml", "--json"
    )
    told = [one for one in json.loads(said.out)["remarks"] if "another baseline" in one]
    assert not any("another baseline" in one for one in first)
    assert len(told) == 1
    assert "(base: PASS)" in told[0]


def test_of_a_candidate_without_a_trial_that_counts_nothing_is_said_of_worlds(candidate):
    candidate.play(PLANNED)
    with closing(sqlite3.connect(STORE)) as store, store:
        store.execute("UPDATE trial SET outcome = 'void' WHERE run_id = 'next'")
    told = " ".join(candidate.judged()[1]["remarks"])
    assert "The verdict is about no scenario" in told
    assert "No trial of the candidate counts: no margin can be held." in told
    assert not any(one in told for one in ("another --seed", "this scenario", "calls per trial"))
