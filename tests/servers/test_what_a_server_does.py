"""What a server does to its model: asked before a run, kept with it, told beside its rates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from caller import BROKEN, INVENTED
from played import inside, play
from proxy import KEY
from scripted_server import scripted
from test_server_probe import completion, server

from agenteval.config.models import at_url
from agenteval.config.trust import bind
from agenteval.models.probe import NO_TOOL, ask_server
from agenteval.trial.run import FITTED, FREE, NOT_OBSERVABLE, THROUGH
from agenteval.trial.run import INVENTED as ASKED_FOR

MASKED = ["hallucinated-tool", "malformed-arguments"]


async def seen(reply, **entry: object):
    with server({}, reply) as url:
        return await ask_server(at_url(url, "m").model_copy(update=entry))


def said(text: str = "", **message: object):
    return {"choices": [{"message": {"content": text, **message}}]}


def drawn(*words: str):
    """Words for what is asked without tools, in their order."""
    left = list(words)
    return lambda body: said("?") if "tools" in body else said(left.pop(0) if left else "")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("plum", "plum", "pear"), "heeded"),
        (("plum", "plum", "plum"), "the same reply for each: greedy, or not heeded"),
        (("plum", "pear", "fig"), "not heeded: the same seed drew two replies"),
        (("plum", "plum"), NOT_OBSERVABLE),
        ((), NOT_OBSERVABLE),
    ],
)
async def test_the_seed_is_told_by_three_replies(words, found) -> None:
    assert (await seen(drawn(*words)))["seed"] == found


async def test_a_tool_that_nobody_offers_is_seen_to_come_through() -> None:
    def reply(body):
        if "Call the tool inventory" in body["messages"][0]["content"]:
            function = {"name": NO_TOOL, "arguments": "{}"}
            return said(tool_calls=[{"id": "a", "function": function}])
        return completion(body)

    found = await seen(reply)
    assert (found[ASKED_FOR], found["grammar of calls"]) == (THROUGH, FREE)


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ({"reasoning": "hm", "reasoning_content": None}, "comes in reasoning"),
        ({"reasoning_content": "hm", "reasoning": ""}, "comes in reasoning_content"),
        ({"text": "<think>hm</think>plum"}, "comes in the text"),
        ({"text": "plum"}, "none seen"),
    ],
)
async def test_the_field_of_reasoning_is_told(message, where) -> None:
    assert (await seen(lambda _: said(**message)))["reasoning"] == where


async def test_calls_that_are_left_in_the_text_have_no_parser() -> None:
    text = '<tool_call>\n{"name": "look", "arguments": {"place": "attic"}}\n</tool_call>'
    found = await seen(lambda _: said(text))
    assert (found["calls come"], found["calls in one reply"]) == (
        "as text: no parser reads them", NOT_OBSERVABLE)  # fmt: skip


async def test_a_question_is_asked_again_where_no_call_came() -> None:
    missed: list[str] = []

    def reply(body):
        question = body["messages"][0]["content"]
        if "tools" in body and question not in missed:
            missed.append(question)
            return said("Not now.")
        return completion(body)

    found = await seen(reply)
    assert (found["grammar of calls"], found["asked"].partition(",")[0]) == (FREE, "7 requests")


async def test_a_server_that_answers_nothing_costs_its_requests_and_no_more() -> None:
    found = await seen(lambda _: None)
    assert set(found.values()) == {NOT_OBSERVABLE, "4 requests, 0 prompt and 0 completion tokens"}


def agenteval(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agenteval", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_run_keeps_what_was_seen_and_can_go_without(project) -> None:
    """The script answers whatever it is asked: nine requests more, or none."""
    asked_for: list[str] = []

    def script(messages):
        asked_for.append(messages[-1]["content"])
        return "I have looked."

    with scripted(script) as url:
        (project / "agenteval.toml").write_text(
            f'[models.asked]\nbase_url = "{url}"\nmodel = "m"\n'
            f'[models.trusted]\nbase_url = "{url}"\nmodel = "m"\nask = false\n'
        )
        words = ("run", "-m", "asked", "-m", "trusted", "known/rates", "--trials", "1", "--json")
        played = agenteval(project, *words)
    assert played.stdout, played.stderr
    seen = [run["model"]["seen"] for run in json.loads(played.stdout)["runs"]]
    assert (seen[0]["seed"], seen[1]) == ("the same reply for each: greedy, or not heeded", {})
    assert played.stderr.count("was asked what it does to calls: 9 requests") == 1
    assert len(asked_for) == 9 + 2


@pytest.mark.slow
def test_what_a_grammar_hides_is_marked_and_left_out_of_comparisons(split, project) -> None:
    """One model of known rates, with llama.cpp's grammar and with calls that are read from text."""
    url = f"{split}/v1"
    masked = play(project, url, trials=30)
    free = play(project, url, trials=30, tools="text")
    by_class = free["models"][0]["by_class"]
    assert {
        "hidden": masked["models"][0]["cannot_occur"],
        "seen of it": masked["runs"][0]["model"]["seen"]["grammar of calls"],
        "counted": [masked["models"][0]["by_class"][name]["count"] for name in MASKED],
        "open": free["models"][0]["cannot_occur"],
        "invented": inside(by_class[MASKED[0]], INVENTED),
        "broken": inside(by_class[MASKED[1]], BROKEN),
    } == {
        "hidden": MASKED,
        "seen of it": FITTED,
        "counted": [0, 0],
        "open": [],
        "invented": True,
        "broken": True,
    }
    ids = [one["runs"][0]["id"] for one in (masked, free)]
    refused = agenteval(project, "compare", *ids)
    assert (refused.returncode, "--across-arms" in refused.stderr) == (2, True)
    compared = json.loads(agenteval(project, "compare", *ids, "--across-arms", "--json").stdout)
    (pair,) = compared["pairs"]
    assert set(MASKED) & {*pair["classes"], *(one["id"] for one in compared["classes"])} == set()
    assert compared["warnings"][0].startswith("Left out of all errors: hallucinated-tool and malf")
    shown = agenteval(project, "show", ids[0]).stdout
    assert shown.count("cannot occur") >= len(MASKED)


@pytest.mark.slow
@pytest.mark.xdist_group("proxied")
async def test_a_grammar_is_seen_through_a_proxy(llama, proxied, monkeypatch) -> None:
    monkeypatch.setenv("LITELLM_KEY", KEY)
    bind(proxied, "LITELLM_KEY")
    entry = at_url(f"{proxied}/v1", "markov").model_copy(update={"api_key_env": "LITELLM_KEY"})
    direct = await ask_server(at_url(f"{llama}/v1", "markov"))
    through = await ask_server(entry)
    assert {**direct, "asked": ""} == {**through, "asked": ""}
