"""Several real servers of one model: who is asked, and what happens when one is gone."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from aiohttp import web

from agenteval.config.models import ModelEntry
from agenteval.errors import Cause, InfrastructureError, UnservedError, UsageError
from agenteval.models import endpoints
from agenteval.models.endpoints import _EndpointsHealth, health_of, model_of
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.run import Crash
from agenteval.trial.trial import Message

REPLY = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}


@dataclass
class Server:
    """Says ok, once `free`; `seeds` of all that it was asked."""

    seeds: list[int] = field(default_factory=list)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    status: int = 200
    _runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_get("/health", self._alive)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def again(self) -> None:
        await self.start(int(self.url.removesuffix("/v1").rpartition(":")[2]))

    async def _answer(self, request: web.Request) -> web.Response:
        self.seeds.append(json.loads(await request.read())["seed"])
        self.asked.set()
        status, free = self.status, self.free  # as they are when it is asked
        await free.wait()
        return web.json_response(REPLY, status=status)

    async def _alive(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok")


@dataclass
class Scene:
    servers: list[Server]
    entry: ModelEntry
    model: object
    notes: list[str]

    async def ask(self, *seeds: int) -> None:
        first, *others = (
            self.model.ask([Message("user", "hello")], [], seed=seed) for seed in seeds
        )
        async with asyncio.TaskGroup() if others else nullcontext() as group:
            for other in others:
                group.create_task(other)
            await first

    def who(self, seed: int) -> list[int]:
        """The servers that were asked for this trial."""
        return [at for at, server in enumerate(self.servers) if seed in server.seeds]


@asynccontextmanager
async def served(count: int) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        servers = [Server() for _ in range(count)]
        for server in servers:
            server.free.set()
            await server.start()
            stack.push_async_callback(server.stop)
        url = " ".join(server.url for server in servers)
        entry, notes = ModelEntry(base_url=url, model="m", stream=False), []
        model = await stack.enter_async_context(model_of(entry, notes.append))
        yield Scene(servers, entry, model, notes)


def counts(servers: Sequence[Server]) -> list[int]:
    return [len(set(server.seeds)) for server in servers]


async def test_trials_are_shared_out_and_each_stays_where_it_began() -> None:
    async with served(3) as scene:
        for _ in range(3):
            await scene.ask(*range(12))
        places = [scene.who(seed) for seed in range(12)]
    assert (counts(scene.servers), [len(one) for one in places]) == ([4, 4, 4], [1] * 12)


async def test_a_new_trial_begins_where_the_fewest_are_that_have_not_ended() -> None:
    async with served(2) as scene:
        slow = scene.servers[0]
        slow.free.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.ask(0))
            await slow.asked.wait()
            for seed in range(1, 5):
                await scene.ask(seed)
                scene.model.ended(seed)
            slow.free.set()
        assert (slow.seeds, scene.servers[1].seeds) == ([0], [1, 2, 3, 4])


async def test_one_that_dies_is_left_out_and_told_once_and_its_trials_go_on_elsewhere() -> None:
    async with served(2) as scene:
        await scene.ask(0, 1, 2, 3)
        (gone,) = scene.who(0)
        await scene.servers[gone].stop()
        for _ in range(2):
            await scene.ask(0, 1, 2, 3)
        other = scene.servers[1 - gone]
        assert (set(other.seeds), len(scene.notes)) == ({0, 1, 2, 3}, 1)
        assert scene.notes[0].startswith(f"{scene.servers[gone].url} is left out")


async def test_one_that_comes_back_is_taken_in_and_told(monkeypatch) -> None:
    monkeypatch.setattr(endpoints, "AGAIN", 0.0)
    async with served(2) as scene:
        first = scene.servers[0]
        await first.stop()
        await scene.ask(0)
        await first.again()
        await scene.ask(1, 2)
        assert [one.split()[1:3] for one in scene.notes] == [["is", "left"], ["answers", "again"]]
        assert scene.who(0) == [1]


async def test_where_all_are_gone_the_request_was_not_taken_and_may_be_sent_again() -> None:
    async with served(2) as scene:
        for server in scene.servers:
            await server.stop()
        with pytest.raises(UnservedError) as raised:
            await scene.ask(0)
        assert raised.value.cause is Cause.UNREACHABLE
        await scene.servers[1].again()
        await scene.ask(0)
        assert scene.who(0) == [1]


async def failed(scene: Scene, seed: int) -> None:
    with pytest.raises(InfrastructureError):
        await scene.ask(seed)
    scene.model.ended(seed)


async def test_one_that_fails_two_trials_one_after_another_gets_no_new_ones_and_is_told() -> None:
    async with served(2) as scene:
        scene.servers[0].status = 500
        await failed(scene, 0)
        await failed(scene, 1)
        for seed in range(2, 9):
            await scene.ask(seed)
            scene.model.ended(seed)
    (note,) = scene.notes
    url = scene.servers[0].url
    assert note.startswith(f"{url} is left out, as it fails (")
    assert counts(scene.servers) == [2, 7]


async def test_one_that_is_not_ready_for_two_trials_is_left_out_and_a_busy_one_is_not() -> None:
    for status, left_out in ((429, 0), (503, 1)):
        async with served(2) as scene:
            scene.servers[0].status = status
            for seed in (0, 2, 4):
                for _ in range(3):
                    with suppress(UnservedError):
                        await scene.ask(seed)
                        break
                scene.model.ended(seed)
        assert sum("is left out, as it fails" in note for note in scene.notes) == left_out
        assert (counts(scene.servers)[1] == 0) is (left_out == 0)


async def test_a_late_reply_of_before_takes_no_server_in_again() -> None:
    async with served(2) as scene:
        failing, sound = scene.servers
        for server in scene.servers:
            server.free.clear()
        async with asyncio.TaskGroup() as group:
            for seed, server in enumerate(scene.servers):
                group.create_task(scene.ask(seed))
                await server.asked.wait()
            late, failing.status, failing.free = failing.free, 500, asyncio.Event()
            failing.free.set()
            for seed in (2, 3):
                await failed(scene, seed)
            late.set()
            sound.free.set()
    assert [note.split()[1:4] for note in scene.notes] == [["is", "left", "out,"]]


async def test_a_trial_that_fails_again_or_a_reply_between_puts_no_server_out() -> None:
    async with served(2) as scene:
        broken = scene.servers[0]
        for seeds in ((0, 0), (2,)):
            broken.status = 500
            for seed in seeds:
                await failed(scene, seed)
            broken.status = 200
            await scene.ask(10)
            scene.model.ended(10)
    assert (scene.notes, scene.who(10)) == ([], [0])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize("at", [0, 1])
async def test_one_that_refuses_what_another_takes_costs_no_trial_and_is_left_out(
    status, at
) -> None:
    async with served(2) as scene:
        scene.servers[at].status = status
        for seed in range(4):
            await scene.ask(seed)
    (note,) = scene.notes
    assert note.startswith(f"{scene.servers[at].url} is left out, as it refuses what another takes")
    assert (counts(scene.servers)[at], counts(scene.servers)[1 - at]) == (1, 4)


async def test_where_none_takes_the_first_request_it_is_the_users_to_mend() -> None:
    async with served(2) as scene:
        for server in scene.servers:
            server.status = 401
        with pytest.raises(UsageError, match="the key is not accepted"):
            await scene.ask(0)
        await scene.servers[1].stop()
        with pytest.raises(UsageError, match="the key is not accepted"):
            await scene.ask(1)


@pytest.mark.parametrize("status", [401, 404, 422])
async def test_one_that_begins_to_refuse_costs_two_trials_and_is_left_out(status) -> None:
    async with served(2) as scene:
        await scene.ask(0, 1)
        for seed in (0, 1):
            scene.model.ended(seed)
        scene.servers[0].status = status
        await failed(scene, 2)
        await failed(scene, 3)
        for seed in range(4, 8):
            await scene.ask(seed)
            scene.model.ended(seed)
    assert [note.split()[1:6] for note in scene.notes] == [["is", "left", "out,", "as", "it"]]
    assert counts(scene.servers) == [3, 5]


async def test_where_all_begin_to_refuse_the_trial_is_void() -> None:
    async with served(2) as scene:
        await scene.ask(0)
        for server in scene.servers:
            server.status = 403
        with pytest.raises(InfrastructureError) as raised:
            await scene.ask(1)
    assert (raised.value.cause, raised.value.endpoint) == (Cause.REFUSED, scene.servers[0].url)


async def test_the_last_server_is_not_left_out_for_failing() -> None:
    async with served(2) as scene:
        await scene.servers[0].stop()
        scene.servers[1].status = 500
        for seed in range(6):
            await failed(scene, seed)
    assert ["does not answer" in note for note in scene.notes] == [True]
    assert counts(scene.servers) == [0, 6]


async def test_a_reply_that_went_wrong_is_asked_for_nowhere_else() -> None:
    async with served(2) as scene:
        scene.servers[0].status = 500
        with pytest.raises(InfrastructureError) as raised:
            await scene.ask(0)
        assert (raised.value.endpoint, counts(scene.servers)) == (scene.servers[0].url, [1, 0])


@pytest.mark.parametrize(("shares", "most"), [((2, 2), 2), ((3, 3), 3), ((1, 1, 1, 1), 2)])
async def test_no_server_has_more_than_its_share_whichever_trials_end_first(shares, most) -> None:
    """Between its requests a trial runs commands; each process plays so many trials at a time."""
    chance = Random(1)
    async with served(2) as scene, AsyncExitStack() as stack:
        models = [
            await stack.enter_async_context(model_of(scene.entry, print, sum(shares[:at])))
            for at in range(len(shares))
        ]
        playing = {}
        for seed in range(60):
            full = [at for at, own in enumerate(shares) if [*playing.values()].count(at) == own]
            if len(full) == len(shares):
                gone = chance.choice([*playing])
                models[playing.pop(gone)].ended(gone)
            at = next(at for at, own in enumerate(shares) if [*playing.values()].count(at) < own)
            playing[seed] = at
            await models[at].ask([Message("user", "hello")], [], seed=seed)
            there = [sum(one in server.seeds for one in playing) for server in scene.servers]
            assert max(there) <= most, (seed, there)


async def test_a_trial_that_moves_leaves_its_place_to_another(monkeypatch) -> None:
    monkeypatch.setattr(endpoints, "AGAIN", 0.0)
    async with served(2) as scene:
        await scene.ask(0, 1, 2, 3)
        await scene.servers[0].stop()
        await scene.ask(0, 1, 2, 3)
        await scene.servers[0].again()
        await scene.ask(*range(4, 8))
        assert [scene.who(seed) for seed in range(4, 8)] == [[0]] * 4


async def test_a_crash_is_looked_for_at_the_server_that_failed_and_names_it() -> None:
    crashes: list[Crash] = []
    async with served(2) as scene, _EndpointsHealth(scene.entry, crashes.append) as health:
        url = scene.servers[1].url
        await scene.servers[1].stop()
        here, there = (InfrastructureError("reset", Cause.LOST) for _ in range(2))
        here.endpoint, there.endpoint = scene.servers[0].url, url
        found = [(await health.after(one)).cause for one in (here, there)]
        assert (found, await health.context()) == ([Cause.LOST, Cause.CRASHED], None)
        assert [one.said for one in crashes] == [f"{url}: the server is gone"]


def test_a_model_of_one_server_is_asked_as_it_always_was() -> None:
    entry = ModelEntry(base_url="http://localhost:1/v1", model="m")
    assert isinstance(model_of(entry, print), OpenAIModel)
    assert not isinstance(health_of(entry, print), _EndpointsHealth)
