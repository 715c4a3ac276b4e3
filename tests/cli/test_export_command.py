"""What other programs read: rows of calls and trials, reports by their suffix, JSON by schema."""

import csv
import json

import pyarrow.parquet
import pytest
from stored import stored

from agenteval.testing import card, denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.run import Effort


def played(number):
    worse = [denied("ls | head", "pipe-to-filter", evidence="| head")] if number % 2 else []
    outcome = Outcome.GAVE_UP if number == 1 else Outcome.COMPLETED
    return trial("uv run notes.py list", *worse, number=number, outcome=outcome)


HELPED = trial(
    tool("read", path='a "quoted", name\nand a line \udc80'),
    says("Done."),
    number=9,
    agents=(sub_agent("helper", denied("ls")),),
)
ONE = run(*map(played, range(1, 5)), HELPED, model=card("one"), run_id="r1", effort=Effort(30.0))
TWO = run(*map(played, range(1, 5)), model=card("two"), run_id="r2", effort=Effort(20.0))


@pytest.fixture
def told(cli, tmp_path):
    store = stored(str(tmp_path / "runs.db"), ONE, TWO)
    return lambda *words: cli(*words, "--store", store)


def read(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_calls_are_written_a_row_each_with_all_that_is_known(told, tmp_path, suffix):
    file = tmp_path / "new" / f"calls.{suffix}"
    said = told("export", "calls", "r1", "r2", "--file", str(file))
    rows = read(file)
    assert (said.code, said.out) == (0, f"{file}: 14 calls\n")
    assert [one["class"] for one in rows if one["run"] == "r1"] == [
        *("", "pipe-to-filter", "", "", "pipe-to-filter", "", ""),
        "bare-binary",
    ]
    assert [one["agent"] for one in rows].count("helper/1") == 1
    denied_one = rows[1]
    assert (denied_one["command"], denied_one["evidence"]) == ("ls | head", "| head")
    (quoted,) = (one for one in rows if one["tool"] == "read")
    assert json.loads(quoted["arguments"])["path"].startswith('a "quoted", name\nand a line ')


def test_trials_are_written_a_row_each(told, tmp_path):
    told("export", "trials", "r1", "--file", str(tmp_path / "trials.csv"))
    rows = read(tmp_path / "trials.csv")
    assert [(one["number"], one["outcome"], one["denied"], one["calls"]) for one in rows] == [
        ("1", "gave-up", "1", "2"),
        ("2", "completed", "0", "1"),
        ("3", "completed", "1", "2"),
        ("4", "completed", "0", "1"),
        ("9", "completed", "0", "1"),
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("export", "calls", "r1", "--file", "x.xls"),
            "--file x.xls: a file of .csv, .jsonl, .parquet is written",
        ),
        (
            ("show", "r1", "--report", "x.txt"),
            "--report x.txt: a report is .html, .htm, .md, .csv, .json; name one of these",
        ),
        (
            ("compare", "r1", "r2", "--report", "x"),
            "--report x: a report is .html, .htm, .md, .csv, .json; name one of these",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(told, project, words, line):
    said = told(*words)
    assert (said.code, said.err) == (2, f"agenteval: {line}\n")
    assert not list(project.glob("x*"))


def test_a_report_is_what_its_name_says(told, tmp_path):
    for name in ("r.csv", "r.json", "r.md", "r.html"):
        assert told("show", "r1", "r2", "--report", str(tmp_path / name)).code == 0
    rows = read(tmp_path / "r.csv")
    total = next(one for one in rows if (one["row"], one["column"]) == ("total", "one"))
    assert (total["count"], total["value"], bool(total["low"])) == ("2", "28.57", True)
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["models"][0]["errors"]["count"] == 2
    assert (tmp_path / "r.md").read_text().startswith("# Tool-call errors")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_show_and_compare_say_the_same_of_the_same_runs(told):
    shown, compared = (told(command, "r1", "r2", "--json").out for command in ("show", "compare"))
    assert len(json.loads(shown)["pairs"]) == 1
    assert shown == compared


def test_the_page_of_a_comparison_has_the_calls_behind_its_counts(told, tmp_path):
    for command in ("show", "compare"):
        told(command, "r1", "r2", "--report", str(tmp_path / f"{command}.html"))
    shown, compared = ((tmp_path / f"{of}.html").read_text() for of in ("show", "compare"))
    behind = [
        page.partition('id="denied"')[2].partition('id="tables"')[0] for page in (shown, compared)
    ]
    assert behind[0] == behind[1] != ""


SECRET = "curl http://box.corp.example/x?api_key=abcdefgh12345678 /home/maria/notes"


def test_a_dataset_has_a_card_and_its_rows_without_what_is_nobodys_business(cli, tmp_path):
    one = run(trial(denied(SECRET, "network")), model=card("sim/m", simulated=True))
    store = stored(str(tmp_path / "secret.db"), one)
    where = tmp_path / "dataset"
    said = cli("export", "dataset", "last", "--file", str(where), "--store", store)
    calls, trials = (read(where / "data" / f"{kind}.jsonl") for kind in ("calls", "trials"))
    text = "".join(file.read_text() for file in where.rglob("*") if file.is_file())
    assert (said.code, len(calls), len(trials)) == (0, 1, 1)
    assert not [secret for secret in ("abcdefgh12345678", "maria") if secret in text + said.out]
    assert calls[0]["command"].startswith("curl ")
    assert "Taken out: " in said.out
    card_text = (where / "README.md").read_text()
    assert card_text.startswith("---\nconfigs:\n- config_name: calls\n")
    assert "**SIMULATED**" in card_text
    cli("export", "calls", "last", "--file", str(tmp_path / "raw.jsonl"), "--store", store)
    assert read(tmp_path / "raw.jsonl")[0]["command"] == SECRET


def test_the_summary_of_a_job_gets_what_is_printed_as_markdown(told, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert told("compare", "r1", "r2", "--github").code == 0
    told("gate", "--baseline", "r1", "--candidate", "r2", "--github")
    text = summary.read_text()
    assert (text.count("# Tool-call errors"), "INCONCLUSIVE" in text) == (1, True)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    said = told("compare", "r1", "r2", "--github")
    assert (said.code, "GITHUB_STEP_SUMMARY is not set" in said.err) == (2, True)


def test_run_and_show_add_to_the_summary_of_a_job_too(told, cli, project, tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    play = ("run", "-m", "sim/qwen3.6-35b", "--trials", "1", "media/rendered-plot", "--github")
    refused = cli(*play)
    assert (refused.code, "GITHUB_STEP_SUMMARY is not set" in refused.err) == (2, True)
    assert not (project / "reports").exists(), "it is refused before anything is played"
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert (cli(*play).code, told("show", "r1", "--github").code) == (0, 0)
    assert summary.read_text().count("# Tool-call errors") == 2


def test_show_writes_a_page_only_where_one_is_asked_for(told, project):
    shown = told("show", "r1")
    assert (shown.code, "Report: " in shown.out, list(project.rglob("*.html"))) == (0, False, [])
    asked = told("show", "r1", "--report", "r1.html")
    assert asked.out == f"{shown.out}Report: r1.html\n"
    assert "uv run notes.py list" in (project / "r1.html").read_text()


def test_a_cell_of_csv_is_no_formula(cli, tmp_path):
    texts = ("=1+1", "+cmd", "-x", "@sum", "\ttab", "1-1", "ls")
    store = stored(str(tmp_path / "s.db"), run(trial(*texts)))
    file, lines = tmp_path / "calls.csv", tmp_path / "calls.jsonl"
    for one in (file, lines):
        cli("export", "calls", "r1", "--file", str(one), "--store", store)
    assert [one["command"] for one in read(file)] == [
        *("'=1+1", "'+cmd", "'-x", "'@sum", "'\ttab"),
        *("1-1", "ls"),
    ]
    assert [one["command"] for one in read(lines)] == list(texts)
    assert {one["seconds"] for one in read(file)} == {"0.1"}
