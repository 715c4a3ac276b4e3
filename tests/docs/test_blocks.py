"""How blocks of a page are read, run and renewed."""

import pytest
from pages import blocks, part
from played_page import played, renewed

PAGE = """# A page

```console run exit=3
$ echo one
one
$ echo two; \\
> exit 3
old
```

```sh run
cat note.toml  # what was written

```

```toml file=note.toml
a = 1
```

```text
$ echo shown only
```
"""


def test_a_block_that_runs_has_its_commands_and_what_they_show() -> None:
    assert [
        (block.language, [(one.text, one.shown) for one in block.commands()])
        for block in blocks(PAGE)
        if block.runs
    ] == [
        ("console", [("echo one", ("one",)), ("echo two; exit 3", ("old",))]),
        ("sh", [("cat note.toml", ())]),
    ]


def test_a_page_is_played_in_order_and_what_differs_is_told(tmp_path) -> None:
    outcomes = list(played(PAGE, tmp_path))
    assert [(one.code, one.fault.split("\n")[0]) for one in outcomes] == [
        (0, ""),
        (3, "echo two; exit 3"),
        (1, "cat note.toml"),  # only written below
    ]


def test_renewing_writes_what_a_command_prints_and_leaves_the_rest(tmp_path) -> None:
    assert renewed(PAGE, list(played(PAGE, tmp_path))) == PAGE.replace("\nold\n", "\ntwo\n")


def test_an_exit_code_that_is_not_asked_for_is_a_fault(tmp_path) -> None:
    page = "```console run\n$ exit 3\n```\n"
    assert ["exit code 3, not 0" in one.fault for one in played(page, tmp_path)] == [True]


def test_a_part_of_an_output_goes_from_one_line_to_another() -> None:
    lines = ["head", "a 1", "b", "a 2", "end"]
    assert (
        part(lines, ("^a...^b",)),
        part(lines, ("...^a", "end...")),
        part(lines, ("a 2...",)),
    ) == (
        ["a 1", "b"],
        ["head", "a 1", "...", "end"],
        ["a 2", "end"],
    )


def test_an_output_without_what_the_page_shows_of_it_is_a_fault_and_stays_as_it_was(
    tmp_path,
) -> None:
    page = '```console run show="^total..."\n$ echo other words\ntotal 1\n```\n'
    outcomes = list(played(page, tmp_path))
    assert ("no line of the output matches" in outcomes[0].fault, renewed(page, outcomes)) == (
        True,
        page,
    )


def test_figures_may_vary_where_a_page_says_so_and_words_may_not(tmp_path) -> None:
    page = "```console run numbers=vary\n$ echo 12.5 s in 3 runs\n{}\n```\n"
    alike = []
    for at, shown in enumerate(["9 s in 11 runs", "9 s in all runs"]):
        alike += [one.alike for one in played(page.format(shown), tmp_path / str(at))]
    assert alike == [True, False]


@pytest.mark.slow
def test_ids_of_runs_are_always_the_same_on_a_page(tmp_path) -> None:
    page = (
        "```console run\n"
        "$ agenteval run -m sim/qwen3.5-27b --trials 1 mail/triage --json > 1.json\n"
        "$ agenteval run -m sim/qwen3.5-27b --trials 1 mail/triage --json > 2.json\n"
        "$ agenteval show\nx\n"
        "$ agenteval show 20261121-101500-sim-qwen3.5-27b --json > 3.json\n"
        "$ cmp 1.json 3.json\n"
        "```\n"
    )
    outcomes = list(played(page, tmp_path))
    runs = [line for line in outcomes[2].printed if not line.startswith(" ")]
    assert [line.split()[0] for line in runs] == [
        "20261121-102000-sim-qwen3.5-27b",
        "20261121-101500-sim-qwen3.5-27b",
    ]
    assert [one.code for one in outcomes] == [0, 0, 0, 0, 0]


@pytest.mark.slow
def test_a_model_of_the_readers_answers_where_the_page_says_it_is_served(tmp_path) -> None:
    page = (
        "```console run\n"
        "$ agenteval run -m my-model --base-url http://localhost:8000/v1 --trials 1"
        " mail/triage\nx\n```\n"
    )
    (outcome,) = played(page, tmp_path)
    assert (outcome.code, "SIMULATED" in outcome.printed) == (0, False)
