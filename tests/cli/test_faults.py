"""Trials that a scenario's slip or a defect of ours broke, as the user hears of them."""

import json

import pytest

from agenteval.core.outcome import Outcome
from agenteval.errors import Cause
from agenteval.testing import run, trial
from agenteval.workflows.views import faults

SLIP = "{% if chance.integer(1, 3) == FACE %}{{ no_such_word }}{% endif %}\n"


@pytest.fixture
def unsteady(project):
    """`notes/append` in a world that cannot be made for about a third of the seeds."""
    path = project / "fixtures/notes/world.sql"
    whole = path.read_text()
    path.write_text(SLIP.replace("FACE", "1") + whole)
    return project


def test_a_slip_of_a_scenario_costs_its_trials_and_the_run_says_so_by_its_exit_code(
    cli, unsteady
) -> None:
    command = ("run", "-m", "sim/qwen3.5-27b", "notes/append", "--trials", "6", "--json")
    said = cli(*command)
    (played,) = json.loads(said.out)["runs"]
    voids = played["voids"]
    assert (said.code, played["complete"], {one["cause"] for one in voids}) == (
        4,
        True,
        {"scenario"},
    )
    assert 0 < len(voids) < 6
    assert f"{len(voids)} trials are void by a slip of their scenario. The first one: " in said.err
    assert "'no_such_word' is undefined" in voids[0]["reason"]

    again = cli("run", "--resume", "last", "--json")
    (resumed,) = json.loads(again.out)["runs"]
    assert (again.code, resumed["voids"]) == (4, voids)


TRACE = "KeyError: 'x'\nTraceback (most recent call last):\n  File ..."


def test_a_defect_is_told_in_a_line_with_where_its_traceback_is() -> None:
    known = {"outcome": Outcome.VOID, "cause": Cause.AGENTEVAL, "reason": TRACE}
    assert faults([run(trial("ls"), trial(number=2, **known))]) == [
        (
            "1 trial is void by a defect of agenteval. The first one: notes #2, seed 1002: "
            "KeyError: 'x'\n"
            "Traceback: in the report, and in `reason` of `agenteval show r1 --json`"
        )
    ]


def test_a_run_whose_voids_are_the_servers_is_nobodys_fault_here() -> None:
    known = {"outcome": Outcome.VOID, "cause": Cause.TIMEOUT, "reason": "no reply"}
    assert faults([run(trial("ls"), trial(**known))]) == []
