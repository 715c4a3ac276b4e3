"""What other rules would have made of stored runs, held against rescoring under those rules."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
from scripted_server import answers, bash, scripted

GOOD = "uv run scripts/mail.py search"
PIPES = (GOOD, f"{GOOD} | head -2", f"{GOOD} | head -3", GOOD)
LOOKS = (GOOD, GOOD, "rm -r /tmp/x", GOOD)
MORE = 'extends = "mail"\n[bash]\nconstructs = ["pipe"]\nallow = ["head *"]\n'


def says(commands):
    def script(messages):
        done = answers(messages)
        return bash(commands[done]) if done < len(commands) else "done"

    return script


@pytest.fixture
def runs(cli, project):
    ids = []
    for name, commands in (("pipes", PIPES), ("looks", LOOKS)):
        with scripted(says(commands)) as url:
            (project / "agenteval.toml").write_text(
                f'[models.{name}]\nbase_url = "{url}"\nmodel = "m"\n'
            )
            done = cli("run", "-m", name, "mail/draft", "--trials", "2", "--arm", "strict")
        assert done.code == 0, done.err
        ids.append(json.loads(cli("show", "last", "--json").out)["runs"][0]["id"])
    return ids


def whatif(cli, *words):
    return json.loads(cli("whatif", *words, "--json").out)


def errors(rate):
    return round(rate["per_100"] * rate["n"] / 100)


def test_the_prediction_is_what_rescoring_under_these_rules_gives(cli, project, runs) -> None:
    found = whatif(cli, *runs)
    assert (errors(found["now"]["rate"]), found["now"]["rate"]["n"]) == (6, 16)
    (one,) = [one for one in found["relaxed"] if one["allow"] == ["head *"]]
    assert (one["constructs"], errors(one["rate"])) == (["pipe"], 2)
    assert errors(one["first_changes_only"]) == 4  # the second pipe follows upon the first
    assert [errors(model["rate"]) for model in one["models"]] == [0, 2]
    assert one["flips"] == [["looks", "pipes"]]
    (project / "more.toml").write_text(MORE)
    cli("rescore", *runs, "--allowlist", "more.toml")
    calls = [json.loads(cli("calls", run, "--denied", "--json").out) for run in runs]
    assert [len(denied["calls"]) for denied in calls] == [0, 2]


def test_the_worst_that_is_let_through_stands_first(cli, runs) -> None:
    told = cli("whatif", *runs).out
    assert "allow rm: " in told
    assert "lets through (destructive) 2 times: rm -r /tmp/x" in told
    assert "looks then makes" not in told
    assert "pipes then makes fewer than looks" in told
    assert "the order of the models stays" in told
    assert re.search(r"^ {8}pipes: 50\.00 \[.*\] n=8 -> 0\.00 \[.*\] n=8$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("budget", "code", "told"),
    [("40", 0, "no rule more"), ("13", 0, "allow `pipe` into head: "),
     ("0", 0, "allow `pipe` into head, rm: ")],
)  # fmt: skip
def test_the_smallest_set_for_a_budget(budget, code, told, cli, runs) -> None:
    done = cli("whatif", *runs, "--budget", budget)
    assert (done.code, told in done.out) == (code, True), done.out


def test_a_budget_that_no_rule_reaches_is_said_so(cli, project) -> None:
    with scripted(says((GOOD, "python3 -c 'x'"))) as url:
        words = ("--model", "m", "--base-url", url, "mail/draft", "--trials", "1")
        assert cli("run", *words, "--arm", "strict").code == 0
    done = cli("whatif", "last", "--budget", "0")
    assert (done.code, "no set of rules has 0 errors" in done.out) == (1, True)


def test_rules_of_another_harness_are_not_relaxed(cli, project, runs) -> None:
    (project / "opencode.json").write_text('{"permission": {"bash": {"*": "deny"}}}')
    done = cli("whatif", runs[0], "--allowlist", "opencode.json")
    assert (done.code, "only our own can be relaxed" in done.err) == (2, True)


def test_sessions_out_of_logs_are_asked_too(cli, project) -> None:
    texts = ("git status | head -3", "git status", "ls")
    functions = [{"name": "bash", "arguments": json.dumps({"command": text})} for text in texts]
    calls = [{"id": str(at), "type": "function", "function": one}
             for at, one in enumerate(functions)]  # fmt: skip
    said = [{"role": "assistant", "content": "", "tool_calls": [call]} for call in calls]
    (project / "chat.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    assert cli("ingest", "openai", "chat.jsonl", "--allowlist", "demo").code == 0
    found = whatif(cli, "last", "--allowlist", "demo")
    sets = [(one["constructs"], one["allow"], errors(one["rate"])) for one in found["relaxed"]]
    assert (errors(found["now"]["rate"]), found["now"]["rate"]["n"]) == (2, 3)
    assert sets == [([], ["ls *"], 1), (["pipe"], ["head *"], 1)]
    assert " 0 of 3 calls" in cli("rescore", "last", "--allowlist", "demo").out
    refused = cli("whatif", "last")
    assert (refused.code, "was read from logs: name what judges it" in refused.err) == (2, True)


def test_a_list_that_judged_no_trial_which_counts_is_not_missed(cli, project) -> None:
    with scripted(says(PIPES)) as url:
        served = ("-m", "m", "--base-url", url, "--trials", "1", "--arm", "strict")
        cli("run", *served, "mail/draft", "notes/append")
    with closing(sqlite3.connect(project / "reports" / "agenteval.db")) as store, store:
        store.execute("DELETE FROM trial WHERE scenario = 'notes/append'")
    asked = [cli(command, "last") for command in ("whatif", "suggest", "rescore")]
    assert [one.code for one in asked] == [0, 0, 0]
    assert not any("not there as it was" in one.out + one.err for one in asked)
