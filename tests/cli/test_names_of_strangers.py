"""A hostile value in every column of a store and every field of every log: what commands print."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hostile_names import NAME, moves, obeyed
from spoilt_store import NAMES, columns, names_in, spoil, whole_store

from agenteval.cli.output import step_summary

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import SAMPLES, claude

HOSTILE = f"{NAME}\nINJECTED"
KNOWN = {0, 1, 2, 3, 4, 5}  # exit codes
COMMANDS = (
    ("show",),
    ("show", "last"),
    ("show", "{one}", "{two}", "--details"),
    ("show", "{one}", "--report", "r.html"),
    ("compare", "{one}", "{two}", "--report", "r.md", "--github"),
    ("compare", "{one}", "{two}", "--report", "r.csv"),
    ("compare", "{one}", "{two}", "--stacks"),
    ("calls", "{one}"),
    ("transcript", "{one}", "{trial}"),
    ("export", "calls", "{one}", "--file", "calls.csv"),
    ("export", "trials", "{one}", "--file", "trials.csv"),
    ("export", "dataset", "{one}", "--file", "dataset"),
    ("trend", "--by", "version"),
    ("trend", "--openmetrics"),
    ("suggest", "{one}"),
    ("whatif", "{one}"),
    ("speed", "{one}"),
    ("harness", "verdicts", "{one}"),
    ("store", "check"),
    ("view", "--export", "pages"),
    ("gate", "--baseline", "{one}", "--candidate", "{two}", "--github", "--junit", "v.xml"),
)
TEXTS = {"transcript"}  # whose output has texts of several lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return whole_store(tmp_path_factory.mktemp("store"))


def faults(said: Any, command: tuple[str, ...]) -> list[str]:
    """What is wrong with what a command printed."""
    printed = said.out + said.err
    wrong = [*obeyed(said.out), *obeyed(said.err), *moves(printed)]
    if command[0] not in TEXTS:
        wrong += [line for line in printed.splitlines() if line.lstrip().startswith("INJECTED")]
    wrong += ["Traceback"] if "Traceback" in printed else []
    return wrong + ([] if said.code in KNOWN else [f"exit code {said.code}"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_a_line_that_a_name_began(command, cli, project, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    store = Path(shutil.copy(whole, project))
    for table, name in NAMES:
        spoil(store, table, name, HOSTILE)
    named = names_in(store)
    words = [named.get(word, word) for word in command]
    assert faults(cli(*words, "--store", "runs.db"), command) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_single_column_begins_a_line(command, cli, project, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    wrong = {}
    for table, name in columns(whole):
        for path in project.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        store = Path(shutil.copy(whole, project))
        spoil(store, table, name, HOSTILE)
        named = names_in(store)
        words = [named.get(word, word) for word in command]
        if told := faults(cli(*words, "--store", "runs.db"), command):
            wrong[f"{table}.{name}"] = told
    assert wrong == {}


@pytest.mark.parametrize("runner", ["", "true"])
def test_json_keeps_each_value_and_no_runner_obeys_it(runner, cli, project, whole, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", runner)
    store = Path(shutil.copy(whole, project))
    spoil(store, "run", "model", HOSTILE)
    spoil(store, "turn", "text", HOSTILE)
    listed = cli("show", "--json", "--store", "runs.db")
    shown = cli("transcript", "one", "notes#1", "--json", "--store", "runs.db")
    models = [one["model"] for one in json.loads(listed.out)["runs"]]
    texts = [turn["text"] for turn in json.loads(shown.out)["turns"]]
    assert (models, texts[-1]) == (
        [f"{HOSTILE}model-{one}" for one in ("two", "one")],
        f"{HOSTILE}Done.",
    )
    assert (obeyed(listed.out), obeyed(shown.out)) == ([], [])


def test_a_summary_beyond_what_github_takes_is_cut_at_a_line(project, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for _ in range(3):
        step_summary("| a | b |\n" * 50_000)
    written = (project / "summary.md").read_bytes()
    lines = {line for line in written.decode().splitlines() if line}
    assert len(written) <= 1 << 20
    assert lines == {
        "| a | b |",
        "Cut here: GitHub takes 1 MiB for each step. Use --report FILE.html for all of it.",
    }


ERRORS = (
    ("{name}",),
    ("show", "{name}"),
    ("show", "--store", "{name}"),
    ("show", "--since", "{name}"),
    ("scenarios", "show", "{name}"),
    ("scenarios", "new", "{name}"),
    ("allowlist", "lint", "{name}"),
    ("allowlist", "derive", "{name}"),
    ("classify", "{name}", "--allowlist", "demo"),
    ("classify", "{name}", "--allowlist", "demo", "--json"),
    ("run", "--model", "{name}"),
    ("run", "--model", "sim/moe", "--arm", "{name}"),
    ("gate", "--baseline", "{name}", "--candidate", "{name}"),
    ("ingest", "{name}"),
    ("ingest", "claude-code", "{name}"),
    ("import", "counts", "{name}"),
    ("explain", "{name}"),
    ("models",),
    ("models", "--json"),
    ("hook", "status"),
    ("hook", "install", "--for", "{name}", "--allowlist", "demo"),
)


@pytest.mark.parametrize("command", ERRORS, ids=" ".join)
def test_no_error_about_a_name_begins_a_line(command, cli, project, monkeypatch) -> None:
    name = HOSTILE.replace("\0", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(project))
    (project / "agenteval" / "hook").mkdir(parents=True)
    logged = {"at": HOSTILE, "model": HOSTILE, "verdict": HOSTILE}
    lines = (logged, {"at": HOSTILE, "event": HOSTILE, HOSTILE: HOSTILE})
    log = "".join(f"{json.dumps(line)}\n" for line in lines)
    (project / "agenteval" / "hook" / "calls.jsonl").write_text(log)
    models = {"models": {name: {"base_url": "http://127.0.0.1:9/v1", "model": name}}}
    (project / "agenteval.toml").write_text(tomli_w.dumps(models))
    said = cli(*(name if word == "{name}" else word for word in command))
    wrong = faults(said, ("transcript",) if command[0] == "classify" else command)
    assert (wrong, len(said.err.splitlines()) < 2) == ([], True), said


def variants(content: str) -> Iterator[str]:
    """The log once for each of its keys, with the hostile name before all texts of that key."""
    try:
        documents, joined = [json.loads(content)], ""
    except ValueError:
        documents, joined = [*map(json.loads, content.splitlines())], "\n"
    keys: dict[str, None] = {}
    _spoil_key(documents, None, keys)
    for key in keys:
        yield joined.join(json.dumps(_spoil_key(one, key, {})) for one in documents) + joined


def _spoil_key(value: Any, key: str | None, seen: dict[str, None], under: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _spoil_key(inner, key, seen, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_spoil_key(inner, key, seen, under) for inner in value]
    if not isinstance(value, str):
        return value
    seen[under] = None
    return f"{HOSTILE}{value}" if under == key else value


LOGS = {
    f"{name} {file}": (name, file, content)
    for name, file, content, _ in [*SAMPLES, ("claude-code", "c.jsonl", claude(), ())]
    if isinstance(content, str)
}


@pytest.mark.parametrize(("name", "file", "content"), LOGS.values(), ids=LOGS)
def test_no_field_of_a_log_begins_a_line(name, file, content, cli, project, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    folder = project / "x\n::add-mask::y\nINJECTED"
    for at, text in enumerate(variants(content)):
        (folder / f"{at}").mkdir(parents=True)
        (folder / f"{at}" / file).write_text(text)
    commands = (
        ("ingest", name, str(folder)),
        ("ingest", name, str(folder), "--allowlist", "demo"),
        ("show",),
        ("show", "last"),
        ("calls", "last"),
        ("trend", "--by", "version"),
        ("trend", "--openmetrics"),
    )
    told = [(one, faults(cli(*one, "--store", "s.db"), one)) for one in commands]
    assert [(command, wrong) for command, wrong in told if wrong] == []
