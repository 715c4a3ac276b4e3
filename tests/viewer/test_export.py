"""`agenteval view --export`: the same pages as files that lead to each other."""

import json
from contextlib import closing

import pytest
from links import Page
from stored import stored
from two_runs import FIRST, SECOND
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.errors import UsageError
from agenteval.store.sql import SqlStore
from agenteval.viewer.application import _states, write
from agenteval.viewer.pages import PAGES


@pytest.fixture
def store(tmp_path) -> str:
    path = stored(str(tmp_path / "runs.db"), FIRST, SECOND)
    with closing(SqlStore(path)) as opened:
        opened.review(2, "bare-binary", "why", "2026-01-01T00:00:00Z")
    return path


def test_every_link_of_every_file_leads_to_a_file(store, tmp_path) -> None:
    folder = tmp_path / "pages"
    told = CliRunner().invoke(app, ["view", "--store", store, "--export", str(folder)])
    assert told.exit_code == 0, told.output
    pages = {file.name: Page(file.read_text()) for file in folder.glob("*.html")}
    assert f"wrote {len(pages)} pages: open {folder / 'index.html'}" in told.output
    led = {
        one.get("href") or one.get("src")
        for page in pages.values()
        for tag, one in page.elements
        if tag in {"a", "link", "script"}
    }
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {link.partition("#")[0] for link in led if link} - {""} <= files
    assert not any(
        tag == "form" and one.get("method") != "dialog"
        for page in pages.values()
        for tag, one in page.elements
    )


def test_from_the_first_file_a_class_leads_to_its_call_and_its_transcript(store, tmp_path) -> None:
    write(store, folder := tmp_path / "pages")

    def at(name: str) -> Page:
        return Page((folder / name.partition("#")[0]).read_text())

    run = at(at("index.html").links["first"])
    calls = at(run.links["pipe-to-filter"])
    (call,) = (href for text, href in calls.links.items() if "| head -5" in text)
    transcript = at(call)
    assert "call-2-1" in {one.get("id") for _, one in transcript.elements}
    assert "first difference" in at(transcript.links["second"]).text
    assert "bare-binary" in at(transcript.links["call 2"]).text
    assert json.loads((folder / "reviews.jsonl").read_text())["label"] == "bare-binary"


def test_each_page_has_its_states() -> None:
    assert {*_states()} == {*PAGES}


def test_a_folder_that_is_not_empty_and_a_file_are_left_alone(store, tmp_path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for place in (tmp_path / "full", tmp_path / "runs.db"):
        with pytest.raises(UsageError, match="name a new folder"):
            write(store, place)
    with pytest.raises(UsageError, match="cannot be written"):
        write(store, tmp_path / "runs.db" / "below")
