"""The texts of the arms teach what they claim: one scripted model with habits, through all."""

import pytest
from habits import BEGINS, HABITS, YIELDS, Habitual, searches, wanted
from measure_arms import WALLS, at_walls, per_100, walls

from agenteval.config.files import shipped
from agenteval.config.prompts import arms, load_setting
from agenteval.play.run import trial_keys
from agenteval.prompt.prompt import Setting
from agenteval.sandbox.backends import Namespaces
from agenteval.sandbox.maker import render
from agenteval.workflows.prove import played
from agenteval.workflows.stages import load_stages

STAGES = load_stages(["notes", "data/meter-total"])
SCENARIOS = [stage.scenario for stage in STAGES]
KEYS = trial_keys([one.name for one in SCENARIOS], 3, 3)


def sent(setting: Setting) -> tuple[str, list[str]]:
    """What a model reads at the start of a trial, and which tools it is offered."""
    arm, scenario = setting.arm, SCENARIOS[0]
    forms = [arm.profile.forms[tool] for tool in arm.offered(scenario.tools)]
    told = [render(scenario, 1, setting).system, *(form.description for form in forms)]
    return "\n".join(told), [form.name for form in forms]


@pytest.mark.parametrize("name", arms())
def test_an_arm_asks_for_the_habits_that_it_says_it_asks_for(name):
    setting = load_setting(name, "none", "start", "0")
    assert {*wanted(*sent(setting))} == {*setting.arm.habits}


def test_every_habit_is_one_that_some_arm_asks_for():
    assert {habit for arm in arms().values() for habit in arm.habits} == {*HABITS}


@pytest.mark.parametrize(
    ("text", "chance"),
    [
        ("Chain the steps with `a && b`.", 0.3),
        ("Never chain with `a && b`.", None),
        ("Chain the steps with `a && b`.\n- Do not chain (`&&`).", 0.15),
        ("Run one command.", None),
    ],
)
def test_a_habit_is_followed_where_it_is_asked_for_and_less_where_it_is_forbidden(text, chance):
    assert wanted(text, []).get("chain") == chance


async def rates(setting: Setting) -> dict[str, float]:
    trials = await played(STAGES, KEYS, Habitual(SCENARIOS), Namespaces(), setting)
    assert all(trial.outcome == "completed" for trial in trials.values())
    return dict(per_100([*trials.values()])[0])


HEREDOCS = ("heredoc", "heredoc-to-file")


@pytest.mark.slow
async def test_both_taught_arms_raise_what_they_ask_for_over_the_easy_one():
    strict, tools, shell = [
        await rates(load_setting(name, None, "start", "0"))
        for name in ("strict", "taught/tools", "taught/shell")
    ]
    assert strict == {}
    assert min(tools["shell-chain"], shell["shell-chain"]) > 5
    assert tools.get("bare-binary", 0) < shell["bare-binary"]
    few, many = (sum(one.get(name, 0) for name in HEREDOCS) for one in (tools, shell))
    assert few < many


@pytest.mark.slow
async def test_without_the_sentences_that_ask_for_it_nothing_is_chained(tmp_path, monkeypatch):
    text = (shipped() / "arms" / "taught" / "tools.toml").read_text()
    texts = text.replace("for && chains", "for chains")
    silent = [line for line in texts.splitlines() if "&&" not in line and "`;`" not in line]
    (tmp_path / "arms").mkdir()
    (tmp_path / "arms" / "quiet.toml").write_text("\n".join(silent))
    monkeypatch.chdir(tmp_path)
    setting = load_setting("quiet", None, "start", "0")
    assert "named-tool" in wanted(*sent(setting))
    assert "shell-chain" not in await rates(setting)


@pytest.mark.parametrize(
    ("system", "begins", "many"),
    [
        ("", BEGINS, 0.8),
        ("There are no other tools than bash.", BEGINS * YIELDS, 0.8),
        ("After a denial, go on.", BEGINS, 0.2),
        ("There are no other tools than bash. After a denial, go on.", BEGINS * YIELDS, 0.2),
    ],
)
def test_who_searches_begins_and_goes_on_by_what_the_prompt_tells(system, begins, many):
    made = [searches(system, f"task {number}") for number in range(4000)]
    begun = [one for one in made if one]
    assert len(begun) / len(made) == pytest.approx(begins, abs=0.03)
    assert sum(one > 1 for one in begun) / len(begun) == pytest.approx(many, abs=0.03)


@pytest.mark.slow
async def test_the_two_sentences_at_a_wall_reach_the_model_and_are_told_apart():
    found = await at_walls(6, ["ralf/handshake"])
    told = {name: [*(one.outcome for one in trials)] for name, trials in found.items()}
    searched = {
        name: sum(any(call.verdict.primary for call in one.calls) for one in trials)
        for name, trials in found.items()
    }
    assert searched["five"] == searched["five+after"] > searched["five+tools"] > 0
    assert {*told["five+after"], *told["five+tools+after"]} == {"completed"}
    assert "completed" in told["five"]
    assert {*told["five"]} > {"completed"}  # some stopped there
    assert [row.split("|")[1].strip() for row in walls(found)[2:]] == [
        "neither", "no such tool", "what to do", "both"]  # fmt: skip
    assert [*found] == [*WALLS]
