"""Personas have the article's counts, and playing them gives those rates back."""

import itertools
import json
import math
from collections import Counter
from functools import cache
from random import Random

import pytest
from pydantic import ValidationError
from suite import SCENARIOS

from agenteval.core.prompt.prompt import Prompt, render
from agenteval.core.scenario import Step
from agenteval.errors import UsageError
from agenteval.models.persona import NAMES, Persona, load_persona
from agenteval.models.player import PastCall, Player

TOOLS = frozenset({"bash", "read"})
TRIALS = 1800


@cache
def prompts() -> tuple[Prompt, ...]:
    return tuple(render(scenario, seed) for scenario in SCENARIOS for seed in range(3))


def play(name: str, prompt: Prompt, trial: int) -> list[tuple[str, bool]]:
    """One trial without a server: each call as its raw text, and whether it is a slip."""
    persona = load_persona(name)
    right = {(step.tool, json.dumps(dict(step.arguments))) for step in prompt.solution}
    calls: list[tuple[str, bool]] = []
    seen: list[PastCall] = []
    for turn in range(60):
        reply = Player(persona, prompt, TOOLS, Random(f"{name}/{trial}/{turn}")).reply(seen)
        if not reply.calls:
            return calls
        for call in reply.calls:
            denied = (call.name, call.arguments) not in right
            arguments = {} if denied else json.loads(call.arguments)
            seen.append(PastCall(call.name, arguments, denied))
            calls.append((f"{call.name} {call.arguments}", denied))
    return calls


@cache
def played(name: str) -> tuple[tuple[tuple[str, bool], ...], ...]:
    worlds = prompts()
    return tuple(tuple(play(name, worlds[trial % len(worlds)], trial)) for trial in range(TRIALS))


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


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_a_denial_is_denied_as_often_as_the_recovery_says(name):
    persona = load_persona(name)
    again = persona.recovery.again / (1 - persona.recovery.stop)

    assert rate_after(name, denied=True) == pytest.approx(again, abs=0.04)
    assert rate_after(name, denied=False) == pytest.approx(persona.slip_after_allowed, abs=0.01)


def closed(name: str) -> float:
    """The share of trials with a denial that reach the last step of a solution."""
    last = {json.dumps(dict(prompt.solution[-1].arguments)) for prompt in prompts()}
    denied = [trial for trial in played(name) if any(slip for _, slip in trial)]
    return sum(any(text.partition(" ")[2] in last for text, _ in t) for t in denied) / len(denied)


def test_after_a_denial_the_large_fast_model_often_never_closes_and_the_dense_one_does():
    shares = {name: closed(name) for name in NAMES}

    assert shares["sim/qwen3.6-35b"] < 0.75 < shares["sim/qwen3.5-122b"] < 0.96
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


def test_a_pivot_takes_another_script_than_the_denied_one():
    prompt = Prompt(
        system="",
        task="",
        variables={},
        goal=(),
        handshake=(),
        solution=tuple(
            Step("bash", {"command": f"uv run scripts/{name}.py"})
            for name in ("a", "b", "c", "end")
        ),
    )
    persona = load_persona("sim/qwen3.5-27b").model_copy(
        update={
            "recovery": load_persona("sim/qwen3.5-27b").recovery.model_copy(
                update={"again": 0.0, "stop": 0.0, "pivot": 1.0}
            )
        }
    )
    denied = PastCall("bash", {"command": "uv run scripts/b.py | head"}, denied=True)

    commands = {
        json.loads(Player(persona, prompt, TOOLS, Random(seed)).reply([denied]).calls[0].arguments)[
            "command"
        ]
        for seed in range(40)
    }

    assert commands == {"uv run scripts/c.py"}
