"""What another allow list would have said of the calls on a page, asked of a shipped scenario."""

import re

import pytest
from links import Page
from stored import stored
from two_runs import client

from agenteval.testing import denied, run, says, sub_agent, tool, trial

LIST = "uv run scripts/notes.py list"
PLAYED = run(
    trial(
        (LIST, denied(f"{LIST} | head -5", "pipe-to-filter", evidence="| head -5")),
        tool("teleport", failure_class="hallucinated-tool", to="Rome"),
        says("Done."),
        scenario="notes/append",
        seed=5,
    ),
    run_id="first",
)


@pytest.fixture
def store(tmp_path) -> str:
    return stored(str(tmp_path / "runs.db"), PLAYED)


PAGES = ("/trial?run=first&scenario=notes/append&number=1", "/calls?run=first")


@pytest.mark.parametrize("address", PAGES)
@pytest.mark.parametrize(
    ("allowlist", "first"), [("notes", "allowed"), ("pantry", "unlisted-script")]
)
def test_beside_each_call_stands_what_that_allow_list_says(
    store, address, allowlist, first
) -> None:
    answer = client(store).get(f"{address}&allowlist={allowlist}")
    assert answer.status_code == 200, answer.text
    expected = [first, "pipe-to-filter", "hallucinated-tool"]
    assert re.findall(r"would be (\S+)", Page(answer.text).text) == expected


def test_a_sub_agent_that_the_scenario_no_longer_has_is_told(tmp_path) -> None:
    gone = sub_agent("checker", LIST)
    played = run(trial(LIST, scenario="notes/append", seed=5, agents=(gone,)), run_id="first")
    asking = client(stored(str(tmp_path / "other.db"), played))
    answer = asking.get(f"{PAGES[0]}&allowlist=notes")
    assert answer.status_code == 400
    assert "notes/append has no sub-agent" in answer.text


def test_asking_changes_nothing_that_is_stored(store) -> None:
    before = client(store).get("/calls?run=first").text
    client(store).get("/calls?run=first&allowlist=pantry")
    assert client(store).get("/calls?run=first").text == before
