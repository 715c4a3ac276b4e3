"""What a gate that looks at a run under way is given: comparable runs, and trials played again."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agenteval.errors import UsageError
from agenteval.protocols import TrialKey
from agenteval.stats.criteria import Rules
from agenteval.testing import card, run, trial
from agenteval.trial.run import FITTED, GRAMMAR, Conditions
from agenteval.trial.summary import RunSummary, summarize
from agenteval.workflows.evaluate import Session
from agenteval.workflows.gate import InterimLooks

BEFORE = run(trial("ls"), run_id="base", model=card("base"))
BASELINE = RunSummary.of(BEFORE, tuple(map(summarize, BEFORE.trials)))


def test_a_run_on_a_server_that_hides_errors_is_refused_before_it_begins() -> None:
    baseline = replace(BASELINE, conditions=Conditions(cannot_occur=()))
    fitted = run(run_id="next", model=card("next", seen={GRAMMAR: FITTED}), trials_planned=60)
    watch = InterimLooks(Rules(0.03), baseline, allow_simulated=True)
    with pytest.raises(UsageError, match="were served unlike: a grammar"):
        watch.check(fitted, [].append)


def test_never_is_said_of_trials_that_are_planned_and_not_of_calls_that_are_guessed() -> None:
    planned = run(run_id="next", model=card("next"), trials_planned=60)
    watch = InterimLooks(Rules(0.9, trials=2, calls=200), BASELINE, allow_simulated=True)
    said: list[str] = []
    watch.check(planned, said.append)
    trials, calls = (
        next(line for line in said if f"minimum.{of}" in line) for of in ("trials", "calls")
    )
    assert "this run can never PASS. minimum.trials: 1 trial cannot pass" in trials
    assert "cannot PASS if the candidate makes as many calls a trial as the baseline." in calls
    assert "never" not in calls


@pytest.mark.parametrize("stops", [False, True])
def test_void_trials_are_played_again_before_the_look_that_counts_them(*, stops: bool) -> None:
    keys = [TrialKey("s", number, number) for number in range(4)]
    done: list[object] = []

    async def play(chosen) -> None:
        done.append([one.number for one in chosen])

    def settled(*_: object) -> bool:
        done.append("look")
        return stops

    session = SimpleNamespace(
        shard=None,
        watch=SimpleNamespace(blocks=lambda all_: [all_[:2], all_[2:]], settled=settled),
        plan=SimpleNamespace(retry_void=True, resume=None),
        store=SimpleNamespace(set_aside=lambda _, *, voids: [("s", 1)] if voids else []),
        progress=SimpleNamespace(note=print),
    )
    asyncio.run(Session._play_blocks(session, BEFORE, keys, play))  # type: ignore[arg-type]
    first = [[0, 1], [1], "look"]
    assert done == (first if stops else [*first, [2, 3], [1], "look"])


def test_the_command_that_is_told_judges_by_the_same_rules() -> None:
    asked = [
        InterimLooks(Rules(0.03), BASELINE, allow_simulated=True, source=Path("strict.toml")),
        InterimLooks(Rules(0.03), BASELINE, allow_simulated=False),
    ]
    assert [one.options for one in asked] == [" --gate strict.toml --allow-simulated", ""]
