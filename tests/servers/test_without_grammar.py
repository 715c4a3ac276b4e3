"""Real servers without a grammar of calls: known rates are found, and what a parser does is told.

Broken JSON becomes another thing behind each of them, and by some another one when streamed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from caller import BROKEN, INVENTED
from played import inside, likely, play

from agenteval.cli.options import TOO_VOID
from agenteval.config.models import ModelEntry
from agenteval.models.probe import ask_server
from agenteval.trial.call import Blame
from agenteval.trial.run import FREE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # vLLM starts in a minute or more

SEEDS = 11, 12, 13  # about 690 calls: a rate that is lost, doubled or of another kind is seen
MISSED = 3  # of six intervals of 95 % more miss in one of ten thousand times
BECOMES = {  # of broken JSON, by server and whether streamed
    ("mlx", True): ("lost-call", Blame.PARSER),
    ("mlx", False): ("lost-call", Blame.PARSER),
    ("vllm", True): ("broken-json", Blame.MODEL),
    ("vllm", False): ("call-in-text", Blame.MODEL),
    ("transformers", True): ("refused-call", Blame.MODEL),
}
# Of an object that was left open vLLM's parser makes a whole call where its end mark comes in an
# event of its own, and a broken one where a brace comes with it: which tokens come together depends
# on how busy the server is, and nothing in a reply tells.
COMPLETED = {("vllm", True)}


async def test_no_grammar_is_in_force(free) -> None:
    _, entry = free
    found = await ask_server(ModelEntry.model_validate(entry))
    assert (found["grammar of calls"], found["calls come"]) == (FREE, "as calls")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_report_finds_the_rates_of_the_weights(free, project, stream) -> None:
    server, entry = free
    if (server, stream) not in BECOMES:
        pytest.skip("it answers a broken call with an error that says nothing")
    kind, blame = BECOMES[server, stream]
    reports = [play(project, trials=30, stream=stream, seed=seed, **entry) for seed in SEEDS]
    runs = [run for report in reports for run in report["runs"]]
    models = [model for report in reports for model in report["models"]]
    invented = [model["by_class"]["hallucinated-tool"] for model in models]
    broken = [run["arrivals"]["kinds"][kind] for run in runs]
    missed = [not inside(one, INVENTED) for one in invented]
    (count, n), whole = pooled(broken), (server, stream) in COMPLETED
    missed += [not inside(one, BROKEN) for one in broken if not whole]
    assert {
        "voids": [void for run in runs for void in run["voids"]],
        "impossible": [name for model in models for name in model["cannot_occur"]],
        "invented": likely(*pooled(invented), INVENTED) or invented,
        "broken": likely(count, n, BROKEN) or (whole and count < n * BROKEN) or broken,
        "intervals": sum(missed) <= MISSED,
        "other faults": {name for run in runs for name in seen(run, "kinds")} - {kind},
        "blamed": {name for run in runs for name in seen(run, "blames")} - {blame},
    } == {
        "voids": [],
        "impossible": [],
        "invented": True,
        "broken": True,
        "intervals": True,
        "other faults": set(),
        "blamed": set(),
    }


def pooled(rates: Sequence[Mapping[str, int]]) -> tuple[int, int]:
    return sum(one["count"] for one in rates), sum(one["n"] for one in rates)


def seen(run: Mapping[str, Any], part: str) -> list[str]:
    return [name for name, rate in run["arrivals"][part].items() if rate["count"]]


def test_an_error_that_says_nothing_makes_the_rate_impossible_and_is_told(free, project) -> None:
    """Transformers answers a whole reply's broken call with `Internal Server Error` alone."""
    server, entry = free
    if server != "transformers":
        pytest.skip("of transformers' server")
    report = play(project, trials=15, ends=TOO_VOID, stream=False, **entry)
    (run,) = report["runs"]
    assert {one["cause"] for one in run["voids"]} == {"server-error"}
