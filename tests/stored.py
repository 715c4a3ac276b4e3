"""Runs written into a store as they are played: trial by trial, each turn before its calls."""

from contextlib import closing
from dataclasses import replace
from itertools import groupby

from agenteval.protocols import TrialKey
from agenteval.store.sql import SqlStore
from agenteval.store.write import RunRecorder
from agenteval.trial.run import Run
from agenteval.trial.trial import AgentPart, Trial


class _AnyPolicy(dict):
    def __missing__(self, name: str) -> str:
        return "sha256:0f0f"


def stored(store: str, *runs: Run, in_flight: bool = False) -> str:
    """Add the runs to the store at this place; the last trial of each may be `in_flight`."""
    with closing(SqlStore(store)) as opened:
        for run in runs:
            opened.add(replace(run, trials=()))
            recorder = opened.recorder(run, _AnyPolicy())
            for trial in run.trials:
                play(recorder, trial, finish=not in_flight or trial is not run.trials[-1])
            if run.complete:
                opened.close_run(run.id, complete=True, second_reader={}, effort=run.effort)
    return store


def play(recorder: RunRecorder, trial: Trial, *, finish: bool = True) -> None:
    key = TrialKey(trial.scenario, trial.number, trial.seed)
    recorder.begin(key)
    _act(recorder, key, trial, "")
    for part in trial.agents:
        _act(recorder, key, part, part.label)
    if finish:
        recorder.finish(key, trial)


def _act(recorder: RunRecorder, key: TrialKey, acted: Trial | AgentPart, agent: str) -> None:
    made = {turn: list(calls) for turn, calls in groupby(acted.calls, lambda one: one.turn)}
    for number, turn in enumerate(acted.turns):
        recorder.turn(key, number, turn, agent=agent)
        for record in made.get(number, ()):
            recorder.call(key, record, agent=agent)
