"""The web application: pages of a store over HTTP, reviews that users write, events of a run."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from agenteval import store as parts
from agenteval.errors import HostError, UsageError
from agenteval.serving import http
from agenteval.serving.bounds import Bounds, bounds
from agenteval.store.reviews import ALLOWED, reviews
from agenteval.store.summaries import Query, opened
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.viewer.addresses import Served, Visit
from agenteval.viewer.guard import Guard, guarded
from agenteval.viewer.pages import ASSETS, FIRST, PAGES, asset, complaint, rendered

LOOK_EVERY = 1.0  # seconds between two looks at a run under way
LONGEST = 20_000  # characters of a note
MOST = 1 << 20  # bytes of a form: four times what the longest note has as a form sends it
_STATE = """SELECT count(*), coalesce(sum(calls), 0) FROM trial
    WHERE run_id = :run AND outcome != '' AND NOT replaced"""
_NEWEST = """SELECT max(one.id) FROM "call" AS one JOIN trial ON trial.id = one.trial_id
    WHERE trial.run_id = :run AND trial.outcome = ''"""


def application(store: str, guard: Guard, limits: Bounds | None = None) -> ASGIApp:
    """Return the application over the store at this file or URL; it is read for each page."""
    viewer = _Viewer(store, guard, limits or bounds())
    named = [
        Route(f"/{name}", viewer.page_of(name), methods=["GET", "HEAD"])
        for name in PAGES
        if name != FIRST
    ]
    app = Starlette(
        routes=[
            Route("/", viewer.first),
            *named,
            Route("/review", viewer.review, methods=["POST"]),
            Route("/reviews.jsonl", viewer.reviews),
            Route("/events", viewer.events),
            Route("/static/{name}", _asset),
            Route("/favicon.ico", _nothing),
        ],
        exception_handlers={
            404: viewer.not_found,
            UsageError: viewer.wrong,
            HostError: viewer.wrong,
        },
    )
    return guarded(app, guard)


@dataclass(frozen=True, slots=True)
class _Viewer:
    store: str
    guard: Guard
    limits: Bounds
    streams: dict[object, None] = field(default_factory=dict)  # of events, the oldest first

    def first(self, request: Request) -> Response:
        """Return the list of runs; set the cookie if the address has the token."""
        token = request.query_params.get("token")
        if token is None:
            return self._page(request, FIRST)
        if not self.guard.opens(token):
            raise UsageError("this token is not of this server: open the address that it printed")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self.guard.cookie, token, httponly=True, samesite="strict")
        return answer

    def page_of(self, name: str) -> Callable[[Request], Response]:
        def page(request: Request) -> Response:
            return self._page(request, name)

        return page

    def _page(self, request: Request, name: str) -> Response:
        with opened(self.store) as query:
            return HTMLResponse(rendered(name, self._visit(request, query)))

    def _visit(self, request: Request, query: Query) -> Visit:
        key = self.guard.key if self.guard.may_write(request) else ""
        return Visit(self.store, query, Served(), dict(request.query_params), key)

    def wrong(self, request: Request, error: Exception) -> Response:
        page = complaint(self._visit(request, _no_store), str(error))
        return HTMLResponse(page, status_code=503 if isinstance(error, HostError) else 400)

    def not_found(self, request: Request, error: Exception) -> Response:
        del error
        page = complaint(self._visit(request, _no_store), "There is no such page.")
        return HTMLResponse(page, status_code=404)

    async def review(self, request: Request) -> Response:
        if not self.guard.is_of_own_page(request):
            return _not_written()
        sent = b""
        try:
            async for part in request.stream():
                sent += part
                if len(sent) > MOST:
                    return PlainTextResponse(f"Not written: over {MOST} bytes.\n", status_code=413)
        except ClientDisconnect:  # nobody reads the answer
            return _not_written()
        form = dict(parse_qsl(sent.decode("utf-8", "replace")))
        if not self.guard.is_key(form.get("key", "")):
            return _not_written()
        return await run_in_threadpool(self._keep, form)

    def _keep(self, form: dict[str, str]) -> Response:
        label, note, call = (
            form.get("label", ""),
            form.get("note", "").strip(),
            form.get("call", ""),
        )
        if label not in {"", ALLOWED, *(one.id for one in failure_classes())}:
            raise UsageError(f"no failure class {label[:80]!r}")
        if len(note) > LONGEST:
            raise UsageError(f"a note may have {LONGEST} characters; this has {len(note)}")
        if not (call.isascii() and call.isdecimal() and len(call) < 16):
            raise UsageError("the form names no call")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with closing(parts.sql.SqlStore(self.store)) as there:
            if not there.review(int(call), label, note, now):
                raise UsageError(f"no call {call} in this store")
        return RedirectResponse(f"/call?id={call}", status_code=303)

    def reviews(self, request: Request) -> Response:
        with opened(self.store) as query:
            lines = [json.dumps(asdict(one)) for one in reviews(query)]
        del request
        return PlainTextResponse(
            "".join(f"{line}\n" for line in lines),
            headers={"Content-Disposition": 'attachment; filename="reviews.jsonl"'},
        )

    async def events(self, request: Request) -> Response:
        run = request.query_params.get("run", "")
        return StreamingResponse(self._changes(run), media_type="text/event-stream")

    async def _changes(self, run: str) -> AsyncIterator[str]:
        """Yield an event whenever more of the run is stored, until it is complete.

        The stream ends earlier at its lifetime, or to make way for a newer one. A browser then
        reconnects.
        """
        stream, last = object(), asyncio.get_running_loop().time() + self.limits.stream
        if len(self.streams) >= self.limits.streams:
            self.streams.pop(next(iter(self.streams)))
        self.streams[stream] = None
        try:
            async for event in self._news(run):
                yield event
                if stream not in self.streams or asyncio.get_running_loop().time() > last:
                    return
        finally:
            self.streams.pop(stream, None)

    async def _news(self, run: str) -> AsyncIterator[str]:
        last_state = None
        while True:
            state = await run_in_threadpool(self._state, run)
            if state is None:
                yield "event: ended\ndata: {}\n\n"
                return
            if state != last_state:
                yield f"event: changed\ndata: {json.dumps(state)}\n\n"
                last_state = state
            else:
                yield ": nothing new\n\n"  # a reader who has gone is noticed by writing to him
            await asyncio.sleep(LOOK_EVERY)

    def _state(self, run: str) -> dict[str, int] | None:
        """Return the progress of the run; None if it is complete, or not in the store."""
        with opened(self.store) as query:
            rows = query("SELECT complete FROM run WHERE id = :run", run=run)
            if not rows or rows[0][0]:
                return None
            ((trials, calls),) = query(_STATE, run=run)
            ((newest,),) = query(_NEWEST, run=run)
            return {"trials": trials, "calls": calls, "newest": newest or 0}


def _not_written() -> Response:
    told = "Not written: open the address that `agenteval view` printed, and try again.\n"
    return PlainTextResponse(told, status_code=403)


def _no_store(sql: str, **named: Any) -> Sequence[Sequence[Any]]:
    """Answer queries of an error page with nothing, as the store itself may be at fault."""
    del sql, named
    return ()


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return PlainTextResponse("no such file\n", status_code=404)
    return Response(asset(name), media_type=ASSETS[name][2])


def _nothing(request: Request) -> Response:
    del request
    return Response(status_code=204)


RARELY = 100_000  # objects between two rounds of gc: at each 700 a comparison takes a quarter more


def serve(store: str, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until interrupted; call `announce` with the address. Raises UsageError."""
    gc.set_threshold(RARELY)
    with opened(
        store
    ):  # a store that is not one, or of an older schema, is reported or upgraded now
        pass
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]
        raise UsageError(
            f"--host {host} --port {port}: cannot listen there ({why}); --port 0 takes any that is "
            "free"
        ) from error
    with listener:
        guard = Guard.of(host, listener.getsockname()[1])
        named = f"[{host}]" if ":" in host else host
        announce(f"http://{named}:{guard.port}/?token={guard.token}")
        limits = bounds()
        viewer = http.server(application(store, guard, limits), limits)
        asyncio.run(http.serve(viewer, listener, limits))
