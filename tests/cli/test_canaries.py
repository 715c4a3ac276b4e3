"""Keys never leave: what stands where a user has keys is in nothing that a command leaves."""

import json
from collections.abc import Sequence

import pytest
from canaries import CANARIES, KEY, VARIABLES, Place, canaries_in, repeating, texts_of

RUN = ("run", "data/pantry-audit", "-m", "m", "--trials", "1", "--max-turns", "3")
STORE = ("--store", "s.db")
AFTERWARDS = (
    ("models",),
    ("show", "last", *STORE, "--report", "r.html", "--details"),
    ("show", "last", *STORE, "--report", "r.md"),
    ("show", "last", *STORE, "--json"),
    ("calls", "last", *STORE),
    ("transcript", "last", "data/pantry-audit#1", *STORE),
    ("export", "calls", "last", "--file", "calls.csv", *STORE),
    ("export", "trials", "last", "--file", "trials.jsonl", *STORE),
    ("export", "dataset", "last", "--file", "dataset", *STORE),
    ("speed", "-m", "m", "--concurrency", "1", "--requests", "1"),
    ("run", "--resume", "last", *STORE),
)
SECRET = CANARIES["HF_TOKEN"]
EVERY = " ".join(CANARIES.values())
COMMAND = f"curl -H 'Authorization: Bearer {SECRET}' x; export A={KEY}; echo {EVERY}"
ENVIRONMENT = {name: value for name, value in CANARIES.items() if name in VARIABLES}
SHELLS = """#!/usr/bin/env python3
import os, pathlib
pathlib.Path("environment").write_text(repr(dict(os.environ)))
"""


def played(place: Place, url: str, *more: str, options: Sequence[str] = ()) -> str:
    table = f'[models.m]\nmodel = "m"\nbase_url = "{url}"\n{"".join(more)}'
    (place.folder / "project" / "agenteval.toml").write_text(table)
    said = place.call(*RUN, *STORE, *options)
    assert "was asked what it does" in said  # else no key was sent, and none can come back
    return said


@pytest.mark.slow
def test_a_server_that_repeats_the_key_leaves_it_nowhere(tmp_path) -> None:
    place = Place(tmp_path)
    with repeating("pieces") as url:
        played(place, url)
        place.call("show", "last", *STORE, "--report", "r.html", "--details")
    assert place.leaks() == {}


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "MY_OWN_RIG", "PGPASSWORD"])
@pytest.mark.parametrize("how", ["whole", "stream", "pieces", "escaped", "error"])
def test_no_command_behind_a_run_shows_a_key(tmp_path, how, variable) -> None:
    place = Place(tmp_path)
    with repeating(how) as url:
        played(place, url, f'api_key_env = "{variable}"\n')
        for words in AFTERWARDS:
            place.call(*words)
    assert place.leaks() == {}


SLIPS = {
    "a password in a URL": f'base_url = "http://u:{SECRET}@h/v1"',
    "a key in a query": f'base_url = "http://h/v1?key={SECRET}"',
    "a key for the name of its variable": f'base_url = "http://h/v1"\napi_key_env = "{SECRET}"',
    "a key of its own": f'base_url = "http://h/v1"\napi_key = "{SECRET}"',
    "a key in a wrong place": f'base_url = "http://h/v1"\nsampling = "{SECRET}"',
    "a key in a list": f'base_url = "http://h/v1"\nserver = ["{SECRET}"]',
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_key_that_was_put_into_a_file_is_not_shown(tmp_path, slip) -> None:
    place = Place(tmp_path)
    (tmp_path / "project" / "agenteval.toml").write_text(f'[models.m]\nmodel = "m"\n{SLIPS[slip]}')
    said = place.call("models")
    assert "agenteval.toml: " in said
    assert canaries_in(said.encode()) == []


URLS = (
    f"http://u:{SECRET}@127.0.0.1:1/v1",
    f"http:/u:{SECRET}@127.0.0.1:1/v1",
    f"http://127.0.0.1:1/v1?key={SECRET}",
    f"http://u:{SECRET}／@127.0.0.1:1/v1",  # noqa: RUF001 -- refused by Python, with its words
    f"http://u:{SECRET}@[::1/v1",
    f"http://u:{SECRET}@127.0.0.1:port/v1",
)


@pytest.mark.parametrize("url", URLS)
def test_a_url_with_a_password_is_refused_without_it(tmp_path, url) -> None:
    place = Place(tmp_path)
    said = place.call("speed", "-m", "m", "--base-url", url)
    assert said.startswith("agenteval: --base-url ")
    assert canaries_in(said.encode()) == []


@pytest.mark.parametrize("command", ["show", "view"])
def test_a_password_in_the_url_of_a_store_is_not_shown(tmp_path, command) -> None:
    place = Place(tmp_path)
    said = place.call(command, "--store", f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    assert "Connection refused" in said
    assert canaries_in(said.encode()) == []


def test_the_log_of_the_hook_has_no_key_of_a_command(tmp_path) -> None:
    place = Place(tmp_path)
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": "s", "cwd": "/w"}
    payload = json.dumps({**asked, "tool_use_id": "t", "tool_input": {"command": COMMAND}})
    options = ("--for", "claude-code", "--allowlist", "demo", "--fail", "closed")
    place.call("hook", "run", *options, given=payload.encode())
    place.call("hook", "stop")
    (log,) = (tmp_path / "home").rglob("calls.jsonl")
    assert canaries_in(log.read_bytes(), ENVIRONMENT) == []


def test_a_log_that_is_redacted_has_no_key_of_the_environment(tmp_path) -> None:
    place = Place(tmp_path)
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": COMMAND}}
    message = {"id": "m", "role": "assistant", "model": "x", "content": [use]}
    known = {"sessionId": "s", "cwd": "/w", "uuid": "u", "type": "assistant"}
    log = tmp_path / "log.jsonl"
    result = {"type": "tool_result", "tool_use_id": "t", "content": COMMAND}
    answer = {**known, "type": "user", "uuid": "v", "message": {"content": [result]}}
    lines = ({**known, "message": message}, answer)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    place.call("ingest", "claude-code", str(log), "--redact", *STORE)
    log.unlink()
    stored = texts_of(tmp_path / "project" / "s.db")
    assert (b"redacted-key" in stored, canaries_in(stored, ENVIRONMENT)) == (True, [])


def test_a_program_that_is_captured_has_no_key_in_its_environment(tmp_path) -> None:
    place = Place(tmp_path)
    program = tmp_path / "program"
    program.write_text(SHELLS)
    program.chmod(0o755)
    place.call("harness", "capture", str(program))
    written = (tmp_path / "project" / "environment").read_bytes()
    unnamed = ("MY_OWN_RIG", "OPENAI_ADMIN_KEY")  # no name of a key, and a part of its value
    known = {name: value for name, value in ENVIRONMENT.items() if name not in unnamed}
    assert canaries_in(written, known) == []
    assert b"PYTHONSAFEPATH" not in written  # it may be a Python script with modules beside it
