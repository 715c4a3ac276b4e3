"""Trials that a scenario's slip or a defect of ours broke, as the user hears of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from scripted_server import scripted

from agenteval.errors import Cause
from agenteval.report.sentences import Side
from agenteval.testing import card, run, trial
from agenteval.trial.call import Outcome
from agenteval.workflows.views import faults, voids_beyond

SLIP = "{% if chance.integer(1, 3) == FACE %}{{ no_such_word }}{% endif %}\n"


@pytest.fixture
def unsteady_server():
    """Each gives up its second trial with 500, and answers any other with words."""

    @contextmanager
    def served() -> Iterator[str]:
        asked = [0]

        def script(messages):
            asked[0] += messages[0]["role"] == "system"  # and not what a server is asked before
            return 500 if asked[0] == 2 else "No."

        with scripted(script) as url:
            yield url

    return served


@pytest.fixture
def unsteady(own_project):
    """`notes/append` in a world that cannot be made for about a third of the seeds."""
    path = own_project / "fixtures/notes/world.sql"
    whole = path.read_text()
    path.write_text(SLIP.replace("FACE", "1") + whole)
    return own_project


def test_a_slip_of_a_scenario_costs_its_trials_and_the_run_says_so_by_its_exit_code(
    cli, unsteady
) -> None:
    command = ("run", "-m", "sim/qwen3.5-27b", "notes/append", "--trials", "6", "--json")
    said = cli(*command)
    (played,) = json.loads(said.out)["runs"]
    voids = played["voids"]
    observed = (said.code, played["complete"], {one["cause"] for one in voids})
    assert observed == (4, True, {"scenario"})
    assert 0 < len(voids) < 6
    assert f"{len(voids)} trials are void by a slip of their scenario. The first one: " in said.err
    assert "'no_such_word' is undefined" in voids[0]["reason"]

    again = cli("run", "--resume", "last", "--json")
    (resumed,) = json.loads(again.out)["runs"]
    assert (again.code, resumed["voids"]) == (4, voids)


TRACE = "KeyError: 'x'\nTraceback (most recent call last):\n  File ..."


def test_a_defect_is_told_in_a_line_with_where_its_traceback_is() -> None:
    known = {"outcome": Outcome.VOID, "cause": Cause.AGENTEVAL, "reason": TRACE}
    assert faults([Side.of_run(run(trial("ls"), trial(number=2, **known)))]) == [
        (
            "1 trial is void by a defect of agenteval. The first one: notes #2, seed 1002: "
            "KeyError: 'x'\n"
            "Traceback: in the report, and in `reason` of `agenteval show r1 --json`"
        )
    ]


def voided(number: int, cause: Cause, reason: str):
    return trial("ls", number=number, outcome=Outcome.VOID, cause=cause, reason=reason)


PARTLY = [
    *(trial("ls", number=at) for at in range(1, 4)),
    voided(4, Cause.BUSY, "503: full"),
    voided(5, Cause.TIMEOUT, "no reply"),
    voided(6, Cause.TIMEOUT, "no reply again"),
]


@pytest.mark.parametrize(("limit", "named"), [(0.49, ["one", "other"]), (0.5, ["other"])])
def test_every_model_with_too_many_voids_is_named_with_what_most_came_of(limit, named) -> None:
    runs = [
        run(*PARTLY, model=card("one")),
        run(trial("ls"), model=card("good")),
        run(voided(1, Cause.OURS, "the sandbox ended"), model=card("other")),
    ]
    lines = {
        "one": (
            "one: 3 of 6 trials are void, its rates say little of the model. Most by timeout: "
            "no reply; look at the server's log"
        ),
        "other": (
            "other: the one trial is void, nothing was measured. Most by ours: the sandbox "
            "ended; look at this machine (`agenteval doctor`)"
        ),
    }
    assert voids_beyond([*map(Side.of_run, runs)], limit) == [lines[name] for name in named]


def test_too_many_voids_have_an_exit_code_of_their_own(cli, unsteady_server) -> None:
    """One of four trials is void: more than 20 of 100, and fewer than 30."""
    words = ("run", "-m", "m", "notes/append", "--trials", "4", "--concurrency", "1", "--json")
    codes = []
    for more in ((), ("--void-limit", "30")):
        with unsteady_server() as url:
            said = cli(*words, "--base-url", url, *more)
        codes.append(said.code)
        (model,) = json.loads(said.out)["models"]
        rates = [(rate["count"], rate["n"]) for rate in model["with_voids"]]
        assert (model["errors"]["n"], rates) == (0, [(0, 0), (1, 1)])
    assert codes == [5, 0]


def test_a_run_whose_voids_are_the_servers_is_nobodys_fault_here() -> None:
    known = {"outcome": Outcome.VOID, "cause": Cause.TIMEOUT, "reason": "no reply"}
    assert faults([Side.of_run(run(trial("ls"), trial(**known)))]) == []
