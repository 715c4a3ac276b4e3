"""Every sentence of a report, once: the words of golden/sentences.txt are in no other test here."""

from dataclasses import replace

import pytest

from agenteval.report.build import build_comparison, build_counts_view, build_view
from agenteval.report.sentences import Side
from agenteval.stats.rates import Estimand
from agenteval.testing import card, denied, run, says, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.run import Source
from agenteval.trial.trial import ErrorCounts

LIST = "uv run notes.py list"


def erring(name, errors, trials=12, *, calls=5, scenarios=1, **known):
    """A run whose first trials begin with a denial each; those do not complete."""
    played = [
        trial(
            denied("ls") if at < errors else LIST,
            *[LIST] * (calls - 1),
            number=at + 1,
            scenario=f"notes-{at % scenarios}",
            outcome=Outcome.STALLED if at < errors else Outcome.COMPLETED,
        )
        for at in range(trials)
    ]
    return run(*played, model=card(name, **known), run_id=name)


def void(number):
    return trial(number=number, ending=Ending.BROKEN, outcome=Outcome.VOID, reason="500")


def architectures(number):
    sides = [erring(f"m{at}", 8, architecture="moe") for at in range(number)]
    sides += [erring(f"d{at}", 1 + at, architecture="dense") for at in range(number)]
    return build_comparison(list(map(Side.of_run, sides)))


def pair(first, second, **known):
    return build_view([erring("a", *first), erring("b", *second)], **known)


def compared(*errors):
    runs = [erring(name, count) for name, count in zip("abc", errors, strict=False)]
    return build_comparison(list(map(Side.of_run, runs)))


def counts(errors, calls):
    return ErrorCounts((calls,), {"x": (errors,)}, by_trial=False)


def by_trial(name, *clusters, scenarios=()):
    """Counts of trials: of each its errors, of its calls."""
    counts = ErrorCounts.added([(n, {"x": errors}) for errors, n in clusters])
    return Side.of_counts(card(name), counts, scenarios)


def table(name, errors, calls, architecture):
    return Side.of_counts(card(name, architecture=architecture), counts(errors, calls))


def unlike(first, second):
    """Two runs that differ in more than their errors."""
    runs = erring("a", 3), erring("b", 3)
    both = [replace(run, **known) for run, known in zip(runs, (first, second), strict=True)]
    return build_view(both)


def other_worlds():
    first, second = erring("a", 3), erring("b", 3)
    trials = tuple(replace(one, seed=one.seed + 1) for one in second.trials)
    return build_view([first, replace(second, trials=trials, seed=8)])


def ended(name, outcome):
    trials = [trial("ls" if name == "works" else says("?"), number=n, outcome=outcome)
              for n in range(1, 21)]  # fmt: skip
    return Side.of_run(run(*trials, run_id=name, model=card(name)))


@pytest.fixture
def situations(runs):
    silent = run(trial(says("No.")), model=card("silent"))
    heavy = run(
        *(trial(*[denied("ls")] * (40 if at == 1 else 0), LIST, number=at) for at in range(1, 9)),
        model=card("heavy"),
    )
    logs = run(
        trial("ls", outcome=Outcome.NOT_OBSERVABLE), source=Source("claude-code", judged=True)
    )
    usual = [(0, 8), (1, 7), (0, 9), (0, 6), (1, 8), (0, 8), (0, 7)]
    drawn = {name: [(int(at % 8 < errors), 8) for at in range(40)] for name, errors in
             (("a", 2), ("b", 3))}  # fmt: skip
    names = [f"s{at % 10}" for at in range(40)]
    return {
        "three runs": build_view(runs),
        "a settled pair": pair((12, 12), (0, 12)),
        "an open pair": pair((2, 12), (0, 12)),
        "the second errs more": pair((0, 12), (12, 12)),
        "an equal pair": pair((3, 12), (3, 12)),
        "scenarios like these": pair((2, 12), (0, 12), about=Estimand.LIKE),
        "some worlds shared": pair((2, 12), (4, 9)),
        "one trial": build_view([erring("a", 0, 1)]),
        "without a call": build_view([silent, erring("b", 1, 3)]),
        "no run played": build_view([run()]),
        "many void trials": build_view([run(trial(LIST), void(2), void(3), model=card("b"))]),
        "one heavy trial": build_view([heavy]),
        "out of logs": build_view([logs]),
        "other rules": unlike({}, {"policies": {"notes": "sha256:1"}, "max_turns": 5}),
        "another taxonomy and sandbox": unlike({}, {"taxonomy": "2", "sandbox": "container"}),
        "one model at another concurrency": unlike({"model": card("b")}, {"concurrency": 1}),
        "other worlds": other_worlds(),
        "no scenario in common": build_view(
            [erring("a", 1), run(trial(LIST, scenario="else"), model=card("c"))]
        ),
        "simulated beside real": unlike({}, {"model": card("b", simulated=True)}),
        "a settled comparison": compared(12, 0),
        "an open comparison": compared(3, 2, 2),
        "an equal comparison": compared(4, 4),
        "a comparison without errors": compared(0, 0),
        "few architectures": architectures(2),
        "many architectures": architectures(4),
        "settled architectures": build_comparison(
            [
                table(f"{kind}{at}", errors, 100, kind)
                for at in range(4)
                for kind, errors in (("moe", 60 + at), ("dense", 1))
            ]
        ),
        "unlike sizes of architectures": build_comparison(
            [table("A", 60, 150, "moe"), table("B", 60, 3000, "moe"), table("C", 60, 600, "dense")]
        ),
        "a model without a call": build_comparison(
            [ended("works", Outcome.COMPLETED), ended("stalls", Outcome.STALLED)]
        ),
        "counts and a run": build_comparison(
            [Side.of_counts(card("table"), counts(5, 100)), Side.of_run(erring("b", 4))]
        ),
        "counts alone": build_counts_view("T", {"a": counts(19, 158), "b": counts(9, 161)}),
        "a runaway trial": build_comparison(
            [by_trial("a", *usual, (30, 200)), by_trial("b", *usual, (1, 8))]
        ),
        "errors per trial the other way": build_comparison(
            [by_trial("a", *[(2, 20)] * 30), by_trial("b", *[(1, 5)] * 30)]
        ),
        "counts of scenarios like these": build_comparison(
            [by_trial(name, *of, scenarios=names) for name, of in drawn.items()],
            about=Estimand.LIKE,
        ),
    }


def test_each_situation_has_its_sentences(situations, golden):
    lines = []
    for name, view in situations.items():
        lines += ["", f"# {name}"]
        for part in ("warnings", "sentences", "short"):
            lines += [f"{part}: {line}" for line in getattr(view, part)]
    golden("sentences.txt", "\n".join(lines[1:]) + "\n")
