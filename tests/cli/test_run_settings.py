"""What a model reads can be put otherwise, and a run records how."""

import json
from pathlib import Path

import pytest
from scripted_server import scripted
from test_resume import stored

from agenteval.config.prompts import arms
from agenteval.trial.run import Run


def played(cli, project, *options: str) -> Run:
    few = ("--trials", "2", "--seed", "7", "media/rendered-plot")
    cli("run", "-m", "sim/qwen3.6-35b", *few, *options)
    return stored(project)


@pytest.mark.slow
def test_the_same_slips_get_the_same_verdicts_under_every_arm(cli, project) -> None:
    ours = {name: arm for name, arm in arms().items() if not arm.engine}  # else others judge
    runs = {name: played(cli, project, "--arm", name) for name in ours}
    calls = {
        name: [(call.call.name, call.call.command) for trial in run.trials for call in trial.calls]
        for name, run in runs.items()
    }

    assert [run.protocol.split(",")[0] for run in runs.values()] == [
        arm.protocol for arm in ours.values()
    ]
    assert len(calls["strict"]) > 5
    assert all(made == calls["strict"] for made in calls.values())


def test_the_rules_stand_where_they_were_asked_for(cli, project) -> None:
    show = ("scenarios", "show", "media/rendered-plot")
    parts = {
        place: [
            "## Rules for tool calls" in part
            for part in cli(*show, "--rules", place).out.split("first message of the user")
        ]
        for place in ("start", "end", "both")
    }

    assert parts == {"start": [True, False], "end": [False, True], "both": [True, True]}
    assert played(cli, project, "--rules", "end").protocol.endswith(
        "rules five/3 at end, until it stops"
    )


def test_rules_of_ones_own_are_a_template(cli, project) -> None:
    (project / "mine.md").write_text("Only {{ bash }} and its scripts.", encoding="utf-8")

    shown = cli("scenarios", "show", "media/rendered-plot", "--prompt-variant", "mine.md").out
    run = played(cli, project, "--prompt-variant", "mine.md")

    assert ("Only bash and its scripts." in shown, "## Rules" in shown) == (True, False)
    assert run.protocol == "taught/tools/1, rules mine.md/b1452c54 at start, until it stops"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--arm", "cursor"), "no arm 'cursor'. Known: strict, taught/shell, taught/tools"),
        (("--context", "much"), "'much' is no number of tokens. Give one such as 40k"),
        (("--context", "9k:70"), "from 0 to 25, as in 40k:20"),
        (("--context", "9k:"), "from 0 to 25, as in 40k:20"),
        (("--context", "100"), "--context 100: the prompt of media/rendered-plot alone has about"),
        (("--prompt-variant", "loud"), "no variant 'loud' and no such file"),
        (("--prompt-variant", "faulty.md"), "--prompt-variant faulty.md: 'colour' is undefined"),
    ],
)
def test_what_cannot_be_put_so_is_one_line(cli, project, options, says) -> None:
    (project / "faulty.md").write_text("{{ colour }}", encoding="utf-8")

    said = cli("run", "-m", "sim/qwen3.6-35b", "media/rendered-plot", *options)

    assert (said.code, says in said.err) == (2, True), said.err


@pytest.mark.slow
def test_a_context_is_filled_with_what_was_really_played_in_other_worlds(cli, project) -> None:
    asked = ("-m", "sim/qwen3.6-35b", "--trials", "2", "--seed", "7", "media/rendered-plot")
    said = cli("run", *asked, "--context", "7k:20")
    run = stored(project)
    counted = [trial.turns[0].usage.prompt_tokens for trial in run.trials]
    history = [trial.prompt[1:-1] for trial in run.trials]
    told = ["".join(message.content for message in one) for one in history]

    assert run.protocol == (
        "taught/tools/1, rules five/3 at start, until it stops, context 7000 of tasks played "
        "before/1, 20 of 100 calls denied"
    )
    assert "--context 7000: at least 126,000 prompt tokens in 18 requests" in said.err
    assert all(6900 < tokens <= 7000 for tokens in counted), counted
    assert all("The agent " in one for one in told)
    assert any("Permission to use bash for this call has been denied." in one for one in told)
    assert all("uv run scripts/plot_data.py" not in one for one in told)
    assert history[0] != history[1]


def thinking(field: str, heard: list[object]):
    """A model that thinks before its only call, and then notes what came back of it."""

    def script(messages):
        if messages[-1]["role"] == "tool":
            heard.append(messages[-2].get(field))
            return "No."
        function = {"name": "bash", "arguments": '{"command": "uv run scripts/notes.py list"}'}
        calls = [{"id": "a", "type": "function", "function": function}]
        return {"role": "assistant", "content": "", field: "First I look.", "tool_calls": calls}

    return script


SET = """[models.m]
base_url = "{url}"
model = "m"
reasoning = "{rule}"
"""


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize(("rule", "back"), [("loop", "First I look."), ("drop", None)])
def test_what_a_model_thought_comes_back_under_its_name_and_the_run_says_so(
    cli, project, field, rule, back
) -> None:
    heard: list[object] = []
    with scripted(thinking(field, heard)) as url:
        (project / "agenteval.toml").write_text(SET.format(url=url, rule=rule))
        said = cli("run", "-m", "m", "notes/append", "--trials", "1", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert (heard, run["model"]["reasoning"], said.code) == ([back], rule, 0)
    page = Path(f"reports/{run['id']}.html").read_text()
    told = ("sent back within the tool loop" in page, "not sent back" in page)
    assert told == (rule == "loop", rule == "drop")


OWN = {"permission": {"*": "deny", "bash": {"*": "deny", "uv run scripts/*": "allow"}}}


@pytest.mark.slow
def test_a_users_own_rules_judge_in_place_of_the_scenarios(cli, project) -> None:
    Path("opencode.json").write_text(json.dumps(OWN))
    asked = ("run", "-m", "sim/qwen3.6-35b", "mail/triage", "--trials", "3", "--seed", "2")
    runs = []
    for more in ((), ("--policy", "opencode:opencode.json")):
        assert cli(*asked, *more).code == 0
        runs.append(stored(project))
    ours, theirs = runs
    made = [
        (call.call.command, call.verdict.allowed) for trial in theirs.trials for call in trial.calls
    ]
    assert {*theirs.policies} == {"opencode"}
    assert (theirs.arm.engine, ours.arm.engine) == ("opencode", "")
    piped = [allowed for command, allowed in made if command and " | " in command]
    assert piped
    assert not any(piped)
    assert all(
        allowed for command, allowed in made if command and command.startswith("uv run scripts/")
        and not {*command} & {*"|&;<>$`"}
    )  # fmt: skip
    assert cli("rescore", theirs.id).code == 0
    assert theirs.options.allowlist == "opencode:opencode.json"


@pytest.mark.parametrize("given", ["gone.toml", "opencode:gone.json", "nobody"])
def test_own_rules_that_are_not_there_are_one_line(cli, project, given) -> None:
    said = cli("run", "-m", "sim/qwen3.6-35b", "mail/triage", "--allowlist", given)
    assert (said.code, said.err.count("\n")) == (2, 1)
