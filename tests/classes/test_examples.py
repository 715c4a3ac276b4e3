"""Every failure class is tested by the examples of its own block."""

import runpy
import sys

import pytest

from agenteval.classes.catalogue import (
    ARTICLE_ROWS,
    README,
    article_row,
    example_text,
    failure_classes,
    main,
    render,
)
from agenteval.classes.failure_class import FailureClass
from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.policy import World
from agenteval.shell.programs import FILTERS
from agenteval.trial.call import ToolCall

DEMO = load_policy("demo", roots=[shipped()])
CLASSES = failure_classes()
BAD = [pytest.param(each, call, id=example_text(call)) for each in CLASSES for call in each.bad]
GOOD = [pytest.param(call, id=example_text(call)) for each in CLASSES for call in each.good]

SLIPS = [each for each in CLASSES if each.slip]


@pytest.mark.parametrize(("failure_class", "call"), BAD)
def test_a_bad_example_is_denied_as_its_own_class(
    failure_class: FailureClass, call: ToolCall
) -> None:
    verdict = judge(call, DEMO, World(written=frozenset(failure_class.after)))
    assert [finding.failure_class for finding in verdict.findings][:1] == [failure_class.id]
    assert verdict.primary
    assert verdict.primary.hint
    evidence = verdict.primary.evidence
    text = call.raw if call.command is None else call.command
    assert text[evidence.start : evidence.end] == evidence.text or evidence.start == evidence.end


@pytest.mark.parametrize("call", GOOD)
def test_a_good_example_is_allowed(call: ToolCall) -> None:
    assert judge(call, DEMO).allowed


@pytest.mark.parametrize("failure_class", CLASSES, ids=lambda each: each.id)
def test_a_class_has_title_rationale_examples_and_a_cure(failure_class: FailureClass) -> None:
    assert failure_class.title.endswith(".")
    assert "\n" not in failure_class.title
    assert failure_class.rationale
    assert failure_class.bad
    assert failure_class.good


@pytest.mark.parametrize("failure_class", SLIPS, ids=lambda each: each.id)
def test_a_slip_makes_its_own_class_out_of_a_listed_command(failure_class: FailureClass) -> None:
    right = "uv run scripts/notes.py list"
    command = failure_class.slip.replace("{quoted}", right).replace("{}", right)
    primary = judge(ToolCall("", "bash", command, {"command": command}), DEMO).primary
    assert primary
    assert primary.failure_class == failure_class.id


def test_every_row_of_the_article_has_a_class() -> None:
    assert {article_row(each.id) for each in CLASSES} == set(ARTICLE_ROWS)
    assert len(ARTICLE_ROWS) == 11


@pytest.mark.parametrize("program", sorted(FILTERS))
def test_every_filter_is_a_pipe_to_filter(program: str) -> None:
    call = ToolCall("", "bash", "", {"command": f"uv run scripts/notes.py list | {program} x"})
    primary = judge(call, DEMO).primary
    assert primary
    assert primary.failure_class == "pipe-to-filter"
    assert primary.evidence.text == f"| {program} x"


def test_the_readme_is_what_the_blocks_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert README.read_text(encoding="utf-8") == render()
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_readme_that_is_out_of_date_is_found_and_renewed(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    monkeypatch.setattr("agenteval.classes.catalogue.README", readme)
    assert main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_the_page_is_checked_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["page", "--check"])
    monkeypatch.delitem(sys.modules, "agenteval.classes.catalogue")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("agenteval.classes.catalogue", run_name="__main__")
    assert ended.value.code == 0
