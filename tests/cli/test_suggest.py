"""What denied calls ask for, and the same worlds played again with it."""

import json
import os
import signal
from contextlib import ExitStack

import pytest
from scripted_server import answers, bash, scripted

GOOD = "uv run scripts/mail.py search"
PIPE = f"{GOOD} | head -2"
FLAG = f"{GOOD} --subject x"


def says(commands):
    def script(messages):
        done = answers(messages)
        told = "Do not trim output (`| head`" in json.dumps(messages[0])
        if done == len(commands):
            return "done"
        return bash(GOOD if told and commands[done] == PIPE else commands[done])

    return script


@pytest.fixture
def play(cli, project):
    """Plays models with these commands; their servers stay, so that they can be played again."""
    with ExitStack() as stack:

        def played(**models):
            urls = {name: stack.enter_context(scripted(says(it))) for name, it in models.items()}
            (project / "agenteval.toml").write_text(
                "".join(f'[models.{name}]\nbase_url = "{url}"\nmodel = "m"\n'
                        for name, url in urls.items())
            )  # fmt: skip
            ids = []
            for name in models:
                words = ("run", "-m", name, "mail/draft", "--trials", "1", "--arm", "strict")
                assert cli(*words, "--prompt-variant", "none").code == 0
                ids.append(json.loads(cli("show", "last", "--json").out)["runs"][0]["id"])
            return ids

        yield played


def test_what_many_models_invent_stands_first_with_counts(cli, play) -> None:
    other = "uv run scripts/mail.py search --unread"
    ids = play(one=(FLAG, other, other, other), two=(FLAG, PIPE, "python3 -c 'x'"))
    lines = cli("suggest", *ids).out.splitlines()
    assert lines[1:3] == [
        "  2 times, 2 models: --subject  in scripts/mail.py",
        "  3 times, 1 model: --unread  in scripts/mail.py",
    ]
    rules = lines[lines.index("rules:") + 1]
    assert rules == '  once: constructs = ["pipe"]; allow = ["head *"]'
    said = lines[lines.index("sentences of a prompt:") + 1]
    assert said.startswith("  5 times: Use an option only if")


@pytest.mark.slow
def test_the_prompt_is_played_in_the_same_worlds(cli, play, project) -> None:
    (first,) = play(one=(GOOD, PIPE, PIPE))
    done = cli("suggest", first, "--try", "prompt")
    assert done.code == 0, done.err
    written = (project / "prompts" / f"{first}-suggested.md").read_text()
    assert "- Do not trim output (`| head`" in written
    again = next(line.split()[1] for line in done.out.splitlines() if line.startswith("played "))
    denied = [json.loads(cli("calls", run, "--denied", "--json").out) for run in (first, again)]
    assert [len(each["calls"]) for each in denied] == [2, 0]
    assert "in the same worlds" in done.out


def test_a_try_that_is_cut_off_is_one_line_and_compares_nothing(cli, project) -> None:
    def script(messages):
        if "Do not trim output" in json.dumps(messages[0]):
            os.kill(os.getpid(), signal.SIGINT)
        return "done" if answers(messages) else bash(PIPE)

    with scripted(script) as url:
        words = ("run", "-m", "m", "--base-url", url, "mail/draft", "--trials", "1")
        assert cli(*words, "--arm", "strict", "--prompt-variant", "none").code == 0
        done = cli("suggest", "last", "--try", "prompt")
    assert (done.code, "played " in done.out) == (130, False)
    assert "Cut off, and not compared; what was played is stored: agenteval show " in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_the_rules_are_played_in_the_same_worlds(cli, play) -> None:
    (first,) = play(one=(GOOD, PIPE, "python3 -c 'x'"))
    done = cli("suggest", first, "--try", "rules")
    assert done.code == 0, done.err
    assert "to allow `pipe` into head" in done.out
    again = next(line.split()[1] for line in done.out.splitlines() if line.startswith("played "))
    calls = json.loads(cli("calls", again, "--json").out)["calls"]
    assert [call["allowed"] for call in calls] == [True, True, False]
    assert calls[1]["exit_code"] == 0
    refused = cli("rescore", again)
    assert (refused.code, "which judged it, is not there as it was" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--try", "rules"), "no rule would allow a denied call"),
        (("--try", "prompt"), "no call was denied of which a sentence could speak"),
    ],
)
def test_where_nothing_can_be_tried_it_says_so(words, said, cli, play) -> None:
    (first,) = play(one=(GOOD,))
    done = cli("suggest", first, *words)
    assert (done.code, said in done.err) == (2, True), done.err


def test_what_the_prompt_said_already_is_told(cli, project) -> None:
    with scripted(lambda messages: "done" if answers(messages) else bash(PIPE)) as url:
        words = ("run", "-m", "m", "--base-url", url, "mail/draft", "--trials", "1")
        assert cli(*words, "--prompt-variant", "five").code == 0
    said = "  once, 1 of them although it was said: Do not trim output (`| head`"
    assert said in cli("suggest", "last").out


def test_a_prompt_of_the_user_is_not_overwritten(cli, play, project) -> None:
    (first,) = play(one=(PIPE,))
    (project / "mine.md").write_text("mine")
    done = cli("suggest", first, "--prompt", "mine.md")
    assert (done.code, "is there already" in done.err) == (2, True)
    assert (project / "mine.md").read_text() == "mine"
