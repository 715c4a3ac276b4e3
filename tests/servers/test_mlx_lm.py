"""A real mlx-lm server: known rates are found, and a call that its parser loses is told so."""

import pytest
from caller import BROKEN, INVENTED
from played import inside, play

from agenteval.config.models import at_url
from agenteval.core.cards import FREE
from agenteval.models.server_questions import asked

pytestmark = pytest.mark.slow


async def test_no_grammar_is_in_force(mlx) -> None:
    url, model = mlx
    found = await asked(at_url(url, model))
    assert (found["grammar of calls"], found["calls come"]) == (FREE, "as calls")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_report_finds_the_rates_of_the_weights(mlx, project, stream) -> None:
    url, model = mlx
    report = play(project, url, trials=30, model=model, stream=stream)
    (model_told,), (run,) = report["models"], report["runs"]
    kinds = run["arrivals"]["kinds"]
    assert {
        "voids": run["voids"],
        "impossible": model_told["cannot_occur"],
        "invented": inside(model_told["by_class"]["hallucinated-tool"], INVENTED),
        "lost by the parser": inside(kinds["lost-call"], BROKEN),
        "other faults": {name for name, rate in kinds.items() if rate["count"]} - {"lost-call"},
        "blamed on the model": run["arrivals"]["blames"]["model"]["count"],
    } == {
        "voids": [],
        "impossible": [],
        "invented": True,
        "lost by the parser": True,
        "other faults": set(),
        "blamed on the model": 0,
    }
