"""Personas have the article's counts, and playing them gives those rates back."""

import itertools
import json
import math
from collections import Counter
from functools import cache
from random import Random

import pytest
from pydantic import ValidationError
from suite import PROJECT, SCENARIOS

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.scenarios import load_fixture
from agenteval.errors import UsageError
from agenteval.models.oracle import as_tool_call
from agenteval.models.persona import NAMES, Persona, Written, load_persona
from agenteval.models.player import PastCall, Player
from agenteval.policy.policy import World
from agenteval.prompt.prompt import Prompt
from agenteval.sandbox.maker import render
from agenteval.trial.trial import Step

TOOLS = frozenset({"bash", "read"})
TRIALS = 1800


@cache
def prompts() -> tuple[Prompt, ...]:
    return tuple(render(scenario, seed) for scenario in SCENARIOS for seed in range(3))


@cache
def rules(number: int):
    scenario = SCENARIOS[number]
    files = frozenset(load_fixture(scenario, 0, roots=[PROJECT]))
    return load_policy(scenario.policy, roots=[PROJECT]), World(files)


@cache
def denied(number: int, written: Written) -> bool:
    return not judge(as_tool_call(written), *rules(number)).allowed


def play(name: str, number: int, trial: int) -> list[tuple[str, bool]]:
    """One trial without a server, whose calls read all there is; each call, and whether denied."""
    persona, prompt = load_persona(name), prompts()[number]
    world = " ".join(map(str, prompt.variables.values()))
    calls: list[tuple[str, bool]] = []
    seen: list[PastCall] = []
    for turn in range(60):
        reply = Player(persona, prompt, TOOLS, Random(f"{name}/{trial}/{turn}")).reply(seen)
        if not reply.calls:
            return calls
        for call in reply.calls:
            slip = denied(number // 3, call)
            arguments = as_tool_call(call).arguments
            seen.append(PastCall(call.name, arguments, slip, "" if slip else world))
            calls.append((f"{call.name} {call.arguments}", slip))
    return calls


@cache
def played(name: str) -> tuple[tuple[tuple[str, bool], ...], ...]:
    worlds = len(prompts())
    return tuple(tuple(play(name, trial % worlds, trial)) for trial in range(TRIALS))


def deviation(per_trial: list[tuple[int, int]], rate: float) -> float:
    """How far a pooled rate is from `rate`, in standard errors that are clustered by trial."""
    residuals = [errors - rate * calls for errors, calls in per_trial]
    return sum(residuals) / math.sqrt(sum(residual**2 for residual in residuals))


@pytest.mark.parametrize(
    ("name", "calls", "errors", "rows"),
    [
        (
            "sim/qwen3.6-35b",
            158,
            19,
            {"pipe-to-filter": 10, "shell-chain": 4, "bare-binary": 1, "other-shell": 4},
        ),
        (
            "sim/qwen3.5-27b",
            161,
            9,
            {
                "pipe-to-filter": 1,
                "stderr-redirect": 1,
                "inline-code": 1,
                "unlisted-script": 2,
                "other-shell": 1,
                "blocked-path": 3,
            },
        ),
        (
            "sim/qwen3.5-122b",
            128,
            13 + 1,  # broken JSON has no row in the table; the text tells of it
            {
                "pipe-to-filter": 2,
                "shell-chain": 3,
                "heredoc": 1,
                "wrapper-prefix": 2,
                "unlisted-script": 1,
                "blocked-path": 2,
                "hallucinated-tool": 2,
                "malformed-arguments": 1,
            },
        ),
    ],
)
def test_a_persona_has_the_counts_of_the_article(name, calls, errors, rows):
    persona = load_persona(name)
    counts = {row: slips.count for row, slips in persona.slips.items()}
    assert (persona.calls, counts) == (calls, rows)
    assert persona.rate == pytest.approx(errors / calls)
    assert sum(persona.weights().values()) == pytest.approx(persona.rate)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_large_count_of_errors_lies_inside_its_interval(name):
    per_trial = [(sum(slip for _, slip in trial), len(trial)) for trial in played(name)]
    assert sum(calls for _, calls in per_trial) > 12_000
    assert abs(deviation(per_trial, load_persona(name).rate)) < 3.3  # 99.9 %


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_slip_comes_as_often_as_its_share(name):
    persona = load_persona(name)
    drawn: Counter[str] = Counter()
    for trial in range(6000):
        player = Player(persona, prompts()[0], TOOLS, Random(f"{name}/{trial}"))
        drawn[player.kind()] += 1
    far = {
        kind: count
        for kind, share in persona.weights().items()
        for count in [drawn[kind]]
        if (p := share / persona.rate)
        and abs(count - 6000 * p) > 3.9 * math.sqrt(6000 * p * (1 - p))
    }
    assert far == {}


def rate_after(name: str, *, denied: bool) -> float:
    """The share of denied calls among those that follow a denied (an allowed) one."""
    following = [
        second[1]
        for trial in played(name)
        for first, second in itertools.pairwise(trial)
        if first[1] is denied
    ]
    return sum(following) / len(following)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_follows_a_denial_is_denied_as_often_as_the_recovery_says(name):
    persona = load_persona(name)
    again = persona.recovery.again / (1 - persona.recovery.stop)
    assert rate_after(name, denied=True) == pytest.approx(again, abs=0.04)
    assert rate_after(name, denied=False) == pytest.approx(persona.slip_after_allowed, abs=0.01)


def closed(name: str) -> float:
    """The share of trials with a denial that reach the last step of a solution or a second way."""
    ways = [way for one in prompts() for way in (one.solution, one.another) if way]
    last = {json.dumps(dict(way[-1].arguments)) for way in ways}
    denied = [trial for trial in played(name) if any(slip for _, slip in trial)]
    return sum(any(text.partition(" ")[2] in last for text, _ in t) for t in denied) / len(denied)


@pytest.mark.slow
def test_after_a_denial_the_large_fast_model_often_never_closes_and_the_dense_one_does():
    shares = {name: closed(name) for name in NAMES}
    assert shares["sim/qwen3.6-35b"] < 0.5 < shares["sim/qwen3.5-122b"] < 0.96
    assert shares["sim/qwen3.5-27b"] > 0.96


def test_the_chance_to_slip_follows_from_rate_and_recovery():
    persona = load_persona("sim/qwen3.6-35b")
    a, d, s = persona.slip_after_allowed, persona.recovery.again, persona.recovery.stop
    denied = a / (1 - d)
    allowed = 1 - a * s / (1 - d)
    assert denied / (denied + allowed) == pytest.approx(19 / 158)


def test_an_unknown_simulated_model_is_named_with_the_known_ones():
    with pytest.raises(
        UsageError, match=r"no simulated model 'sim/gpt'\. Known: sim/qwen3\.5-122b"
    ):
        load_persona("sim/gpt")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"slips": {"pipe": {"count": 1, "kinds": {"pipe-hed": 1}}}}, "no slips \\['pipe-hed'\\]"),
        ({"recovery": {"again": 0.8, "stop": 0.3, "pivot": 0}}, "more than 1 together"),
        ({"calls": 15, "recovery": {"again": 0, "stop": 0, "pivot": 0}}, "no chance to slip"),
        ({"closing": {"stop": 2, "stop_denied": 0}}, "less than or equal to 1"),
        ({"temper": 1}, "Extra inputs"),
    ],
)
def test_a_persona_that_cannot_be_is_refused(change, says):
    fields = load_persona("sim/qwen3.6-35b").model_dump()
    with pytest.raises(ValidationError, match=says):
        Persona.model_validate({**fields, **change})


def test_a_slip_of_reading_needs_the_read_tool():
    persona = load_persona("sim/qwen3.5-27b")
    kinds = {
        Player(persona, prompts()[0], frozenset({"bash"}), Random(f"x{number}")).kind()
        for number in range(300)
    }
    assert "read-rendered" not in kinds


def plain(solution: list[str], another: tuple[str, ...] = (), told: str = "", **known) -> Prompt:
    """A prompt of these commands, of which the last closes the work."""
    steps, others = [
        tuple(Step("bash", {"command": f"uv run scripts/{one}"}) for one in commands)
        for commands in (solution, another)
    ]
    return Prompt(told, "", known, (), (), steps, another=others)


def persona(**change) -> Persona:
    """The dense one, sure of what it does, but for these chances of the whole of it."""
    fields = load_persona("sim/qwen3.5-27b").model_dump()
    fields["recovery"] = {"again": 0.0, "stop": 0.0, "pivot": change.get("pivot", 0.0)}
    fields |= {"work": {"wrong": change.get("wrong", 0.0)}, "closing": dict.fromkeys(CLOSING, 0.0)}
    rare = {"rare": {"count": 1, "kinds": {"bare-ls": 1}}}
    return Persona.model_validate({**fields, "slips": rare, "calls": 10**9, "messages": 6 * 10**8})


CLOSING = ("stop", "stop_denied")


def commands(one: Persona, prompt: Prompt, past: list[PastCall], draws: int = 40) -> set[str]:
    """The calls of the next turn, over many draws, without `uv run scripts/`."""
    replies = (Player(one, prompt, TOOLS, Random(seed)).reply(past) for seed in range(draws))
    texts = (" + ".join(json.loads(c.arguments)["command"] for c in r.calls) for r in replies)
    return {text.replace("uv run scripts/", "") for text in texts}


def call(command: str, reply: str = "", *, was: bool = False) -> PastCall:
    return PastCall("bash", {"command": f"uv run scripts/{command}"}, was, reply)


def test_a_pivot_takes_a_call_of_another_script_that_was_not_made_or_asks_it_for_help():
    prompt = plain(["a.py", "b.py", "c.py", "end.py"], told="`scripts/a.py`, `scripts/d.py --all`")
    past = [call("a.py"), call("b.py | head", was=True)]
    assert commands(persona(pivot=1.0), prompt, past) == {"a.py --help", "c.py", "d.py --help"}


def test_a_pivot_goes_the_authors_other_way_and_on_to_the_end_of_it():
    prompt = plain(["a.py", "b.py", "end.py"], ("a.py", "sql.py", "end.py"))
    past = [call("a.py"), call("b.py | head", was=True)]
    turned = [*past, call("sql.py")]
    assert commands(persona(pivot=1.0), prompt, past) == {"sql.py"}
    assert commands(persona(), prompt, turned) == {"end.py"}
    assert commands(persona(), prompt, [*turned, call("end.py")]) == {""}


def test_nothing_is_turned_to_once_the_work_is_being_closed_by_the_other_way():
    prompt = plain(["a.py", "end.py"], ("sql.py", "end.py"))
    assert commands(persona(pivot=1.0), prompt, [call("a.py"), call("end.py | jq", was=True)]) == {
        "end.py"
    }


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda n: SCENARIOS[n].name)
def test_what_is_turned_to_is_allowed_wherever_a_trial_stands(number):
    prompt = prompts()[3 * number]
    player, slip = Player(persona(), prompt, TOOLS, Random(0)), PastCall("bash", {}, denied=True)
    made = [PastCall(step.tool, step.arguments, denied=False) for step in prompt.solution]
    pivots = [
        Written(step.tool, json.dumps(dict(step.arguments)))
        for place in range(len(made))
        for step in player.pivots(player.standing([*made[:place], slip]))
    ]
    assert pivots
    assert [pivot for pivot in pivots if denied(number, pivot)] == []


def test_a_value_that_no_text_told_is_looked_up_before_it_is_used():
    prompt = plain(["list.py", "show.py --id 17", "end.py"], id=17)
    told = plain(["list.py", "show.py --id 17", "end.py"], told="Note 17 is wanted.", id=17)
    assert commands(persona(), prompt, []) == {"list.py"}
    assert commands(persona(), told, []) == {"list.py", "list.py + show.py --id 17"}


def test_a_wrong_answer_is_another_value_that_was_read_and_the_work_goes_on():
    prompt = plain(["list.py", "keep.py --day 2026-03-07 --limit 5", "end.py"], day="2026-03-07")
    past = [call("list.py", "2026-03-07: 81, 2026-03-09: 79; total 5")]
    wrong = "keep.py --day 2026-03-09 --limit 5"
    assert commands(persona(wrong=1.0), prompt, past) == {wrong}
    assert commands(persona(), prompt, past) == {"keep.py --day 2026-03-07 --limit 5"}
    assert commands(persona(), prompt, [*past, call(wrong)]) == {"end.py"}


def test_a_sum_that_nothing_shows_may_be_wrong_and_a_value_that_the_task_tells_is_not():
    prompt = plain(["list.py", "end.py --sum 12.50 --of 33"], told="Of 33.", total="12.50", of=33)
    found = commands(persona(wrong=1.0), prompt, [call("list.py", "6 6.50")])
    assert found == {"end.py --sum 6.50 --of 33"}
    assert commands(persona(wrong=1.0), prompt, [call("list.py", "none")]) == {
        f"end.py --sum 12.{50 + more} --of 33" for more in range(1, 10)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_closing_value_is_as_often_wrong_as_the_persona_says(name):
    """Of trials without a denial, whose last call has something to find out."""
    wrong = asked = 0
    for trial, made in enumerate(played(name)):
        prompt = prompts()[trial % len(prompts())]
        player = Player(load_persona(name), prompt, TOOLS, Random(0))
        right = {f"{s.tool} {json.dumps(dict(s.arguments))}" for s in prompt.solution}
        last = prompt.solution[-1]
        if player.sought(last) and not any(slip for _, slip in made) and made:
            command = str(last.arguments.get("command"))[:20]
            closing = [text for text, _ in made if command in text][-1:]
            asked += bool(closing)
            wrong += bool(closing) and closing[0] not in right
    chance = load_persona(name).work.wrong
    assert asked > 200
    assert abs(wrong - asked * chance) < 3.9 * math.sqrt(asked * chance * (1 - chance))
