"""One model on two stacks: what differs is named, and a difference points at its layer."""

from dataclasses import replace

from stored import stored
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.report.build import build_comparison
from agenteval.report.pairs import stack_lines
from agenteval.report.sentences import Side
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Blame, MalformedCall
from agenteval.trial.run import ModelCard, Run

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


VLLM = card("m", server="vLLM 0.30", tool_parser="hermes", quantization="FP8", stream=False)
LLAMA = card("m", server="llama.cpp b1", quantization="Q4_K_M", told={"chat template": "sha256:1"})
SITUATIONS = {
    "broken on their way": (played("a", VLLM, broken=3, wrong=1), played("b", LLAMA, wrong=1)),
    "written wrong": (played("a", VLLM, wrong=4), played("b", LLAMA)),
    "both, and alike": (played("a", VLLM, broken=4, wrong=4), played("b", VLLM)),
    "nothing settled": (
        played("a", VLLM, broken=1, wrong=1),
        played("b", LLAMA, broken=1, wrong=1),
    ),
    "another name": (played("a", VLLM), played("b", replace(LLAMA, served_id="m-q4"))),
    "without a call": (played("a", VLLM), run(trial(scenario="notes/append"), run_id="b")),
}


def test_each_situation_has_its_lines(golden) -> None:
    lines = []
    for name, runs in SITUATIONS.items():
        view = build_comparison([Side.of_run(one) for one in runs])
        lines += ["", f"# {name}", *stack_lines(runs, view)]
    golden("stacks.txt", "\n".join(lines[1:]) + "\n")


def asked(*names: str, store: str):
    words = ["compare", "--stacks", *names, "--store", store]
    return CliRunner().invoke(app, words)


def test_two_runs_of_a_store_are_compared_and_no_more(tmp_path) -> None:
    store = stored(str(tmp_path / "s.db"), *(played(name, VLLM) for name in "abc"))
    done = asked("a", "b", store=store)
    assert (done.exit_code, done.output.startswith("a and b: ")) == (0, True)
    refused = asked("a", "b", "c", store=store)
    assert str(refused.exception) == "compare --stacks: two runs of one model, not 3"
