"""Three small runs that hold some of everything a report can show, and golden files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agenteval.report.build import build_view
from agenteval.report.view import ClassText
from agenteval.testing import card, denied, failing, run, says, tool, trial
from agenteval.trial.call import Blame, Ending, MalformedCall, Outcome, Repair
from agenteval.trial.run import ArmCard, Options
from agenteval.trial.trial import GoalCheck

GOLDEN = Path(__file__).parent / "golden"
STEPS = ("update-attempt-outcome", "update-stage-status", "ralf_spawn")
CLASSES = (
    ClassText("hallucinated-tool", "A tool that does not exist.", "Its name is made up."),
    ClassText("pipe-to-filter", "Output piped into a text filter.", "It cuts what was asked for."),
    ClassText("stderr-redirect", "Standard error sent elsewhere.", "Errors must be seen."),
    ClassText("shell-chain", "Several commands in one.", "Each call is one command."),
    ClassText("unlisted-script", "A script that is not listed.", "Only listed ones may run."),
)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="renew rendered output")


@pytest.fixture
def golden(request):
    """Compare a rendered text with its golden file, or renew it with --update-golden."""

    def compare(name, text):
        path = GOLDEN / name
        if request.config.getoption("--update-golden", default=False):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        wanted = path.read_text(encoding="utf-8")
        assert text == wanted or (path.suffix == ".json" and same(*map(json.loads, (text, wanted))))

    return compare


def same(one, other):
    """Two documents, but for a figure's last digits: those are another numpy's or processor's."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


ASKED = Options(
    ["ralf"], ["m"], None, 8, 7, "4", 20, "taught/tools", "five", "start", "0", None, prefork=False
)
ARM = ArmCard(
    *("taught/tools", 1, "ours", "five", 5, 29, 4100, "bare", "", "a harness with <file> tools"),
)


def steps(reached):
    return [(step, at < reached) for at, step in enumerate(STEPS)]


def careful(number):
    """Pivots after its one denial, and closes the handshake."""
    return trial(
        "uv run context_cache.py list",
        denied("uv run food_management.py", "unlisted-script")
        if number % 3 == 0
        else says("Next."),
        "uv run db_query.py --sql 'select 1'",
        "uv run ralf.py update-attempt-outcome ok",
        "uv run ralf.py update-stage-status s1 awaiting_eval",
        "uv run ralf.py ralf_spawn step_evaluator",
        scenario="ralf",
        number=number,
        handshake=steps(3),
        goal=(GoalCheck("the stage is closed", held=True, expected=1, found=1),),
        goal_turn=5,
        ending=Ending.STOPPED,
    )


def careless(number):
    """Tries variants, fails, and stops without the closing calls."""
    return trial(
        denied("ls scripts/ | grep -E 'search|web'", "pipe-to-filter", evidence="| grep"),
        denied("ls -la | head", "pipe-to-filter", evidence="| head"),
        denied("cd /srv && uv run db_query.py", "shell-chain", evidence="&&"),
        ("uv run db_query.py --sql 'select 1'", failing("uv run db_query.py --sql '<oops>'")),
        failing("uv run context_cache.py", limit="wall-time"),
        tool("emit_guidance", failure_class="hallucinated-tool", text="a | b"),
        says("Shall I go on?"),
        scenario="ralf",
        number=number,
        handshake=steps(number % 3),
        outcome=Outcome.STALLED,
        goal=(
            GoalCheck("the stage is closed", held=False, expected=1, found=0),
            GoalCheck("nothing else <changed>", held=True, expected=0, found=0),
        ),
        goal_turn=2 if number == 2 else None,
    )


def misread(played):
    """The same trial behind a parser that lost the braces of one call and left another as text."""
    lost = MalformedCall(
        "broken-json", Blame.PARSER, '"sql": 1}', "the opening brace is missing", 0
    )
    left = MalformedCall("call-in-text", Blame.PARSER, "<tool_call>{...}", "a whole call in hermes")
    note = MalformedCall(
        "object-arguments", Blame.SERVER, "{}", "the protocol has JSON text here", 0
    )
    mended = Repair(0, "arguments", '"sql": 1}', "{}")
    first, *others, last = played.turns
    first = replace(first, malformed=(lost, note), repairs=(mended,))
    return replace(played, turns=(first, *others, replace(last, malformed=(left,))))


def void(number):
    return trial(
        "uv run context_cache.py list",
        scenario="ralf",
        number=number,
        ending=Ending.BROKEN,
        outcome=Outcome.VOID,
        reason="HTTP 500 from the server <html>",
    )


@pytest.fixture
def runs():
    moe = card(
        "sim/moe",
        served_id="moe-35b-a3b",
        architecture="moe",
        total_parameters=35,
        active_parameters=3,
        quantization="AWQ 4 bit",
        sampling={"temperature": 1.0, "top_p": 0.95},
        simulated=True,
    )
    dense = card("sim/dense", served_id="dense-27b", architecture="dense", simulated=True)
    return [
        run(
            *(careful(n) if n % 4 == 0 else careless(n) for n in range(1, 8)),
            void(8),
            model=moe,
            options=ASKED,
            arm=ARM,
        ),
        run(*map(careful, range(1, 9)), model=dense, run_id="r2", sandbox="none", options=ASKED),
        run(
            careful(1),
            misread(careless(2)),
            trial("uv run notes.py list", says("Done.")),
            model=card("local"),
            run_id="r3",
            complete=False,
            trials_planned=4,
        ),
    ]


@pytest.fixture
def view(runs):
    return build_view(runs, classes=CLASSES)


@pytest.fixture
def without_words():
    """Put placeholders for the sentences of a view, which golden/sentences.txt has."""

    def placeholders(view):
        words = {"warnings": ("W1", "W2"), "sentences": ("Settled: S1", "S2")}
        return replace(view, **words, short=("I1", "I2"))

    return placeholders


@pytest.fixture
def drawn(view, without_words):
    return without_words(view)
