"""From weights to report: a model whose rates are known, behind a real llama.cpp server."""

import os
from pathlib import Path

import pytest
from caller import FLAG, PIPED, SILENT, chain
from conftest import serving
from played import inside, likely, play

from agenteval.errors import UsageError
from agenteval.harness.install import installed
from agenteval.stats.rates import Rate

MADE = {"pipe-to-filter", "hallucinated-flag"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "choice", "trials", "stopped"),
    [
        (True, "auto", 40, SILENT),
        (False, "required", 40, 0.0),
        (True, "required", 8, 0.0),
        (False, "auto", 8, SILENT),
    ],
)
def test_the_report_finds_the_rates_that_the_weights_were_made_with(
    llama, project, stream, choice, trials, stopped
) -> None:
    report = play(project, f"{llama}/v1", trials=trials, stream=stream, tool_choice=choice)
    (model,), (run,) = report["models"], report["runs"]
    classes = model["by_class"]
    silent = trials - run["outcomes"]["out-of-turns"]["count"]
    seen = Rate(silent, run["turns"])
    assert {
        "voids": run["voids"],
        "malformed": run["arrivals"]["faulty"]["count"],
        "other classes": {name for name, rate in classes.items() if rate["count"]} - MADE,
        "all": inside(model["errors"], PIPED + FLAG),
        "piped": inside(classes["pipe-to-filter"], PIPED),
        "made up": inside(classes["hallucinated-flag"], FLAG),
        "silent": inside({"low": seen.low, "high": seen.high}, stopped),
    } == {
        "voids": [],
        "malformed": 0,
        "other classes": set(),
        "all": True,
        "piped": True,
        "made up": True,
        "silent": True,
    }


# A real program as the agent, and what its shell tool is called.
PROGRAMS = {"claude-code": "Bash", "mini": "bash"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_harness_and_its_proxy_leave_these_rates_as_they_are(
    name, project, tmp_path_factory, monkeypatch
) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = os.environ.get("AGENTEVAL_HARNESSES") or str(cache / "agenteval" / "harnesses")
    monkeypatch.setenv("AGENTEVAL_DATA", kept)
    try:
        installed(name)
    except UsageError as error:
        pytest.skip(f"{error}; in the tests `make harnesses` gets it")
    weights, caller = tmp_path_factory.mktemp("weights"), chain(tool=PROGRAMS[name])
    with serving(weights, caller, window=32768) as address:
        report = play(project, f"{address}/v1", trials=20, by=f"--harness {name}")
    (model,), (run,) = report["models"], report["runs"]
    found = {name: rate for name, rate in model["by_class"].items() if rate["count"]}
    assert (run["voids"], run["arrivals"]["faulty"]["count"]) == ([], 0)
    assert {*found} == MADE
    for which, known in (("pipe-to-filter", PIPED), ("hallucinated-flag", FLAG)):
        assert likely(found[which]["count"], found[which]["n"], known), found
