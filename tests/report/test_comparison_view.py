"""What is compared, and what is said of it."""

from dataclasses import replace

import numpy as np
import pytest

from agenteval.report import files
from agenteval.report import json as json_view
from agenteval.report.build import build_comparison
from agenteval.report.pairs import pair_tables
from agenteval.report.sentences import Side
from agenteval.testing import card, denied, run, says, trial
from agenteval.trial.call import Outcome
from agenteval.trial.summary import summarize
from agenteval.trial.trial import ErrorCounts

LIST = "uv run notes.py list"


def side(name, errors, *, calls=6, trials=12, architecture="", **known):
    """A run whose first trials begin with a denial each; those complete nothing."""
    made = [
        trial(
            *([denied("ls")] if at < errors else [LIST]),
            *[LIST] * (calls - 1),
            says("Here."),
            number=at + 1,
            outcome=Outcome.STALLED if at < errors else Outcome.COMPLETED,
        )
        for at in range(trials)
    ]
    settings = {"model": card(name, architecture=architecture)} | known
    return Side.of_run(run(*made, **settings))


def figures(view):
    return {one.label: one.difference for one in view.pairs[0].figures}


def test_sides_of_tallies_and_of_whole_runs_are_the_same():
    whole = side("a", 3)
    light = Side.of_stored(replace(whole.run, trials=()), map(summarize, whole.run.trials))
    assert (light.errors, light.score) == (whole.errors, whole.score)


def test_every_figure_of_a_pair_has_its_difference():
    found = figures(build_comparison([side("a", 9), side("b", 2)]))
    values = {label: round(gap.value, 3) for label, gap in found.items() if gap}
    assert values == {
        "errors per 100 calls": 0.097,
        "errors per trial": 0.583,
        "trials with a denial": 0.583,
        "trials completed": -0.583,
        "recovered in the next turn": 0.0,
        "recovered ever": 0.0,
        "turns burned on denials": 0.083,
        "denied after a denial": 0.0,
        "denied after none": 0.0,
    }
    assert [label for label, gap in found.items() if gap is None] == ["handshakes completed"]
    assert {gap.paired for gap in found.values() if gap} == {True}


def test_trials_that_are_void_for_one_are_left_out_for_both():
    first, second = side("a", 4), side("b", 4)
    broken = [replace(one, outcome=Outcome.VOID) for one in second.run.trials[:3]]
    second = Side.of_run(replace(second.run, trials=(*broken, *second.run.trials[3:])))
    gap = figures(build_comparison([first, second]))["errors per 100 calls"]
    assert (gap.paired, gap.first.n, gap.second.n, gap.first.count) == (True, 54, 54, 1)


def names(groups):
    return [[name for name, _ in of] for of in groups.models]


def test_architectures_are_told_model_by_model_where_there_are_few():
    moe = [side(name, 8, architecture="moe") for name in ("m1", "m2")]
    dense = [side(name, 1, architecture="dense") for name in ("d1", "d2")]
    groups = build_comparison([*moe, *dense]).groups
    assert (names(groups), groups.others) == ([["m1", "m2"], ["d1", "d2"]], None)
    assert build_comparison([moe[0], dense[0]]).groups is None
    assert build_comparison(moe).groups is None


def test_a_second_run_of_a_model_is_no_second_model():
    first = side("m1", 8, architecture="moe")
    again = replace(first, run=replace(first.run, id="r2"))
    view = build_comparison([first, again, *(side(n, 1, architecture="dense") for n in "de")])
    assert names(view.groups) == [["m1"], ["d", "e"]]
    assert view.groups.models[0][0][1].count == 16


def table(name, errors, calls, architecture, served=""):
    known = card(name, architecture=architecture)
    counts = ErrorCounts((calls,), {"x": (errors,)}, by_trial=False)
    return Side.of_counts(replace(known, served_id=served or known.served_id), counts)


def test_models_that_are_served_under_one_name_stay_apart():
    sides = [table(name, 9, 100, "moe", "local") for name in "ab"]
    groups = build_comparison([*sides, table("c", 5, 100, "dense", "local")]).groups
    assert names(groups) == [["a", "b"], ["c"]]


@pytest.mark.slow
def test_identical_models_are_seldom_said_to_differ_in_anything():
    """Trials of three classes of errors, drawn here; one by one, a fifth of the reports claimed."""
    rng, false = np.random.default_rng(3), 0
    for _ in range(40):
        sides = []
        for name in "abc":
            rates = rng.dirichlet([0.4, 0.4, 0.4, 8], size=30)
            calls = rng.integers(4, 12, 30)
            drawn = [rng.multinomial(n, of)[:3] for n, of in zip(calls, rates, strict=True)]
            trials = [
                (int(n), dict(zip("xyz", map(int, errors), strict=True)))
                for n, errors in zip(calls, drawn, strict=True)
            ]
            sides.append(Side.of_counts(card(name), ErrorCounts.added(trials)))
        false += any(line.startswith("Settled") for line in build_comparison(sides).sentences)
    assert false <= 4


def test_every_claim_of_a_report_is_corrected_for_all_of_them():
    view = build_comparison(
        [side(name, count) for name, count in zip("abc", (9, 2, 0), strict=True)]
    )
    one, other, third = view.pairs
    # Three numbers and completions, the kinds and recoveries of one pair, two classes with errors.
    assert {pair.family_size for pair in view.pairs} == {10}
    assert one.classes[0].adjusted >= one.classes[0].difference.p
    assert third.classes[0].adjusted == 1  # two errors settle nothing
    assert other.adjusted == pytest.approx(other.difference.p * view.pairs[0].family_size, rel=0.5)


def test_counts_beside_a_run_have_no_figures_of_trials():
    counts = ErrorCounts((100,), {"bare-binary": (5,)}, by_trial=False)
    view = build_comparison([Side.of_counts(card("table"), counts), side("b", 4)])
    assert "Not observable in counts: errors per trial" in files.markdown_text(view)
    assert [one.label for one in view.runs] == ["b"]


def test_counts_by_trial_are_clustered_by_it():
    one, other = ErrorCounts.of([["x", None]] * 9), ErrorCounts.of([[None] * 2] * 9)
    view = build_comparison([Side.of_counts(card(n), c) for n, c in (("a", one), ("b", other))])
    assert (view.pairs[0].by_trial, view.warnings) == (True, ())
    assert figures(view)["errors per trial"].value == 1.0


def test_runs_of_one_model_are_labelled_by_what_differs_and_else_by_their_ids():
    sweep = build_comparison([side("a", 3, concurrency=level) for level in (1, 2)])
    alike = build_comparison([side("a", 3, run_id=run_id) for run_id in ("r1", "r2")])
    assert [[one.label for one in view.models] for view in (sweep, alike)] == [
        ["concurrency 1", "concurrency 2"],
        ["r1", "r2"],
    ]
    assert sweep.title == "Tool-call errors by failure class, these scenarios, a"


def test_beside_another_model_such_labels_have_the_name_too():
    sides = [side("a", 3, concurrency=1), side("a", 3, concurrency=2), side("b", 3)]
    view = build_comparison(sides)
    assert ([one.label for one in view.models], view.title) == (
        ["a (concurrency 1)", "a (concurrency 2)", "b"],
        "Tool-call errors by failure class, these scenarios",
    )


def test_of_a_model_that_made_no_call_how_its_trials_ended_is_compared():
    works = run(*(trial("ls", number=n) for n in range(1, 21)), run_id="a", model=card("a"))
    stalls = [trial(says("?"), number=n, outcome=Outcome.STALLED) for n in range(1, 21)]
    sides = map(Side.of_run, (works, run(*stalls, run_id="b", model=card("b"))))
    view = build_comparison([*sides])
    assert json_view.document(view)["pairs"][0]["calls_needed"] is None
    assert [one.title for one in pair_tables(view)] == ["a against b"]
