"""Each reply of the corpus gives its calls, its faults and the layer to blame; none raises."""

import re
import threading
from collections import Counter

import pytest
from scripted_server import TOOLS
from serve import STREAMS, Handler, Server

from agenteval.classes.malformed import KINDS
from agenteval.config.models import ModelEntry
from agenteval.errors import InfrastructureError
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.trial import Message

SAID = [Message("system", "You keep notes."), Message("user", "Go."), Message("assistant", "Hm.")]


@pytest.fixture(scope="module")
def url():
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize("name", STREAMS)
async def test_a_reply_gives_its_calls_and_its_faults(url, name) -> None:
    case = STREAMS[name]
    async with OpenAIModel(ModelEntry(base_url=url, model=name)) as model:
        if cause := case.get("void"):
            with pytest.raises(InfrastructureError) as caught:
                await model.ask(SAID, TOOLS, seed=1)
            assert (str(caught.value.cause), case["calls"], case["faults"]) == (cause, [], [])
            return
        turn = await model.ask(SAID, TOOLS, seed=1)
    calls = [{"name": one.name, "arguments": one.raw} for one in turn.calls]
    faults = [(one.kind, str(one.blame), one.position) for one in turn.malformed]
    expected = [(one["kind"], one["blame"], one.get("position")) for one in case["faults"]]
    assert (calls, faults) == (case["calls"], expected)


def test_the_corpus_is_large_and_says_where_it_is_from() -> None:
    sources = [one["source"] for one in STREAMS.values()]
    thread = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+")
    assert [one for one in sources if one and not thread.fullmatch(one)] == []
    reported = sum(map(bool, sources))
    origins = Counter(one["origin"].partition(" ")[0] for one in STREAMS.values())
    known = [
        one["streamed"] for one in STREAMS.values() if one["source"] or "recorded" in one["origin"]
    ]
    assert (len(STREAMS) >= 350, reported >= 200, sum(known) >= 150) == (True, True, True)
    assert (set(origins), origins["recorded"] >= 30) == ({"constructed", "recorded"}, True)


def test_every_kind_and_every_layer_that_a_server_shows_is_in_the_corpus() -> None:
    seen = Counter(fault["kind"] for one in STREAMS.values() for fault in one["faults"])
    assert {kind.id for kind in KINDS} - set(seen) == set()
