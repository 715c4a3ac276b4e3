"""What persons say of calls: written by a form, shown with the call, counted as agreement."""

import json

import pytest
from links import Page
from stored import stored
from two_runs import FIRST, GUARD, client

OWN = {"Origin": "http://127.0.0.1:8765"}


@pytest.fixture
def writer(tmp_path):
    return client(stored(str(tmp_path / "runs.db"), FIRST), writes=True)


def say(writer, call: int, label: str, note: str = "") -> None:
    form = {"key": GUARD.key, "call": str(call), "label": label, "note": note}
    assert writer.post("/review", data=form, headers=OWN).status_code == 200


def test_agreement_of_person_and_classifier_has_n_and_an_interval(writer) -> None:
    say(writer, 1, "allowed")
    say(writer, 2, "bare-binary", "the pipe is not the point")
    say(writer, 3, "", "a note alone says nothing of the class")
    page = Page(writer.get("/reviews").text)
    assert "person and classifier agree 1 of 2 [" in page.text
    assert "pipe-to-filter is bare-binary 1" in page.text
    assert "/call?id=2" in page.links.values()


def test_a_review_stands_beside_its_call_in_the_transcript(writer) -> None:
    say(writer, 2, "bare-binary", "not the\u202e point")
    text = Page(writer.get("/trial?run=first&scenario=notes/read&number=1").text).text
    assert "a person says: bare-binary not the\u27e8U+202E\u27e9 point" in text


def test_reviews_are_exported_as_json_lines(writer) -> None:
    say(writer, 2, "bare-binary", "why")
    (line,) = writer.get("/reviews.jsonl").text.splitlines()
    told = json.loads(line)
    assert (told["run"], told["judged"], told["label"], told["note"]) == (
        "first",
        "pipe-to-filter",
        "bare-binary",
        "why",
    )


def test_who_has_no_token_sees_no_form_and_is_told_how_to_get_one(reader) -> None:
    page = Page(reader.get("/call?id=2").text)
    assert "form" not in {tag for tag, one in page.elements if one.get("method") == "post"}
    assert "To write, open the address that agenteval view printed." in page.text
