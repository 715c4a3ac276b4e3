from dataclasses import replace

from agenteval.report.tables import FAULTY, arrived
from agenteval.testing import says, trial
from agenteval.trial.call import Blame, MalformedCall, Outcome, Repair
from agenteval.trial.tally import Tallies

FAULTS = {"broken-json", "call-in-text"}
BROKEN = MalformedCall("broken-json", Blame.MODEL, "{", "why", 0)
OTHER = MalformedCall("broken-json", Blame.PARSER, "{", "why", 0)
NOTE = MalformedCall("object-arguments", Blame.SERVER, "{}", "why", 1)
LEFT = MalformedCall("call-in-text", Blame.PARSER, "<tool_call>", "why")


def played(*malformed: MalformedCall, repairs: tuple[Repair, ...] = (), **known: object):
    """Two calls in the first turn, and words in the second, with these malformed calls in both."""
    made = trial(("a", "b"), says("Done."), **known)
    first, second = made.turns
    first = replace(
        first, malformed=tuple(g for g in malformed if g.position is not None), repairs=repairs
    )
    second = replace(second, malformed=tuple(g for g in malformed if g.position is None))
    return replace(made, turns=(first, second))


def test_a_call_counts_once_a_kind_and_lost_ones_are_among_the_calls_that_were_tried() -> None:
    mended = Repair(0, "arguments", "{", "{}")
    counts = arrived(
        Tallies.of(
            [
                played(BROKEN, OTHER, NOTE, repairs=(mended,)),
                played(LEFT, LEFT),
                played(),
                played(BROKEN, outcome=Outcome.VOID),
            ]
        ).counted
    )
    assert (
        {kind: counts.kinds.clusters(kind) for kind in (*FAULTS, "object-arguments")},
        {blame: counts.blames.clusters(blame) for blame in Blame},
        counts.faulty.clusters(FAULTY),
        counts.repairs,
    ) == (
        {
            "broken-json": ((1, 2), (0, 4), (0, 2)),
            "call-in-text": ((0, 2), (2, 4), (0, 2)),
            "object-arguments": ((1, 2), (0, 4), (0, 2)),
        },
        {
            Blame.MODEL: ((1, 2), (0, 4), (0, 2)),
            Blame.PARSER: ((1, 2), (2, 4), (0, 2)),
            Blame.PROMPT: ((0, 2), (0, 4), (0, 2)),
            Blame.HARNESS: ((0, 2), (0, 4), (0, 2)),
            Blame.SERVER: ((0, 2), (0, 4), (0, 2)),
        },
        ((1, 2), (2, 4), (0, 2)),
        1,
    )
