"""What `make dialects` does around the real programs."""

import runpy
from pathlib import Path

again = runpy.run_path(str(Path(__file__).parents[1] / "ask_dialects.py"))
SESSION = {
    "version": "1",
    "permission": {"bash": "ask"},
    "verdicts": [["bash", {"command": "a"}, False], ["bash", {"command": "b"}, True]],
}


def test_a_verdict_that_changed_is_told_with_its_rules() -> None:
    said = [["bash", {"command": "a"}, True], ["bash", {"command": "b"}, True]]
    assert again["differences"]([SESSION], [said]) == [
        '  bash {"command": "a"}: False -> True, under {"permission": {"bash": "ask"}}'
    ]


def test_what_could_not_be_told_is_no_change() -> None:
    said = [["bash", {"command": "a"}, None], ["bash", {"command": "b"}, True]]
    assert again["differences"]([SESSION], [said]) == []


def test_without_a_version_the_newest_is_asked_and_an_older_series_as_it_is_kept() -> None:
    found = [(each.version, each.kept) for each in again["wanted"]("opencode")]
    assert found == [("latest", "1.18.33"), ("1.0.152", "1.0.152")]


def test_a_version_is_held_against_the_series_that_it_is_of() -> None:
    found = [
        each.kept for name in ("1.0.9", "1.19.0") for each in again["wanted"](f"opencode@{name}")
    ]
    assert found == ["1.0.152", "1.18.33"]


def test_a_sample_is_the_beginning_of_the_longest_sessions() -> None:
    short, long = ({**SESSION, "verdicts": [["bash", {}, True]] * count} for count in (2, 200))
    found = again["sampled"]([short, long])
    assert [len(session["verdicts"]) for session in found] == [60, 2]
