"""What a reader follows through the house leads downwards: from executor to verdict, and a gate."""

import asyncio
import json

import pytest
from bounds import WALKS
from survey import House
from walks import Walk, walked

from agenteval.classes import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.trust import roots
from agenteval.play.second_reader import SecondReader
from agenteval.play.trial import ToolExecutor
from agenteval.policy.policy import World
from agenteval.prompt.arm import STRICT
from agenteval.protocols import TrialKey
from agenteval.store.sql import SqlStore
from agenteval.testing import denied, run, says, trial
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Execution, Limits, Trial
from agenteval.workflows import gate


@pytest.fixture(scope="module")
def house() -> House:
    return House()


class Still:
    """A sandbox in which every program ends at once."""

    async def run(self, argv) -> Execution:
        return Execution(0, "", 0.0)


async def handled(text: str) -> Walk:
    policy = load_policy("notes", roots=roots())
    call = ToolCall("1", "bash", json.dumps({"command": text}), {"command": text})
    async with SecondReader(5) as reader:
        executor = ToolExecutor(
            STRICT, policy, World(), Still(), judge, reader, Limits(), asyncio.Semaphore(1)
        )
        await executor.handle(0, 0, call)
        with walked() as walk:
            await executor.handle(0, 0, call)
    return walk


@pytest.mark.parametrize(
    "text",
    [
        "uv run scripts/notes.py list",
        "uv run scripts/notes.py list 2>&1 | head -5",
        "timeout 5 bash -c 'uv run scripts/notes.py lsit --x' && cat <<EOF\nx\nEOF",
    ],
)
async def test_from_the_executor_to_a_verdict_a_call_climbs_seldom(house: House, text) -> None:
    walk = await handled(text)
    assert "agenteval.classes.judge" in walk.modules
    assert within(WALKS["a verdict"], walk, house) == []


def within(bound: tuple[int, int], walk: Walk, house: House) -> list[str]:
    """Return what a walk has beyond its bound: modules passed through, and steps back up."""
    modules, climbs = bound
    problems = [] if len(walk.climbs(house)) <= climbs else walk.climbs(house)
    return problems if len(walk.modules) <= modules else [*problems, *sorted(walk.modules)]


def stored(store: SqlStore, run_id: str, *trials: Trial) -> None:
    made = run(*trials, run_id=run_id)
    store.add(made)
    recorder = store.recorder(made, {"notes": "sha256:0f0f"})
    for one in trials:
        key = TrialKey(one.scenario, one.number, one.seed)
        recorder.begin(key)
        for number, turn in enumerate(one.turns):
            recorder.turn(key, number, turn)
        for record in one.calls:
            recorder.call(key, record)
        recorder.finish(key, one)
    store.close_run(run_id, complete=True, second_reader={})


def test_a_whole_trial_is_read_in_one_file(house: House) -> None:
    classes = {"TrialRunner", "AgentLoop", "ToolExecutor", "RetryingModel"}
    assert classes <= {*house.modules["agenteval.play.trial"].public_names}


def test_from_its_two_runs_to_its_verdict_a_gate_climbs_seldom(house: House, tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = SqlStore(url)
    calls = ["uv run notes.py list", denied("ls -la"), says("Done.")]
    for name in ("before", "after"):
        stored(store, name, *(trial(*calls, number=number) for number in (1, 2, 3)))
    store.close()
    gate.judged("before", "after", None, url, allow_simulated=True)  # imports what it needs
    with walked() as walk:
        gate.judged("before", "after", None, url, allow_simulated=True)
    assert {"agenteval.store.summaries", "agenteval.stats.promotion"} <= walk.modules
    assert within(WALKS["a gate"], walk, house) == []


def test_a_call_back_up_is_seen(house: House) -> None:
    walk = Walk({("agenteval.shell.gate", "agenteval.trial.call"): "f"})
    down = Walk({("agenteval.trial.call", "agenteval.shell.gate"): "f"})
    assert walk.climbs(house) == ["agenteval.shell.gate -> agenteval.trial.call.f"]
    assert down.climbs(house) == []
