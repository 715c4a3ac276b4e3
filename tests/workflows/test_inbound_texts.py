"""What doctor gives to parser, store and report ends as it must; and a weak part is found out."""

import json

import pytest

from agenteval import testing
from agenteval.models import request
from agenteval.report import html
from agenteval.store import read as mapping
from agenteval.workflows import hostile
from agenteval.workflows.hostile import _try_parser, _try_report, _try_store, try_texts


def harm(tried):
    return {one.attempt: one.came for one in tried if not one.is_as_wanted}


def test_every_hostile_text_ends_as_it_must():
    tried = try_texts()
    assert ([one for one in tried if not one.is_as_wanted], len(tried) >= 40) == ([], True)


def test_a_parser_that_reads_what_python_reads_is_found_out(monkeypatch):
    monkeypatch.setattr(request.plain, "read_from", json.JSONDecoder().raw_decode)
    assert {"NaN", "half a character in an argument"} <= harm(_try_parser()).keys()


def test_an_allowed_call_is_found_out(monkeypatch):
    monkeypatch.setattr(hostile, "judge", lambda *_: testing.trial("ls").calls[0].verdict)
    assert harm(_try_parser())["NUL in a command"] == "a call is allowed, or lost"


def test_an_exception_is_a_defect_with_its_name(monkeypatch):
    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr(hostile, "turn_of", broken)
    assert harm(_try_parser())["NaN"].startswith("a defect of ours: ")


def test_a_store_that_changes_words_is_found_out(monkeypatch):
    read = mapping.trial_value
    monkeypatch.setattr(
        "agenteval.store.read.trial_value",
        lambda trial, turns, calls: read(trial, turns, calls[:0]),
    )
    tried = _try_store()
    assert (len(harm(tried)), len(tried)) == (8, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NUL", "marks that turn the direction"])
def test_a_page_that_hides_is_found_out(name, monkeypatch):
    monkeypatch.setattr(html, "visible", str)
    assert harm(_try_report())[name].startswith("these are not shown")


@pytest.mark.slow
def test_a_page_that_takes_words_for_elements_is_found_out(monkeypatch):
    monkeypatch.setattr(html, "templates_of", html.templates_of.__wrapped__)  # made anew
    monkeypatch.setattr(
        html, "_visible", lambda value: html.Markup(value) if type(value) is str else value
    )
    assert "a script" in harm(_try_report())
