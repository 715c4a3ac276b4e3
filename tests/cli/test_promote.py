"""From servers to a verdict: `agenteval init` and `agenteval promote`."""

import html
import json
import re
import tomllib
from types import SimpleNamespace

import pytest

from agenteval.workflows import promote

JSON = "application/json"
OVER = ("promote", "sim/qwen3.6-35b", "--over", "sim/qwen3.5-27b", "media/rendered-plot")


@pytest.fixture
def fresh(project):
    """A folder without agenteval.toml."""
    (project / "agenteval.toml").unlink(missing_ok=True)
    return project


def models(*names: str, owner: str = "vllm") -> str:
    return json.dumps({"data": [{"id": name, "owned_by": owner} for name in names]})


def test_init_writes_what_the_servers_serve_and_overwrites_nothing(cli, fresh, answering, reply):
    one = reply("200 OK", JSON, models("org/Model-A.gguf"))
    two = reply("200 OK", JSON, models("model-a", "b"))
    with answering(one) as first, answering(two) as second:
        said = cli("init", first, second.removesuffix("/v1"))
        again = cli("init", first)
        written = (fresh / "agenteval.toml").read_text()
    found = tomllib.loads(written)["models"]
    assert found == {
        "model-a": {"base_url": first, "model": "org/Model-A.gguf"},
        "model-a-2": {"base_url": second, "model": "model-a"},
        "b": {"base_url": second, "model": "b"},
    }
    assert said.out.splitlines()[0] == "wrote agenteval.toml, with model-a, model-a-2, b"
    assert said.out.splitlines()[-1] == "Next: agenteval promote model-a-2 --over model-a"
    assert "[margin]" in (fresh / "gate.toml").read_text()
    assert (again.code, "agenteval.toml is there already" in again.err) == (2, True)
    assert (fresh / "agenteval.toml").read_text() == written


def test_init_keeps_a_gate_toml_and_writes_nothing_when_a_server_is_not_there(
    cli, fresh, answering, reply
):
    (fresh / "gate.toml").write_text("mine")
    with answering(reply("200 OK", JSON, models("a"))) as url:
        assert cli("init", url, "http://127.0.0.1:9/v1").code == 2
        assert not (fresh / "agenteval.toml").exists()
        said = cli("init", url)
    assert (said.code, (fresh / "gate.toml").read_text()) == (0, "mine")
    assert said.out.splitlines()[-1] == "Next: agenteval run --model a"


def test_what_a_server_tells_stands_beside_its_model(cli, fresh, answering, reply):
    page = json.loads(models("q", owner="llamacpp"))
    page |= {"default_generation_settings": {"n_ctx": 4096}, "build_info": "b1\nx"}
    with answering(reply("200 OK", JSON, json.dumps(page))) as url:
        assert cli("init", url).code == 0
    assert "# server llama.cpp b1\u240ax, context 4096\n" in (fresh / "agenteval.toml").read_text()


@pytest.mark.slow
def test_a_promotion_plays_both_models_and_ends_with_what_the_verdict_means(cli, project):
    said = cli(*OVER, "--trials", "2", "--allow-simulated", "--out", "verdict")
    before, verdict, meaning = said.out.rpartition("INCONCLUSIVE  SIMULATED\n")
    assert (said.code, before[-1:], bool(verdict)) == (3, "\n", True)
    meaning = " ".join(meaning.split())
    assert meaning.startswith(
        "Keep sim/qwen3.5-27b: whether sim/qwen3.6-35b may replace it is not known yet. Open: "
    )
    assert "Baseline: sim/qwen3.5-27b is played first" in said.err
    assert "To prove that an equally good model is no worse by 3 points: " in said.err
    assert "look 2 of 2" in said.err
    page = (project / said.out.splitlines()[0].removeprefix("Verdict page: ")).read_text()
    assert ("Content-Security-Policy" in page, html.escape(meaning) in page) == (True, True)
    assert json.loads((project / "verdict/gate.json").read_text())["verdict"] == "INCONCLUSIVE"

    again = cli(*OVER, "--allow-simulated", "--seed", "1", "--trials", "2")
    runs = json.loads(cli("show", "--json").out)["runs"]
    assert f"Baseline: {runs[-1]['id']}, which is stored" in again.err
    assert [run["trials_planned"] for run in runs] == [2, 2, 2]

    other = cli(*OVER[:3], runs[-1]["id"], "--trials", "3", "--allow-simulated")
    assert (other.code, "--trials is not what it was played with" in other.err) == (2, True)


@pytest.mark.slow
def test_as_many_trials_are_played_as_the_verdict_takes_where_nobody_says(cli, project):
    rules = "[margin]\npoints = 30\ncompleted = 40\n"
    (project / "gate.toml").write_text(rules)
    first = cli(*OVER, "--allow-simulated", "--report", "mine.html")
    again = cli(*OVER, "--allow-simulated")
    told = [
        re.findall(r"played anew, with (\d+) trials of each", one.err) for one in (first, again)
    ]
    (wanted,), none = told
    runs = json.loads(cli("show", "--json").out)["runs"]
    assert sorted(run["trials_planned"] for run in runs) == [5, *(3 * [int(wanted)])]
    assert (none, int(wanted) > 5, "can never PASS" in first.err) == ([], True, False)
    assert (project / "mine.html").exists()


def test_what_cannot_be_promoted_is_said_before_anything_is_played(cli, project):
    simulated = cli(*OVER)
    absent = cli("promote", "nobody", "--over", "sim/qwen3.5-27b")
    assert (simulated.code, "--allow-simulated" in simulated.err) == (2, True)
    assert (absent.code, "no model 'nobody'" in absent.err) == (2, True)
    assert not (project / "reports").exists()


@pytest.mark.parametrize(("played", "anew"), [(49, 50), (50, None)])
def test_a_baseline_with_the_most_trials_there_are_is_not_played_anew(monkeypatch, played, anew):
    options = SimpleNamespace(trials=played)
    baseline = SimpleNamespace(id="base", options=options)
    plan = SimpleNamespace(
        size=SimpleNamespace(trials=900),
        run=SimpleNamespace(counted=[SimpleNamespace(scenario="notes")]),
    )
    promotion = SimpleNamespace(run_options={}, baseline="model")
    monkeypatch.setattr(promote, "out_of_reach", lambda *_: ())
    assert promote._more_trials(plan, None, baseline, promotion) == anew
