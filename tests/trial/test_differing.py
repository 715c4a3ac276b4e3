"""What two runs must have in common, and in what these differ."""

from dataclasses import replace

import pytest

from agenteval.testing import card, run
from agenteval.trial.run import (
    BROKEN_ARGUMENTS,
    FITTED,
    FREE,
    GRAMMAR,
    INVENTED,
    INVENTED_TOOL,
    STOPPED,
    THROUGH,
    Conditions,
    ModelCard,
    Options,
    Source,
    differing_arms,
    differing_asked,
    differing_other,
    distinctions,
)

OPTIONS = Options(["notes"], ["m"], None, 5, 7, "4", None, "strict", "plain", "start", "0", None,
                  prefork=True)  # fmt: skip
RUN = run(options=OPTIONS, scenarios={"notes": "d1"})


def both(**known):
    return [Conditions.of(RUN), Conditions.of(replace(RUN, **known))]


def asked_otherwise(**known):
    return {"options": replace(OPTIONS, **known), "protocol": "2"}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, []),
        ({"policies": {"notes": "sha256:1"}}, ["allow lists (notes)"]),
        ({"policies": {"other": "sha256:1"}}, []),
        ({"taxonomy": "2"}, ["taxonomy version (1 / 2)"]),
        ({"protocol": "2"}, ["prompts (1 / 2)"]),
        ({"protocol": "2" * 99}, ["prompts"]),
        ({"max_turns": None}, ["turn limit (20 / by scenario)"]),
        (asked_otherwise(arm="codex"), ["arm (strict / codex)"]),
        (asked_otherwise(prompt_variant="all"), ["prompt variant (plain / all)"]),
        (asked_otherwise(rules="end"), ["rules (at start / at end)"]),
        (asked_otherwise(context="40k"), ["context (0 / 40k)"]),
        ({"options": None}, []),
        ({"model": card(reasoning="drop")}, []),
        ({"model": card(stream=False)}, ["replies (streamed / whole)"]),
    ],
)
def test_what_was_asked_or_judged_otherwise_is_named_with_its_values(known, expected):
    assert differing_asked(both(**known)) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, []),
        ({"sandbox": "none"}, ["sandbox (bubblewrap / none)"]),
        ({"concurrency": 1}, ["concurrency (4 / 1)"]),
        ({"prefork": True}, ["pre-forked scripts (no / yes)"]),
        ({"model": card(tools="hermes/1")}, ["way to call tools (native / hermes/1)"]),
        (
            {"model": card(sampling={"top_p": 0.9, "temperature": 0.0})},
            ["sampling (the server's own / temperature 0.0, top_p 0.9)"],
        ),
        ({"model": card(server="vllm")}, []),
        ({"scenarios": {"notes": "d2"}}, ["what is asked in notes (1 in all)"]),
    ],
)
def test_in_what_else_two_runs_differ_is_named_as_far_as_both_tell(known, expected):
    assert differing_other(both(**known)) == expected


def test_of_many_changed_scenarios_a_few_are_named():
    digests = [{f"s{at}": text for at in range(5)} for text in ("old", "new")]
    conditions = [Conditions.of(replace(RUN, scenarios=one)) for one in digests]
    assert differing_other(conditions) == ["what is asked in s0, s1, s2, ... (5 in all)"]


@pytest.mark.parametrize(("served_id", "expected"), [("m", ["chat template (a / b)"]), ("n", [])])
def test_a_chat_template_is_compared_within_one_model(served_id, expected):
    first = card("m", told={"chat template": "a", "model": "x"})
    second = card("m", served_id=served_id, told={"chat template": "b", "model": "y"})
    conditions = [Conditions.of(replace(RUN, model=one)) for one in (first, second)]
    assert [one.replace(" of m", "") for one in differing_other(conditions)] == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"concurrency": 1}, ["concurrency 4", "concurrency 1"]),
        (
            asked_otherwise(rules="end", context="40k"),
            ["rules at start, context 0", "rules at end, context 40k"],
        ),
        ({}, ["", ""]),
        ({"model": card(quantization="AWQ", server="vllm" * 30)}, ["", ""]),
    ],
)
def test_runs_of_one_model_are_told_apart_by_what_differs(known, expected):
    assert distinctions(both(**known)) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("qwen3", "loop"), ("qwen3", "loop"), []),
        (("qwen3", "loop"), ("deepseek-r1", "drop"), []),
        (("qwen3", "loop"), ("qwen3", ""), []),
        (
            ("qwen3", "loop"),
            ("qwen3", "drop"),
            ["reasoning (as usual for the model / not sent back)"],
        ),
        (("qwen3", "always"), ("qwen3", "drop"), ["reasoning (always sent back / not sent back)"]),
        (
            ("deepseek-r1", "loop"),
            ("qwen3", "loop"),
            ["reasoning (sent back within the tool loop / as usual for the model)"],
        ),
    ],
)
def test_reasoning_that_is_sent_back_otherwise_than_usual_is_another_conversation(
    first, second, expected
):
    cards = [card(model, served_id=model, reasoning=rule) for model, rule in (first, second)]
    found = differing_asked([Conditions.of(replace(RUN, model=one)) for one in cards])
    assert [" ".join(one.split()) for one in found] == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, []),
        ({"taxonomy": "2"}, []),
        ({"protocol": "2"}, ["prompts (1 / 2)"]),
        (
            asked_otherwise(arm="codex", context="30k"),
            ["arm (strict / codex)", "context (0 / 30k)"],
        ),
        (asked_otherwise(harness="codex"), ["harness (our own loop / codex)"]),
    ],
)
def test_across_arms_all_else_must_be_alike(known, expected):
    assert differing_arms(both(**known)) == expected
    more = both(**{"max_turns": None, **known})
    assert differing_asked(more, across_arms=True) == [
        *(["turn limit (20 / by scenario)"]),
        *(["taxonomy version (1 / 2)"] if "taxonomy" in known else []),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (OPTIONS, "strict, rules plain"),
        (replace(OPTIONS, rules="end", context="30k"), "strict, rules plain at end, context 30k"),
        (replace(OPTIONS, harness="opencode"), "real/opencode, rules plain"),
        (None, ""),
    ],
)
def test_an_arm_is_told_in_a_few_words(options, told):
    assert Conditions.of(replace(RUN, options=options)).arm == told


def judged_by(*lists, **known):
    """A run of one scenario for each list, named as these lists are."""
    judged = {f"scenario {at}": f"of {name}" for at, name in enumerate(lists)}
    policies = {name: f"of {name}" for name in lists}
    return Conditions.of(replace(RUN, judged=judged, policies=policies, **known))


LOG = Source("claude-code", "", ())


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (judged_by("a", "b"), judged_by("a", "b"), []),
        (judged_by("a", "b"), judged_by("a"), []),
        (judged_by("a", "b"), judged_by("c", "c"), ["allow lists (a, b / c)"]),
        (judged_by("a", "b"), judged_by("a", "c"), ["allow lists (b / c)"]),
        (judged_by("a"), Conditions(), []),
        (judged_by("a"), judged_by("a", source=LOG), []),
        (judged_by("a", source=LOG), judged_by("a", source=LOG), []),
        (judged_by("a", source=LOG), judged_by("b", source=LOG), ["allow lists (a / b)"]),
        (judged_by(source=LOG), judged_by("b", source=LOG), ["allow lists (as recorded / b)"]),
    ],
)
def test_only_what_judged_the_same_scenario_is_compared(one, other, expected):
    assert differing_asked([one, other]) == expected


def test_lists_of_one_name_are_told_by_that():
    """Both are told by it: the list was changed between the runs."""
    changed = replace(judged_by("a"), judged={"scenario 0": "new"}, policies={"a": "new"})
    assert differing_asked([judged_by("a"), changed]) == ["allow lists (a)"]


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ({}, None),
        ({GRAMMAR: FREE}, ()),
        ({GRAMMAR: FITTED}, (INVENTED_TOOL, BROKEN_ARGUMENTS)),
        ({GRAMMAR: FITTED, INVENTED: THROUGH}, (BROKEN_ARGUMENTS,)),
        ({GRAMMAR: STOPPED}, (BROKEN_ARGUMENTS,)),  # what it stops is counted as an invented tool
    ],
)
def test_a_grammar_keeps_its_model_from_the_classes_that_it_was_seen_to(seen, classes) -> None:
    assert ModelCard("m", "m", seen=seen).cannot_occur == classes
