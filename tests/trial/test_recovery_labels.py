"""What became of denials, as a person reads it, and as it is counted."""

import json
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agenteval.shell.gate import Span
from agenteval.testing import ALLOWED, says, tool, trial
from agenteval.trial.call import Denied, Ending, Finding, ToolCall
from agenteval.trial.recovery import recoveries
from agenteval.trial.trial import CallRecord, Trial

ARGUMENT = re.compile(r"""(\w+)=(?:"([^"]*)"|(\S+))""")
FILE = Path(__file__).parent / "recovery_transcripts.txt"


@dataclass(frozen=True)
class Labelled:
    name: str
    turns: tuple[str, ...]
    ending: Ending
    labels: tuple[str, ...]


def read() -> list[Labelled]:
    _, *blocks = re.split(r"^# ", FILE.read_text(), flags=re.MULTILINE)
    return [_labelled(*block.strip().split("\n")) for block in blocks]


def _labelled(name: str, *lines: str) -> Labelled:
    *turns, labels = lines
    reached = turns[-1] == "(goal)"
    ending = Ending.GOAL if reached else Ending.STOPPED
    return Labelled(
        name, tuple(turns[: -1 if reached else None]), ending, tuple(labels[2:].split())
    )


def made(one: Labelled, chance: random.Random | None = None) -> tuple[Trial, list[int]]:
    """The trial, its parallel calls shuffled; and which of its denials stands at each place."""
    turns, records, order, before = [], [], [], 0
    for number, line in enumerate(one.turns):
        if line.startswith('"'):
            turns.append(trial(says(line[1:])).turns[0])
            continue
        calls = [_call(number, text.strip()) for text in line.split(" ;; ")]
        denied = [at for at, record in enumerate(calls) if not record.verdict.allowed]
        places = [*range(len(calls))]
        if chance:
            chance.shuffle(places)
        records += [
            CallRecord(number, at, calls[place].call, calls[place].verdict, "x")
            for at, place in enumerate(places)
        ]
        order += [before + denied.index(place) for place in places if place in denied]
        before += len(denied)
        turns.append(trial(tuple(tool("x") for _ in calls)).turns[0])
    return replace(trial(ending=one.ending), turns=tuple(turns), calls=tuple(records)), order


def _call(turn: int, text: str) -> CallRecord:
    verdict = ALLOWED
    if text.startswith("!"):
        failure_class, _, text = text[1:].partition(" ")
        verdict = Denied((Finding(failure_class, Span(0, 0, "")),))
    return CallRecord(turn, 0, _tool_call(text), verdict, "x")


def _tool_call(text: str) -> ToolCall:
    if text.startswith(">"):
        name, arguments = "read", {"path": text[1:]}
    elif text.startswith("@"):
        name, _, told = text[1:].partition(" ")
        if told.startswith("{"):
            return ToolCall("", name, told, malformed="no JSON")
        arguments = {name: a or b for name, a, b in ARGUMENT.findall(told)}
    else:
        name, arguments = "bash", {"command": text}
    return ToolCall("", name, json.dumps(arguments), arguments)


TRANSCRIPTS = read()


@pytest.mark.parametrize("one", TRANSCRIPTS, ids=lambda one: one.name)
def test_a_denial_is_counted_as_a_person_reads_it(one):
    played, _ = made(one)
    assert [str(kind) for kind in recoveries(played)] == [*one.labels]


@pytest.mark.parametrize("one", TRANSCRIPTS, ids=lambda one: one.name)
def test_the_order_of_the_calls_of_a_turn_changes_nothing(one):
    for seed in range(6):
        played, order = made(one, random.Random(seed))
        assert [str(kind) for kind in recoveries(played)] == [one.labels[at] for at in order]
