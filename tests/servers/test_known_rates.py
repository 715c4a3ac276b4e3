"""From weights to report: a model whose rates are known, behind a real llama.cpp server."""

import pytest
from caller import FLAG, PIPED, SILENT
from played import inside, play

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
