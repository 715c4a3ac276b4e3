"""The pages of `agenteval view`, asked for from link to link as a reader does."""

import pytest
from links import Page

TRIAL = "/trial?run=first&scenario=notes%2Fread&number=1"


def asked(reader, address: str, status: int = 200) -> Page:
    answer = reader.get(address)
    assert answer.status_code == status, answer.text
    return Page(answer.text)


def test_from_the_list_a_class_leads_to_its_calls_and_a_call_into_its_transcript(reader) -> None:
    run = asked(reader, asked(reader, "/").links["first"])
    calls = asked(reader, run.links["pipe-to-filter"])
    (call,) = (href for text, href in calls.links.items() if "| head -5" in text)
    transcript = asked(reader, call)
    assert "call-2-1" in call
    assert "missed: the note is read (expected '1', found '0')" in transcript.text
    assert "list: reached show: missed" in transcript.text
    assert ("mark", {}) in transcript.elements
    assert asked(reader, transcript.links["first"]).text == run.text


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        ("", {"first", "second"}),
        ("?model=model-a", {"first"}),
        ("?simulated=1", {"second"}),
        ("?simulated=0", {"first"}),
        ("?since=2026-01-03", {"second"}),
        ("?label=nightly", set()),
    ],
)
def test_runs_are_listed_by_what_is_filtered(reader, filters, runs) -> None:
    assert {"first", "second"} & set(asked(reader, f"/{filters}").links) == runs


def test_a_run_is_shown_with_intervals_and_void_trials_apart(reader) -> None:
    text = asked(reader, "/run?id=first").text
    assert "pipe-to-filter 1 25.00" in text
    assert "n=4" in text
    assert "goal reached 1 of 2" in text
    assert "mail/draft 1 0 0 1 n=0" in text


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("run=first", 6),
        ("denied=1", 3),
        ("denied=0", 5),
        ("failure_class=bare-binary", 2),
        ("failure_class=bare-binary&counted=1", 0),
        ("outcome=void", 1),
        ("agent=checker", 1),
        ("agent=-&run=first", 5),
        ("tool=read", 1),
        ("text=NOTES.PY+show", 2),
        ("scenario=notes%2Fread&number=2", 1),
    ],
)
def test_calls_are_found_by_what_the_address_says(reader, where, found) -> None:
    page = asked(reader, f"/calls?{where}")
    lines = [one for tag, one in page.elements if tag == "li" and "data-line" in one]
    assert len(lines) == found


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        ("class", {"bare-binary": "2", "pipe-to-filter": "1"}),
        ("scenario", {"notes/read": "5", "mail/draft": "1"}),
        ("outcome", {"claimed-done": "4", "completed": "1", "void": "1"}),
        ("agent", {"first agent": "5", "checker/1": "1"}),
        ("tool", {"bash": "6"}),
    ],
)
def test_calls_are_counted_by_and_each_count_leads_to_them(reader, by, counts) -> None:
    page = asked(reader, f"/calls?run=first&by={by}")
    assert all(f"{name} {count}" in page.text for name, count in counts.items())
    for name, count in counts.items():
        chosen = asked(reader, page.links[name])
        assert len([1 for tag, one in chosen.elements if "data-line" in one]) == int(count)


def test_two_transcripts_of_one_world_are_side_by_side_with_the_first_difference(reader) -> None:
    page = asked(reader, asked(reader, TRIAL).links["second"])
    marked = [one["id"] for _, one in page.elements if "differs" in one.get("class", "").split()]
    assert marked == ["a-call-2-1", "b-call-2-1"]
    assert "claimed-done 4 turns, 4 calls, 1 denied" in page.text


def test_two_runs_are_compared_as_compare_says_and_their_worlds_lead_to_the_transcripts(
    reader,
) -> None:
    page = asked(reader, "/compare?a=first&b=second")
    assert "model-a" in page.text
    assert "0.00 against 33.33" in page.text
    assert "first difference" in asked(reader, page.links["notes/read #1"]).text


def test_another_allow_list_is_asked_about_a_transcript_and_nothing_is_stored(reader) -> None:
    answer = reader.get(f"{TRIAL}&allowlist=demo")
    assert answer.status_code == 400  # the scenario is not of this project
    assert "no scenario or folder" in answer.text


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/nothing", 404, "There is no such page."),
        ("/run?id=third", 400, "no run 'third' in this store"),
        ("/run", 400, "the address of this page lacks id="),
        ("/trial?run=first&scenario=x&number=1", 400, "first has no trial 1 of x"),
        ("/trial?run=first&scenario=x&number=one", 400, "number=one: must be a whole number"),
        ("/call?id=99", 400, "no call 99 in this store"),
        ("/calls?after=1", 400, "1: no place among the calls"),
        ("/compare?a=first&b=first", 400, "these are one run; name two"),
        (f"{TRIAL}&allowlist=/etc/passwd", 400, "no allow list '/etc/passwd'; known: "),
    ],
)
def test_an_address_that_means_nothing_gets_a_page_that_says_why(
    reader, address, status, said
) -> None:
    assert said in asked(reader, address, status).text


@pytest.mark.parametrize("name", ["page", "self", "state"])
def test_an_address_may_say_what_no_page_asks(reader, name) -> None:
    assert asked(reader, f"/calls?{name}=2").text == asked(reader, "/calls").text


def test_pages_of_calls_lead_to_each_other_and_back(reader, monkeypatch) -> None:
    defaults = {"after": (0, 0), "before": None, "size": 3}
    monkeypatch.setattr("agenteval.store.search.calls_page.__kwdefaults__", defaults)
    first = asked(reader, "/calls")
    second = asked(reader, first.links["later"])
    third = asked(reader, second.links["later"])
    assert "later" not in third.links
    assert asked(reader, asked(reader, third.links["earlier"]).links["earlier"]).text == first.text


@pytest.mark.parametrize("run", ["first", "nobody"])
def test_events_of_a_run_that_is_over_or_unknown_end_at_once(reader, run) -> None:
    answer = reader.get("/events", params={"run": run})
    assert answer.text == "event: ended\ndata: {}\n\n"
