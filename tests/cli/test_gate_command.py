"""May the candidate replace the baseline? As a user and his CI ask it."""

import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from stored import stored as write_runs
from typer.main import get_command

from agenteval.cli.app import app
from agenteval.cli.options import GIVEN_STORE, at_store
from agenteval.report.gate import reach_told
from agenteval.report.tables import READ_FROM_WORDS
from agenteval.stats.promotion import OutOfReach
from agenteval.store.sql import SqlStore
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.run import (
    BROKEN_ARGUMENTS,
    FITTED,
    FREE,
    GRAMMAR,
    INVENTED_TOOL,
    Effort,
    Options,
)

RULES = """
[margin]
points = 20
completed = 40
[budgets]
errors = 40
stalled = 40
crashed = 40
void = 40
[never]
classes = ["heredoc"]
below = 40
[minimum]
trials = 10
calls = 40
[plan]
looks = 5
"""
STORE = "reports/agenteval.db"


def keep(made, where=STORE):
    write_runs(str(where), made)


def played(number, *, bad=False, scenario="notes"):
    slips = [denied("ls -la"), denied("ls | head", "pipe-to-filter")] if bad or number == 3 else []
    steps = [*slips, "uv run notes.py list", "uv run notes.py add", "uv run notes.py show"][:4]
    return trial(*steps, number=number, scenario=scenario)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two runs that are alike and a bad one, in the same worlds."""
    where = tmp_path_factory.mktemp("store") / "runs.db"
    void = trial(number=16, ending=Ending.BROKEN, outcome=Outcome.VOID, reason="HTTP 500")
    alike = [played(number) for number in range(1, 16)]
    new = card("new")
    keep(run(*alike, run_id="base", model=card("old"), effort=Effort(60.0)), where)
    keep(run(*alike, void, run_id="alike", model=new, started="2026-01-03T00:00:00Z"), where)
    keep(run(*(played(number, bad=True) for number in range(1, 16)), run_id="bad"), where)
    return where


@pytest.fixture
def gate(cli, project, stored):
    """The command over the stored runs."""
    (project / "mine.toml").write_text(RULES)
    (project / STORE).parent.mkdir()
    shutil.copy(stored, project / STORE)

    def judge(candidate, *options, baseline="base", rules="mine.toml"):
        return cli(
            "gate", "--baseline", baseline, "--candidate", candidate, "--gate", rules, *options
        )

    return judge


def test_the_exit_code_is_the_verdict(gate, project):
    (project / "strict.toml").write_text("[margin]\npoints = 1\n")
    said = [gate("alike"), gate("bad"), gate("alike", rules="strict.toml")]
    ends = [" ".join(one.out.split("\n\n")[-1].split()) for one in said]
    verdicts = [(one.code, end.split()[0]) for one, end in zip(said, ends, strict=True)]
    assert verdicts == [(0, "PASS"), (1, "FAIL"), (3, "INCONCLUSIVE")]
    meanings = ("may replace", "must not replace", "not known yet")
    assert [meaning in end for meaning, end in zip(meanings, ends, strict=True)] == [True] * 3


def test_each_criterion_is_printed_with_estimate_bounds_limit_n_and_verdict(gate):
    said = gate("alike")
    row = next(line for line in said.out.splitlines() if line.startswith("margin"))
    told = (*row.split()[:2], *row.split()[4:])
    assert told == ("margin", "+0.00", "<", "20", "2/46", "calls", "PASS")
    assert "Of the candidate, 1 of 16 trials is void" in said.out
    assert "Goal reached: new 100.0% [79.6, 100.0] n=15, old (baseline) 100.0%" in said.out


def test_the_runs_that_were_taken_are_named(gate, project):
    said = gate("new", "--report", "page.html", baseline="old")
    told = "Runs: alike over base."
    assert told in " ".join(said.out.split())
    assert told in (project / "page.html").read_text()


def test_what_a_larger_run_could_pass_is_not_too_close_to_its_limit(gate, project):
    (project / "crashes.toml").write_text("[margin]\npoints = 90\n[budgets]\ncrashed = 5\n")
    for name in ("one", "other"):
        made = trial(*["uv run notes.py list"] * 3, number=1)
        keep(run(made, run_id=name, model=card(name)), project / STORE)
    told = " ".join(gate("one", baseline="other", rules="crashes.toml").out.split())
    assert "- crashed: 3 commands cannot pass, even without a fault: " in told
    assert "too close to the limit" not in told


def test_what_is_missing_is_told_in_its_number_and_a_long_name_is_broken_last(gate, project):
    (project / "more.toml").write_text(f"{RULES}\n".replace("trials = 10", "trials = 16"))
    lost = trial(scenario="lost", ending=Ending.BROKEN, outcome=Outcome.VOID, reason="HTTP 500")
    made = [*map(played, range(1, 16)), lost]
    keep(run(*made, run_id="lost", model=card("new")), project / STORE)
    said = gate("lost", rules="more.toml").out
    assert "- minimum.trials: 1 more trial." in said
    assert "- minimum.scenarios: 1 more scenario." in said
    rows = [line.split()[0] for line in said.splitlines() if line.startswith("m")]
    assert {"margin.completed", "minimum.scenarios"} <= {*rows}


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("my runs.db", "`agenteval show --store 'my runs.db'` lists all"),
        (STORE, f"`agenteval show --store {STORE}` lists all"),
        ("", "`agenteval show` lists all"),
    ],
)
def test_a_command_that_is_proposed_has_the_store_that_was_given(gate, project, store, told):
    (project / "my runs.db").write_bytes((project / STORE).read_bytes())
    said = gate("alike", *(("--store", store) if store else ()), baseline="nope")
    assert (said.code, told in said.err) == (2, True)


def test_a_url_with_a_user_is_never_proposed() -> None:
    GIVEN_STORE.set("postgresql://me:secret@HOST/runs")
    assert at_store("see `agenteval show`") == "see `agenteval show`"


def test_every_command_that_has_a_store_is_known_to_what_proposes_it() -> None:
    GIVEN_STORE.set("x.db")
    found = [*with_a_store(get_command(app), "agenteval")]
    assert len(found) > 20
    assert [one for one in found if at_store(one) != f"{one} --store x.db"] == []


def with_a_store(command, name):
    for each, under in getattr(command, "commands", {}).items():
        yield from with_a_store(under, f"{name} {each}")
    if any("--store" in one.opts for one in command.params):
        yield name


def test_where_a_trial_ended_by_its_words_the_gate_says_how_well_they_are_read(gate, project):
    said = trial("uv run notes.py list", number=15, outcome=Outcome.CLAIMED_DONE)
    claims = [*map(played, range(1, 15)), said]
    keep(run(*claims, run_id="claims", model=card("new")), project / STORE)
    told = [" ".join(gate(one).out.split()) for one in ("claims", "alike")]
    assert [READ_FROM_WORDS in one for one in told] == [True, False]


def test_last_is_the_newest_run_and_a_file_is_another_store(gate, project):
    (project / "kept.db").write_bytes((project / STORE).read_bytes())
    keep(run(played(1), run_id="newer", started="2026-01-04T00:00:00Z"))
    document = json.loads(gate("last", "--json", baseline="kept.db").out)
    assert (document["baseline"]["id"], document["candidate"]["id"]) == ("alike", "newer")


def test_the_verdict_is_written_as_json_markdown_and_junit(gate, project):
    said = gate("bad", "--out", "out", "--junit-xml", "ci/junit.xml", "--markdown", "s.md")
    document = json.loads((project / "out" / "gate.json").read_text())
    suite = ET.parse(project / "ci" / "junit.xml").getroot().find("testsuite")
    failing_cases = [case.get("name") for case in suite if case.find("failure") is not None]
    told = (said.code, document["schema"], document["verdict"], document["simulated"])
    assert told == (1, "agenteval.gate/2", "FAIL", False)
    assert (suite.get("failures"), failing_cases) == (str(len(failing_cases)), failing_cases)
    assert "margin" in failing_cases
    assert (project / "s.md").read_text().startswith("# FAIL\n")
    assert (project / "out" / "gate.md").read_text() == (project / "s.md").read_text()
    assert (project / "out" / "gate.xml").read_text() == (project / "ci" / "junit.xml").read_text()


# What Jenkins and GitLab read: of each element its children and its attributes.
JUNIT = {
    "testsuites": ({"testsuite"}, {"name", "tests", "failures", "errors"}),
    "testsuite": (
        {"properties", "testcase", "system-out"},
        {"name", "tests", "failures", "errors"},
    ),
    "properties": ({"property"}, set()),
    "property": (set(), {"name", "value"}),
    "testcase": ({"failure", "error", "system-out"}, {"classname", "name", "time"}),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "system-out": (set(), set()),
}


def test_the_report_of_both_runs_has_the_verdict_and_its_criteria_on_top(gate, project):
    said = gate("bad", "--report", "both.html")
    page = (project / "both.html").read_text()
    order = ["FAIL</span>", 'id="criteria"', "<th>margin</th>", 'id="standing"', 'id="signature"']
    places = [page.find(one) for one in order]
    assert (said.code, -1 not in places, places) == (1, True, sorted(places))
    assert page.count('<details class="trial">') == 30
    assert "FAIL: test-model over old" in page.split("</title>")[0]


def test_a_baseline_of_another_store_has_no_transcripts_in_the_report(gate, project):
    (project / "kept.db").write_bytes((project / STORE).read_bytes())
    keep(run(played(1), run_id="newer", started="2026-01-04T00:00:00Z"))
    (project / STORE).unlink()
    keep(run(*map(played, range(1, 16)), run_id="alone", model=card("new")))
    said = gate("alone", "--report", "alone.html", baseline="kept.db")
    page = (project / "alone.html").read_text()
    assert (said.code, page.count('<details class="trial">')) == (0, 15)


@pytest.mark.parametrize("candidate", ["alike", "bad", "strange"])
def test_the_junit_file_has_what_a_ci_reads_and_nothing_else(gate, project, candidate):
    strange = card("a\x1b[31m.model & <co>")
    keep(run(*(played(number) for number in range(1, 16)), run_id="strange", model=strange))
    gate(candidate, "--junit-xml", "junit.xml")
    root = ET.parse(project / "junit.xml").getroot()
    wrong = [
        (each.tag, [child.tag for child in each], dict(each.attrib))
        for each in root.iter()
        if {child.tag for child in each} - JUNIT[each.tag][0]
        or set(each.attrib) - JUNIT[each.tag][1]
    ]
    cases = list(root.iter("testcase"))
    told = [each.text for each in root.iter() if each.tag in {"failure", "error"}]
    assert (wrong, root.get("tests")) == ([], str(len(cases)))
    assert {case.get("classname") for case in cases} == {"agenteval.gate"}
    assert all(" over old: " in text for text in told)


def test_json_is_printed_for_scripts(gate):
    document = json.loads(gate("alike", "--json").out)
    margin, candidate = document["criteria"][0], document["candidate"]
    told = [margin[key] for key in ("name", "estimate", "n", "verdict")]
    assert told == ["margin", 0.0, 46, "PASS"]
    assert (candidate.pop("completed")["count"], document["calls_left_out"]) == (15, [0, 0])
    named = {"id": "alike", "model": "new", "simulated": False, "arm": ""}
    assert candidate == {**named, "trials": 15, "void": 1, "calls": 46}


def test_simulated_runs_are_refused_unless_they_are_allowed_and_then_marked(gate, project):
    toys = [played(number) for number in range(1, 16)]
    keep(run(*toys, run_id="toy", model=card("sim/toy", simulated=True)))
    refused = gate("toy")
    allowed = gate("toy", "--allow-simulated", "--out", "out")
    marked = [
        "SIMULATED" in text
        for text in (allowed.out, *((project / "out" / f"gate.{kind}").read_text()
                                    for kind in ("json", "md", "xml")))
    ]  # fmt: skip
    told = refused.err.startswith("agenteval: toy: simulated, which says nothing about a real")
    assert (refused.code, told, allowed.code, marked) == (2, True, 0, [True] * 4)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"protocol": "9"}, ": prompts (1 / 9). Run one of them again"),
        ({"max_turns": 3}, ": turn limit (20 / 3). Run one of them again"),
        (
            {"taxonomy": "9", "policies": {"notes": "other"}},
            ": taxonomy version (1 / 9), allow lists (notes). `agenteval rescore ",
        ),
    ],
)
def test_runs_judged_by_different_rules_are_no_pair(gate, settings, complaint):
    keep(run(played(1), run_id="other", **settings))
    said = gate("other")
    assert (said.code, complaint in said.err) == (2, True)


def test_what_else_differs_is_said_and_not_forbidden(gate):
    long = replace(played(1, scenario="other"), calls=played(1).calls * 3)
    keep(run(long, run_id="other", sandbox="none", complete=False, trials_planned=9))
    said = " ".join(gate("other").out.split())
    assert [
        "differ in more than the model: sandbox (bubblewrap / none), scenarios." in said,
        "WITHOUT A SANDBOX" in said,
        "run is not complete: 1 of 9 trials." in said,
        "have no scenario in common: no margin can be held between them" in said,
        "The candidate makes 9.0 calls per trial, the baseline 3.1" in said,
    ] == [True] * 5


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--baseline", "base"], "give --baseline RUN and --candidate RUN"),
        (["--baseline", "base", "--candidate", "base"], "are the same run (base)"),
        (["--baseline", "base", "--candidate", "nope"], "no run 'nope' in "),
        (["--baseline", "base", "--candidate", "bad", "--gate", "no.toml"], "no.toml: cannot be"),
        (["--baseline", "base", "--candidate", "bad", "--store", "no.db"], "no.db: no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(gate, cli, arguments, complaint):
    said = cli("gate", *arguments)
    assert (said.code, complaint in said.err, said.err.count("\n")) == (2, True, 1)


def test_a_gate_toml_to_change_is_written_once(cli, project):
    first, second = cli("gate", "--init"), cli("gate", "--init")
    assert (first.code, second.code, "gate.toml is there already" in second.err) == (0, 2, True)
    assert "[margin]" in (project / "gate.toml").read_text()


@pytest.mark.slow
def test_explain_says_what_each_line_means_and_whom_it_passes(gate, cli):
    said = cli("gate", "--explain", "--baseline", "base", "--gate", "mine.toml")
    words = " ".join(said.out.split())
    assert [
        said.code == 0,
        "margin: at most 20 errors per 100 calls more than the baseline" in words,
        "never.heredoc: one such error of any agent fails" in words,
        "the same at the margin twice as bad" in words,
        "15 trials of 1 scenario, " in words,
    ] == [True] * 5


@pytest.mark.slow
def test_explain_is_json_for_scripts(gate, cli):
    said = cli("gate", "--explain", "--baseline", "base", "--gate", "mine.toml", "--json")
    document = json.loads(said.out)
    same = document["candidates"]["the same"]["criteria"]["margin"]
    told = (document["schema"], document["pairs"], same["passed"]["n"])
    assert told == ("agenteval.explain/1", 400, 400)


@pytest.mark.slow
def test_explain_without_a_run_takes_a_published_one(cli):
    said = " ".join(cli("gate", "--explain").out.split())
    assert "120 trials of 120 scenarios" in said
    assert "gate.toml that agenteval ships" in said


@pytest.mark.slow
@pytest.mark.timeout(900)  # two plans, of minutes where others want the processor
def test_plan_tells_trials_calls_and_hours(gate, cli):
    said = json.loads(cli("plan", "--baseline", "base", "--margin", "6", "--json").out)
    told = " ".join(cli("plan", "--baseline", "base", "--ratio", "2").out.split())
    assert 20 < said["trials"] < min(500, said["calls"])
    assert said["about"] == "these"
    assert (said["calls_per_minute"], said["hours"]) == (46.0, said["calls"] / 46.0 / 60)
    assert said["if_half_as_good"]["trials"] > 2 * said["trials"]
    parts = ("is no worse by 2 times:", "calls per minute", "worse by half of that:")
    assert [part in told for part in parts] == [True] * 3


def table(project, lines):
    (project / "t.csv").write_text("\n".join(["model,scenario,trial,calls,class,errors", *lines]))
    return str(project / "t.csv")


@pytest.mark.slow
def test_a_table_of_counts_by_scenario_and_trial_can_be_the_baseline(gate, cli, project):
    lines = [f"m,notes,{at},4,bare-binary,{int(at < 3)}" for at in range(15)]
    baseline = cli("import", "counts", table(project, lines)).out.split()[0]
    judged = gate("alike", baseline=baseline)
    refused = gate(baseline, baseline="base")
    planned = cli("plan", "--baseline", baseline, "--margin", "20")
    explained = " ".join(cli("gate", "--explain", "--baseline", baseline).out.split())
    words = " ".join(judged.out.split())
    assert [
        "The baseline is a table of counts" in words,
        "met no world in common" in words,
        (refused.code, "counts of a table; how its trials ended is not known" in refused.err),
        "How long that takes is not known" in planned.out,
        re.findall(r"([a-z]+) \d+ / \d+ ", explained),
    ] == [True, True, (2, True), True, ["margin", "errors", "gate"]]


def test_a_table_that_does_not_say_what_belongs_together_is_refused_in_one_line(gate, cli, project):
    found = cli("import", "counts", table(project, ["m,,,40,bare-binary,4"])).out.split()[0]
    said = [gate("alike", baseline=name) for name in (found, "t.csv")]
    assert [(one.code, one.err.count("\n")) for one in said] == [(2, 1)] * 2
    assert "does not name the scenario and trial of each line" in said[0].err
    assert "`agenteval import counts t.csv` gives it an id" in said[1].err


def test_what_a_run_is_too_small_to_pass_is_told_by_the_gate_and_before_it(gate, cli, project):
    (project / "mine.toml").write_text("[margin]\npoints = 20\n[budgets]\nstalled = 5\n")
    told = " ".join(gate("alike").out.split())
    explain = ("gate", "--explain", "--baseline", "base", "--gate", "mine.toml")
    explained = " ".join(cli(*explain).out.split())
    reach = "16 trials cannot pass, even without a fault: 59 could; a new run of about"
    assert f"- stalled: {reach}" in told
    assert "whatever the candidate does: - margin.completed: 15 trials cannot pass" in explained


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--margin", "3"], "give --baseline RUN and either"),
        (["--baseline", "base"], "give --baseline RUN and either"),
        (["--baseline", "base", "--margin", "-3"], "--margin -3: points per 100 calls"),
        (["--baseline", "base", "--ratio", "0.5"], "--ratio 0.5: above 1"),
        (["--baseline", "still", "--margin", "3"], "still: made no tool calls"),
        (["--baseline", "clean", "--ratio", "2"], "clean: made no errors"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(gate, cli, arguments, complaint):
    keep(run(trial(), run_id="still"))
    keep(run(trial("uv run notes.py list"), run_id="clean"))
    said = cli("plan", *arguments)
    assert (said.code, complaint in said.err) == (2, True)


@pytest.mark.slow
def test_a_margin_too_narrow_for_any_run_is_told(gate, cli):
    assert "ask for a wider one" in cli("plan", "--baseline", "base", "--margin", "0.1").out


def test_a_trend_of_nothing_but_simulated_runs_says_that_they_are_left_out(cli, project):
    (project / STORE).parent.mkdir()
    keep(run(played(1), run_id="sim", model=card("sim/old", simulated=True)), project / STORE)
    asked = "--simulated asks for them"
    told = [cli("trend", "--by", "model", *option).out for option in ((), ("--simulated",))]
    assert [asked in one for one in told] == [True, False]
    assert told[1].startswith("sim/old ")


SIM = ("-m", "sim/qwen3.5-27b", "--trials", "5", "media/rendered-plot")


@pytest.mark.slow
def test_a_gate_ends_a_run_as_soon_as_its_verdict_is_certain(cli, project):
    (project / "wide.toml").write_text("[margin]\npoints = 90\ncompleted = 90\n[plan]\nlooks = 5\n")
    cli("run", *SIM)
    base = cli("show").out.split()[0]
    gate = ("--gate", "wide.toml", "--baseline", base, "--allow-simulated")
    said, quiet = cli("run", *SIM, *gate), cli("run", *SIM, *gate, "--json")
    listed = cli("show").out.splitlines()[0]
    judged = cli("gate", "--baseline", base, "--candidate", "last", "--allow-simulated",
                 "--gate", "wide.toml")  # fmt: skip
    words, verdict = " ".join(said.out.split()), said.out.splitlines()[-2]
    told = re.search(r"after (\d) of 5 trials. Stopped early: (\d) of 5 trials", verdict)
    run = json.loads(quiet.out)["runs"][0]
    assert (said.code, quiet.code, "not finished" in listed) == (0, 0, False)
    assert f"over {base}: PASS SIMULATED at look" in verdict
    assert int(told[1]) + int(told[2]) == 5
    assert "PASS; the run ends here" in said.err
    assert "a gate ended the run at look" in words
    assert f"which saved {told[2]} (" in words
    assert (run["trials_saved"], run["looks"][-1]["verdict"]) == (int(told[2]), "PASS")
    assert f"over {base}: PASS SIMULATED" in quiet.err
    assert "was looked at" in " ".join(judged.out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "code", "verdict"),
    [
        ("[margin]\npoints = 90\n[minimum]\ntrials = 99\n", 3, "INCONCLUSIVE"),
        ("[margin]\npoints = 90\n[never]\nclasses = ['blocked-path']\n", 1, "FAIL"),
    ],
)
def test_the_exit_code_of_a_watched_run_is_the_verdict_of_its_gate(
    cli, project, rules, code, verdict
):
    (project / "mine.toml").write_text(rules)
    cli("run", *SIM)
    said = cli("run", "-m", "sim/qwen3.5-122b", *SIM[2:], "--gate", "mine.toml",
               "--baseline", "last", "--allow-simulated")  # fmt: skip
    assert (said.code, f": {verdict} SIMULATED at look" in said.out) == (code, True)
    small = "this run can never PASS. minimum.trials: 5 trials cannot pass, even without a fault"
    assert (small in said.err) == (verdict == "INCONCLUSIVE")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--gate", "wide.toml"], "--gate and --baseline belong together"),
        (["--gate", "wide.toml", "--baseline", "base"], "simulated, which says nothing"),
        (["--gate", "no.toml", "--baseline", "base"], "no.toml: cannot be read"),
        (
            ["--gate", "wide.toml", "--baseline", "base", "--allow-simulated"],
            "are runs of unlike arms",
        ),
    ],
)
def test_a_run_that_no_gate_can_judge_does_not_begin(gate, cli, project, options, complaint):
    (project / "wide.toml").write_text("[margin]\npoints = 90\n")
    said = cli("run", *SIM, *options)
    assert (said.code, complaint in said.err) == (2, True)
    assert "sim-qwen3.5" not in cli("show").out


def asked(arm: str, variant: str = "five") -> dict[str, object]:
    options = Options(
        ["notes"], ["m"], None, 1, 7, "4", 20, arm, variant, "start", "0", None, prefork=False
    )
    return {"options": options, "protocol": f"{arm}/1, rules {variant}"}


def test_runs_of_unlike_arms_are_judged_only_where_that_is_asked_for(gate):
    toys = [played(number) for number in range(1, 16)]
    keep(run(*toys, run_id="taught", model=card("a"), **asked("taught/tools")))
    keep(run(*toys, run_id="easy", model=card("b"), **asked("strict", "all")))
    refused = gate("easy", baseline="taught")
    assert refused.code == 2
    assert refused.err.startswith(
        "agenteval: taught and easy are runs of unlike arms: arm (taught/tools / strict), prompt "
        "variant (five / all). Run one of them again as the other was, or give --across-arms"
    )
    judged = gate("easy", "--across-arms", "--json", baseline="taught")
    document = json.loads(judged.out)
    arms = [document[side]["arm"] for side in ("baseline", "candidate")]
    assert arms == ["taught/tools, rules five", "strict, rules all"]
    assert any("of unlike arms: arm (taught/tools / strict)" in one for one in document["remarks"])
    told = gate("easy", "--across-arms", baseline="taught").out
    assert "Arm: strict, rules all." in told


def test_classes_that_one_server_keeps_its_model_from_are_left_out_where_that_is_asked_for(
    gate, cli
):
    """The model without a grammar makes one malformed call a trial, and else the same errors."""
    worse = [denied("uv run notes.py", BROKEN_ARGUMENTS), "uv run notes.py list"]
    masked, free = card("masked", seen={GRAMMAR: FITTED}), card("free", seen={GRAMMAR: FREE})
    keep(run(*(played(n) for n in range(1, 16)), run_id="kept", model=masked))
    keep(run(*(trial(*worse, number=n) for n in range(1, 16)), run_id="free", model=free))
    refused = gate("free", baseline="kept")
    keeps = f"a grammar of one server keeps its model from {INVENTED_TOOL} and {BROKEN_ARGUMENTS}"
    assert (refused.code, keeps in refused.err) == (2, True)

    judged = json.loads(gate("free", "--across-arms", "--json", baseline="kept").out)
    margin = next(one for one in judged["criteria"] if one["name"] == "margin")
    assert (margin["count"], margin["n"], margin["estimate"]) == (0, 30, pytest.approx(-2 / 46))
    assert f"Left out of all errors: {INVENTED_TOOL} and {BROKEN_ARGUMENTS}" in " ".join(
        judged["remarks"]
    )
    (pair,) = json.loads(cli("compare", "kept", "free", "--across-arms", "--json").out)["pairs"]
    assert pair["difference"] == pytest.approx(-margin["estimate"])


@pytest.mark.parametrize(
    ("of", "enough", "told"),
    [
        (("trials", 1), 59, "1 trial cannot pass, even without a fault: 59 could"),
        (("calls", 1200), float("inf"), "1,200 calls cannot pass, and no number would"),
    ],
)
def test_what_is_too_small_is_told_with_its_number(of, enough, told):
    assert reach_told(OutOfReach("stalled", of[1], of[0], enough)) == told


def test_void_trials_that_were_played_again_are_told_by_the_gate_and_by_show(gate, cli, project):
    store = SqlStore(str(project / STORE))
    store.set_aside("alike", voids=True)
    store.close()
    told = "1 void trial was played again (--retry-void) and left out"
    said = json.loads(gate("alike", "--json").out)["remarks"]
    assert [told in " ".join(said), "The candidate: 1 void" in said[-1]] == [True, True]
    assert told in " ".join(cli("show", "alike").out.split())


@pytest.mark.slow
def test_a_plan_below_the_minimum_of_the_gate_file_says_so(gate, cli, project):
    text = (project / "mine.toml").read_text()
    told = []
    for calls in (0, 9000):
        (project / "gate.toml").write_text(text.replace("calls = 40", f"calls = {calls}"))
        said = cli("plan", "--baseline", "base", "--margin", "20")
        told.append("[minimum] of 10 trials and 9,000 calls" in " ".join(said.out.split()))
    assert told == [False, True]
