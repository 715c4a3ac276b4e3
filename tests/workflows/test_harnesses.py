"""What a run keeps of the trials that a real harness played."""

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace

from agenteval.harness.install import Installed
from agenteval.harness.recipes import programs
from agenteval.workflows.harnesses import Harness


class Named(SimpleNamespace):
    """A part of a trial that can be looked for."""


def test_a_run_keeps_what_it_tells_of_a_trial_and_neither_its_world_nor_its_turns() -> None:
    harness = Harness(Installed(programs()["claude-code"], Path(), "", ""), own="rules")
    trial = Named(
        scenario=SimpleNamespace(name="mail/draft", limits=SimpleNamespace(trial_seconds=1.0)),
        key=SimpleNamespace(seed=1),
        model=SimpleNamespace(insist=None),
    )
    sandbox = Named()
    executor = SimpleNamespace(policy=SimpleNamespace(tools={}), sandbox=sandbox, decide=None)
    hosting = SimpleNamespace(ways={id(sandbox): None})
    prompt = SimpleNamespace(task="the task")
    loop = harness.loop(hosting, None, trial, "", prompt, 9, executor)
    loop.played.cpu, loop.played.refused = 2.0, 1
    gone = [weakref.ref(one) for one in (trial, sandbox)]
    del loop, trial, executor, sandbox
    gc.collect()
    assert [one() for one in gone] == [None, None]
    assert [*harness.lines_after_run()][1:] == [
        "claude-code: 2.0 s of CPU in 1 trials, of which 2.0 s in the median one",
        "claude-code: 1 attempts of commands to ask the model were refused",
    ]
