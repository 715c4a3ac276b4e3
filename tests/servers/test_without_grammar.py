"""Real servers without a grammar of calls: known rates are found, and what a parser does is told.

Broken JSON becomes another thing behind each of them, and by some another one when streamed.
"""

import pytest
from caller import BROKEN, INVENTED
from played import inside, play

from agenteval.config.models import ModelEntry
from agenteval.core.cards import FREE
from agenteval.core.malformed import Blame
from agenteval.models.server_questions import asked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # vLLM starts in a minute or more

SEED = 11
VOID = 4  # the exit code of a run whose voids pass the limit
BECOMES = {  # of broken JSON, by server and whether streamed
    ("mlx", True): ("lost-call", Blame.PARSER),
    ("mlx", False): ("lost-call", Blame.PARSER),
    ("vllm", True): ("broken-json", Blame.MODEL),
    ("vllm", False): ("call-in-text", Blame.MODEL),
    ("transformers", True): ("refused-call", Blame.MODEL),
}


async def test_no_grammar_is_in_force(free) -> None:
    _, entry = free
    found = await asked(ModelEntry.model_validate(entry))
    assert (found["grammar of calls"], found["calls come"]) == (FREE, "as calls")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_report_finds_the_rates_of_the_weights(free, project, stream) -> None:
    server, entry = free
    if (server, stream) not in BECOMES:
        pytest.skip("it answers a broken call with an error that says nothing")
    report = play(project, trials=30, stream=stream, seed=SEED, **entry)
    (model_told,), (run,) = report["models"], report["runs"]
    kinds, (kind, blame) = run["arrivals"]["kinds"], BECOMES[server, stream]
    assert {
        "voids": run["voids"],
        "impossible": model_told["cannot_occur"],
        "invented": inside(model_told["by_class"]["hallucinated-tool"], INVENTED),
        "broken": inside(kinds[kind], BROKEN),
        "other faults": {name for name, rate in kinds.items() if rate["count"]} - {kind},
        "blamed": {name for name, rate in run["arrivals"]["blames"].items() if rate["count"]},
    } == {
        "voids": [],
        "impossible": [],
        "invented": True,
        "broken": True,
        "other faults": set(),
        "blamed": {blame},
    }


def test_an_error_that_says_nothing_makes_the_rate_impossible_and_is_told(free, project) -> None:
    """Transformers answers a whole reply's broken call with `Internal Server Error` alone."""
    server, entry = free
    if server != "transformers":
        pytest.skip("of transformers' server")
    report = play(project, trials=15, ends=VOID, stream=False, **entry)
    (run,) = report["runs"]
    assert {one["cause"] for one in run["voids"]} == {"server-error"}
