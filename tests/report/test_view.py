"""What the view is made of, and what is said from it."""

import json
import re
from dataclasses import replace
from random import Random

import pytest

from agenteval.errors import Cause
from agenteval.report.build import (
    FEWER_ERRORS,
    MORE_GOALS,
    build_comparison,
    build_view,
)
from agenteval.report.details import detail_tables
from agenteval.report.figures import denial_tables
from agenteval.report.json import dumps
from agenteval.report.pairs import COMPLETED
from agenteval.report.provenance import agent_tables, provenance_table
from agenteval.report.sentences import Side
from agenteval.report.tables import WITH_VOIDS, comparison_table
from agenteval.testing import card, denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.run import ArmCard

LIST = "uv run notes.py list"
BARE = ArmCard("taught/tools", 1, "ours", "five", 5, 29, 4100, "bare", "", "")


def many(errors, calls, trials, **known):
    """A run in which the first trials make one error each."""
    made = [
        trial(*([denied("ls")] if at < errors else [LIST]), *[LIST] * (calls - 1), number=at + 1)
        for at in range(trials)
    ]
    return run(*made, **known)


def test_two_runs_of_one_model_are_told_apart_by_their_ids(runs):
    again = build_view([runs[2], run(model=runs[2].model, run_id="r9")])
    assert [model.label for model in again.models] == ["r3", "r9"]


def test_rows_stand_in_the_given_order_and_unlisted_ones_after(runs, view):
    assert view.rows[0].id == "hallucinated-tool"
    bare = build_view(runs)
    assert [row.id for row in bare.rows] == sorted(row.id for row in bare.rows)


def test_rows_add_up_to_the_total_whatever_they_are_called(runs):
    fold = {"pipe-to-filter": "bash", "shell-chain": "bash", "hallucinated-tool": "tool"}
    for view in (build_view(runs), build_view(runs, fold=fold)):
        for model in view.models:
            assert sum(rate.count for rate in model.rows.values()) == model.total.count
    assert [row.id for row in build_view(runs, fold=fold).rows] == [
        "bash",
        "tool",
        "unlisted-script",
    ]


def test_of_two_alone_fewer_claims_are_corrected_for(runs):
    two = build_view(runs[:2])
    assert [line.split(":")[0] for line in two.short[2:4]] == [
        f"sim/dense {does} sim/moe" for does in (MORE_GOALS, FEWER_ERRORS)
    ]


def test_the_last_lines_tell_the_difference_that_a_comparison_tells(runs):
    (pair,) = build_comparison([Side.of_run(one) for one in runs[:2]]).pairs
    goals = next(one for one in pair.figures if one.label == COMPLETED).difference
    told = build_view(runs[:2]).short[2:4]
    for line, gap in zip(told, (goals, pair.difference), strict=True):
        low, high = sorted((abs(gap.low), abs(gap.high)))
        by = round(100 * abs(gap.value))
        assert re.search(rf": {by} .* \({round(100 * low)} to {round(100 * high)}\)", line)


def drawn(chance, name, *, completes, errs):
    """A run of 20 trials of three calls, of a model whose rates are known."""
    ends = (Outcome.STALLED, Outcome.COMPLETED)
    return run(
        *(
            trial(
                *(denied("ls") if chance.random() < errs else "ls" for _ in range(3)),
                outcome=ends[chance.random() < completes],
                number=number,
            )
            for number in range(1, 21)
        ),
        model=card(name),
    )


def told_of(truths, *, times):
    """How often the last lines say that one does better, in so many reports of these models."""
    chance = Random(14)
    reports = (
        build_view([drawn(chance, name, **truth) for name, truth in truths.items()]).short
        for _ in range(times)
    )
    found = [" ".join(lines) for lines in reports]
    words = (MORE_GOALS, FEWER_ERRORS)
    return [sum(word in one for one in found) for word in words], found


def test_of_equal_models_the_last_lines_rarely_say_that_one_is_better():
    equal = {"completes": 0.7, "errs": 0.2}
    (goals, errors), found = told_of({"one": equal, "two": equal}, times=16)
    assert goals + errors <= 3  # with 5 in a hundred, more than 3 of 16 come once in a hundred
    assert errors + sum("Not known: who makes" in one for one in found) >= 13


def test_of_unequal_models_the_last_lines_say_which_is_better():
    worse, better = {"completes": 0.3, "errs": 0.5}, {"completes": 0.9, "errs": 0.1}
    (goals, errors), found = told_of({"one": worse, "two": better}, times=5)
    assert (goals, errors) == (5, 5)
    assert all(f"two {FEWER_ERRORS} one" in one for one in found)
    assert all(f"two {MORE_GOALS} one" in one for one in found)


@pytest.mark.parametrize(("voids", "both"), [(0, []), (2, []), (3, [(3, 103), (6, 106)])])
def test_where_more_than_two_in_100_are_void_the_total_is_told_with_them_too(voids, both):
    """Each trial makes one call; three of the calls that count are denied, none of the others."""
    cause = {"outcome": Outcome.VOID, "cause": Cause.TIMEOUT, "reason": "no reply"}
    trials = [trial(denied(LIST) if at < 3 else LIST, number=at) for at in range(100 - voids)]
    trials += [trial(LIST, LIST, number=at, **cause) for at in range(100 - voids, 100)]
    (model,) = build_view([run(*trials)]).models
    assert (model.total.count, model.total.n) == (3, 100 - voids)
    found = [(rate.count, rate.n) for rate in model.with_voids]
    assert found == both


def test_classes_that_nobody_showed_share_a_row_and_published_rows_do_not(runs, view):
    labels = [row.label for row in comparison_table(view).rows]
    assert labels[-4:] == ["1 class not seen", "total", *WITH_VOIDS]
    more = build_view(runs[1:2], classes=view.rows)
    assert comparison_table(more).rows[-2].label == "4 classes not seen, each"
    folded = build_view(runs, fold={"pipe-to-filter": "bash", "never": "never"})
    assert "never" in [row.label for row in comparison_table(folded).rows]


def test_the_same_worlds_are_compared_pairwise_and_others_are_not():
    first, second = many(4, 5, 6, model=card("a")), many(0, 5, 6, model=card("b"))
    (pair,) = build_view([first, second]).pairs
    assert pair.difference.paired
    other = run(*(trial(LIST, scenario="else", number=n) for n in range(6)), model=card("c"))
    assert not build_view([first, other]).pairs[0].difference.paired


def test_worlds_met_without_a_single_call_compare_no_errors():
    talks = run(trial(says("No."), number=1), trial(LIST, number=2), model=card("b"))
    acts = run(trial(LIST, number=1), model=card("a"))
    (pair,) = build_view([acts, talks]).pairs
    assert (pair.silent, pair.difference.p, pair.kinds) == (("b",), 1.0, None)


def test_where_only_some_worlds_are_shared_they_alone_are_compared_and_the_rest_is_told():
    first, second = many(0, 5, 4, model=card("a")), many(2, 5, 6, model=card("b"))
    (pair,) = build_view([first, second]).pairs
    calls = sum(len(one.calls) for one in second.trials)
    assert (pair.difference.paired, pair.difference.first.n, pair.left_out) == (
        True,
        sum(len(one.calls) for one in first.trials),
        (0, calls - pair.difference.second.n),
    )
    assert pair.difference.second.n < calls


def test_of_a_model_that_made_no_call_no_errors_are_compared():
    silent = run(trial(says("No.")), model=card("silent"))
    view = build_view([silent, many(1, 5, 3, model=card("b"))])
    assert [one.silent for one in view.pairs] == [("silent",)]
    (pair,) = json.loads(dumps(view))["pairs"]
    assert (pair["difference"], pair["low"], pair["high"], pair["calls_needed"]) == (
        None,
        -1.0,
        1.0,
        None,
    )
    assert comparison_table(view).rows[-1].cells[0].value == "-"
    shown = {row.label: row.cells[0].value for table in detail_tables(view) for row in table.rows}
    assert shown["reaction to a denial"] == shown["tool errors"] == "-"


SERVED = {"server": "llama.cpp b1", "chat template": "sha256:aa", "default sampling": "top_k 40"}


def told(**facts: str) -> dict[str, object]:
    return {"told": SERVED | {name.replace("_", " "): fact for name, fact in facts.items()}}


@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        (told(), told(), []),
        (told(), {}, []),
        ({"server": "vLLM"}, {"server": "SGLang"}, ["server (vLLM / SGLang)"]),
        ({"server": "vLLM", "server_version": "0.19"}, {"server": "vLLM"}, []),
        ({"quantization": "AWQ"}, {"quantization": "FP8"}, ["quantization (AWQ / FP8)"]),
        ({"quantization": "AWQ"}, {}, []),
        ({"kv_cache": "fp8"}, {"kv_cache": "fp16"}, ["KV cache (fp8 / fp16)"]),
        ({"tool_parser": "hermes"}, {"tool_parser": "qwen3"}, ["tool parser (hermes / qwen3)"]),
        (told(), told(server="b2"), ["server (llama.cpp b1 / b2)"]),
        (told(), told(default_sampling="top_k 1"), ["default sampling (top_k 40 / top_k 1)"]),
        (told(), told(model="other"), []),
        (
            told() | {"served_id": "m"},
            told(chat_template="sha256:bb") | {"served_id": "m"},
            ["chat template of m (sha256:aa / sha256:bb)"],
        ),
        (told(), told(chat_template="sha256:bb"), []),
    ],
)
def test_a_comparison_warns_of_what_is_known_to_be_served_differently(
    first, second, differing
) -> None:
    made = [
        run(trial("a"), trial("b"), model=card(name, **known), run_id=name)
        for name, known in (("one", first), ("two", second))
    ]
    said = [line for line in build_view(made).warnings if " differ in" in line]
    assert [line.partition(": ")[2] for line in said] == [f"{one}." for one in differing]


def test_more_time_for_a_slow_server_is_shown_where_it_was_given() -> None:
    slow = [trial("pwd"), trial("pwd", number=2, stretched=3.25)]
    shown = [
        [line.cells[0].value for table in detail_tables(build_view([run(*trials)]))
         for line in table.rows if line.label.startswith("time limits")]
        for trials in (slow, [trial("pwd")])
    ]  # fmt: skip
    assert shown == [["x 3.2"], []]


def test_provenance_shows_what_the_server_says() -> None:
    made = run(trial("a"), model=card("one", told=SERVED | {"chat template": "sha256:" + "a" * 64}))
    rows = {row.label: row.cells[0].value for row in provenance_table(build_view([made]).runs).rows}
    assert {label: text for label, text in rows.items() if label.startswith("server says")} == {
        "server says: server": "llama.cpp b1",
        "server says: chat template": "sha256:aaaaaaaaaaaa",
        "server says: default sampling": "top_k 40",
    }


def test_recovery_is_told_by_what_the_denials_told():
    back = trial(denied("ls"), "uv run notes.py list", says("Done."), number=1)
    lost = trial(denied("ls"), tool("search", failure_class="hallucinated-tool"), says("Hm."))
    made = run(back, replace(lost, number=2), arm=BARE)
    view = build_view([made])
    (of_run,) = view.runs
    found = {
        content: (rates["at_once"].count, rates["at_all"].count, rates["at_all"].n)
        for content, rates in of_run.recovery.by_content.items()
    }
    assert found == {"denial: bare": (1, 1, 2), "no such tool": (0, 0, 1)}
    (table,) = [one for one in denial_tables(view.runs) if one.title.startswith("Recovery by")]
    assert [(row.label, row.cells[0].count) for row in table.rows] == [
        ("denial: bare, next turn", "1"),
        ("denial: bare, ever", "1"),
        ("no such tool, next turn", "0"),
        ("no such tool, ever", "0"),
    ]
    assert found.keys() == json.loads(dumps(view))["runs"][0]["recovery"]["by_told"].keys()


def test_without_a_denial_no_table_is_without_rows():
    view = build_view([run(trial(LIST, says("Done.")))])
    assert all(table.rows for table in denial_tables(view.runs))
    titles = {table.title for table in denial_tables(view.runs)}
    assert not any(title.startswith("Recovery by") for title in titles)


def test_calls_of_sub_agents_stand_apart_with_their_own_n():
    worker = sub_agent("worker", LIST, denied("ls"))
    trials = [
        trial(LIST, denied("ls"), LIST, number=1, agents=(worker, sub_agent("judge", LIST))),
        trial(LIST, number=2, agents=(sub_agent("worker", LIST, LIST),)),
        trial(LIST, number=3),
    ]
    view = build_view([run(*trials), run(trial(LIST), run_id="r2", model=card("other"))])

    (table,) = agent_tables(view.runs)

    counts = [
        (row.label, [(cell.count, cell.value, cell.n) for cell in row.cells]) for row in table.rows
    ]
    assert (counts, view.models[0].total.n) == (
        [
            ("first agent, all scenarios", [("1", "20.00", "n=5"), ("0", "0.00", "n=1")]),
            ("judge", [("0", "0.00", "n=1"), ("", "-", "")]),
            ("worker", [("1", "25.00", "n=4"), ("", "-", "")]),
        ],
        5,
    )


def test_without_sub_agents_there_is_no_such_table():
    assert [*agent_tables(build_view([run(trial(LIST))]).runs)] == []
