"""Budgets of what things cost, each a ratio to a reference measured in the same rounds.

CPU, never the clock, and the median of interleaved rounds: work beside this moves both. The bounds
of a verdict, a command and a call are 2 to 2.3 times the newest ratios of docs/benchmarks.md, so
that they fail where something became slow and not where the machine is. The other two are of a
kind: a call on a Python that is there costs less than one that starts its own, and four times the
calls cost no square of that.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import bench_classify
import bench_reading
import bench_sandbox
import pytest
from bench_client import FEW, OWN_OPENAI, agenteval, cost, peer_played, recorded
from mock_server import mock
from parts_of_suite import started

from agenteval.sandbox.backends import BACKENDS
from agenteval.sandbox.probe import probe
from agenteval.trial.trial import Limits

ROUNDS = 5
TESTS = Path(__file__).parents[1]


def ratios(
    works: Mapping[str, Callable[[], float]], reference: str, rounds: int = ROUNDS
) -> dict[str, float]:
    """Of each work, the median of its ratios to the reference of the same round."""
    found = [{name: work() for name, work in works.items()} for _ in range(rounds)]
    return {name: median(one[name] / one[reference] for one in found) for name in works}


@pytest.fixture(autouse=True)
def untraced(monkeypatch) -> None:
    """What is measured is a process without coverage, which takes times as long."""
    for name in [*os.environ]:
        if name.startswith(("COV_", "COVERAGE")):
            monkeypatch.delenv(name)


def test_a_verdict_costs_at_most_so_many_parses_of_tree_sitter_and_less_than_bashlex() -> None:
    command = "import json, test_budgets; print(json.dumps(test_budgets.read_and_judged()))"
    path = os.pathsep.join((str(TESTS), str(TESTS / "bench")))
    told = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(told.stdout)
    assert found["verdict"] < 15, found
    assert found["verdict"] < found["bashlex"], found


def read_and_judged() -> dict[str, float]:
    texts = bench_classify.corpus(bench_classify.OWN)[::10]

    def reading(read: Callable[[str], object]) -> Callable[[], float]:
        return lambda: sum(bench_classify.seconds(read, text) for text in texts)

    return ratios(
        {
            "parse": reading(bench_classify.parse_tree),
            "verdict": reading(bench_classify.verdict),
            "bashlex": reading(bench_classify.parse_bashlex),
        },
        "parse",
    )


@pytest.mark.slow
def test_a_command_that_needs_no_model_starts_without_the_client_of_models() -> None:
    """Importing openai alone takes longer than either command."""
    found = ratios(
        {
            "bare": lambda: started("-c", ""),
            "classify": lambda: started("-m", "agenteval", "classify", "ls"),
            "show": lambda: started("-m", "agenteval", "show"),
            "openai": lambda: started("-c", "import openai"),
        },
        "bare",
    )
    assert found["classify"] < 25, found
    assert found["show"] < 25, found
    assert max(found["classify"], found["show"]) < found["openai"], found


@pytest.mark.slow
async def test_a_call_on_a_python_that_is_there_costs_less_than_a_start() -> None:
    backends = {"plain": False, "pre-forked": True}
    if not (await probe(BACKENDS["bubblewrap"]())).works:
        pytest.skip("bubblewrap does not work here")
    calls, found = 30, []
    async with AsyncExitStack() as stack:
        worlds = {
            name: await stack.enter_async_context(
                BACKENDS["bubblewrap"](prefork=prefork).open(bench_sandbox.FILES, Limits())
            )
            for name, prefork in backends.items()
        }
        for _ in range(ROUNDS):
            spent = {}
            for name, world in worlds.items():
                before = bench_sandbox.spent_cpu()
                for _ in range(calls):
                    await world.run(bench_sandbox.SCRIPT)
                spent[name] = bench_sandbox.spent_cpu() - before
            found.append(spent["pre-forked"] / spent["plain"])
    assert median(found) < 0.7, found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("stream", "most"), [(False, 1.1), (True, 0.7)], ids=["whole", "pieces"])
async def test_a_call_with_all_its_work_costs_about_what_a_bare_loop_of_the_sdk_does(
    stream, most
) -> None:
    """The loop judges, contains, stores and checks nothing."""

    def shares(url: str) -> list[float]:
        found = []
        with recorded(url, 10) as trial:
            for _ in range(3):
                own = [agenteval(url, 10, count, stream=stream) for count in (FEW, 4 * FEW)]
                bare = [
                    peer_played(OWN_OPENAI, url, trial, 10, count, stream=stream)
                    for count in (FEW, 4 * FEW)
                ]
                found.append(cost(*own).own / cost(*bare).own)
        return found

    async with mock() as url:
        found = await asyncio.to_thread(shares, url)
    assert median(found) < most, found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reading_four_times_the_calls_costs_at_most_about_four_times_as_much(tmp_path) -> None:
    sizes = {"few": 10_000, "many": 40_000}
    for name, calls in sizes.items():
        words = ["--make", str(tmp_path / name), str(calls)]
        command = [sys.executable, bench_reading.__file__, *words]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(TESTS)})

    def shown(name: str) -> float:
        words = ["show", bench_reading.FIRST, "--store", str(tmp_path / name)]
        return bench_reading.spent(words)[0] - started("-m", "agenteval", "show")

    found = ratios({name: lambda name=name: shown(name) for name in sizes}, "few")
    assert found["many"] < 7, found
