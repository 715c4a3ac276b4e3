"""One model on two stacks: what differs is named, and a difference points at its layer."""

from dataclasses import replace

import pytest
from stored import stored
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.report.pairs import stack_lines
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Blame, MalformedCall
from agenteval.trial.run import ModelCard, Run
from agenteval.workflows import views

BROKEN = MalformedCall("broken-json", Blame.PARSER, "it is cut", "{", 0)


def played(name: str, model: ModelCard, *, broken: int = 0, wrong: int = 0) -> Run:
    """30 trials of 10 calls; of each so many came broken by the parser, and so many were denied."""
    trials = []
    for number in range(1, 31):
        parts = [denied("cat x") if at < wrong else "uv run x.py" for at in range(10)]
        made = trial(*parts, scenario="notes/append", number=number)
        turns = [
            replace(turn, malformed=(BROKEN,)) if at < broken else turn
            for at, turn in enumerate(made.turns)
        ]
        trials.append(replace(made, turns=tuple(turns)))
    return run(*trials, model=model, run_id=name)


@pytest.fixture
def told(tmp_path):
    """The lines about two runs, through a store as a user reads them."""

    def lines(one: Run, other: Run) -> list[str]:
        store = stored(str(tmp_path / "s.db"), one, other)
        words = ["compare", "--stacks", one.id, other.id, "--store", store]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output.splitlines()

    return lines


VLLM = card("m", server="vLLM 0.30", tool_parser="hermes", quantization="FP8", stream=False)
LLAMA = card("m", server="llama.cpp b1", quantization="Q4_K_M", told={"chat template": "sha256:1"})


def pointing(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("Where it points")]


def test_calls_that_came_broken_point_at_the_way_through_the_server(told) -> None:
    lines = told(played("a", VLLM, broken=3, wrong=1), played("b", LLAMA, wrong=1))
    differ = lines.index("They are known to differ in:")
    assert "  quantization: FP8 | Q4_K_M" in lines[differ:]
    assert "  tool parser: hermes | not told" in lines[differ:]
    assert "  server says: chat template: not told | sha256:1" in lines[differ:]
    assert any(line.startswith("  broken by template or parser: 30.00 and 0.00") for line in lines)
    (where,) = pointing(lines)
    assert where.startswith("Where it points (calls that came broken, broken by template or parser")
    assert where.endswith("of that is known to differ: server, tool parser, replies.")


def test_other_errors_point_at_what_the_model_was_made_to_write(told) -> None:
    (where,) = pointing(told(played("a", VLLM, wrong=4), played("b", LLAMA)))
    assert where.startswith("Where it points (errors, of any class, bare-binary): what the model")
    known = "of that is known to differ: quantization, server says: chat template."
    assert where.endswith(known)


def test_both_are_told_and_so_is_that_nothing_is_known_to_differ(told) -> None:
    lines = told(played("a", VLLM, broken=4, wrong=4), played("b", VLLM))
    assert "They are not known to differ in anything." in lines
    assert [line.endswith("look at what was not told.") for line in pointing(lines)] == [True, True]


def test_where_nothing_is_settled_nothing_is_pointed_at(told) -> None:
    lines = told(played("a", VLLM, broken=1, wrong=1), played("b", LLAMA, broken=1, wrong=1))
    assert pointing(lines) == ["Where it points: nowhere yet, for no difference is settled."]
    assert any(line.startswith("Told by neither: ") and "KV cache" in line for line in lines)


def test_other_names_of_a_model_are_told(told) -> None:
    renamed = replace(LLAMA, served_id="m-q4")
    lines = told(played("a", VLLM), played("b", renamed))
    assert "They are called m and m-q4: whether the weights are the same, you must know." in lines


def test_without_calls_nothing_is_compared(tmp_path) -> None:
    silent = run(trial(scenario="notes/append"), model=LLAMA, run_id="b")
    one = played("a", VLLM)
    view = views.view_of([one, silent], "full")
    assert list(stack_lines((one, silent), view))[-1].startswith("One of the two made no call")


def test_two_runs_are_wanted(tmp_path) -> None:
    store = stored(str(tmp_path / "s.db"), *(played(name, VLLM) for name in "abc"))
    done = CliRunner().invoke(app, ["compare", "--stacks", "a", "b", "c", "--store", store])
    assert str(done.exception) == "compare --stacks: two runs of one model, not 3"
