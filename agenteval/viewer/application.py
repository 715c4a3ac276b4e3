"""The viewer as a web application, and as files that link each other.

`Guard` says who may read and write: a host that is known, and a token. `application` answers with
pages, keeps the reviews that users write, and sends events of a run. `write` makes the same pages
to open from a folder or a zip without a server.
"""

import asyncio
import gc
import hashlib
import ipaddress
import json
import re
import secrets
import shutil
import socket
import tomllib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenteval.classes.catalogue import failure_classes
from agenteval.errors import HostError, UsageError, unwritten
from agenteval.serving import http
from agenteval.serving.bounds import Bounds, bounds
from agenteval.store.location import Query
from agenteval.store.search import ALLOWED, Review, reviews
from agenteval.store.sql import SqlStore, opened
from agenteval.viewer.calls import Served, State, Visit, is_number
from agenteval.viewer.pages import ASSETS, FIRST, PAGES, asset, complaint, rendered

# Access: hosts by name, writing by a token, and what a page may load.

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NOTHING_ELSE = "base-uri 'none'; frame-ancestors 'none'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    f"form-action 'self'; {_NOTHING_ELSE}"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Guard:
    """The access rules of a server on this host and port. A client with the token may write."""

    host: str
    port: int
    token: str

    @property
    def cookie(self) -> str:
        """The name of the cookie. It has the port, as cookies of a host are shared by all ports."""
        return f"agenteval-{self.port}"

    @property
    def key(self) -> str:
        """The key that a form must send; a page with the key does not reveal the token."""
        return hashlib.sha256(f"form {self.token}".encode()).hexdigest()

    def is_known(self, host: str) -> bool:
        """Return True if a Host header is allowed. A name of an attacker's DNS is not.

        A server that listens beyond loopback accepts addresses, which no DNS can redirect, and its
        own host name.
        """
        if (named := _split(host)) is None:
            return False
        name, port = named
        if port != self.port:
            return False
        if name in {self.host, *LOOPBACK}:
            return True
        return self.host not in LOOPBACK and (_is_address(name) or name == socket.gethostname())

    def opens(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())

    def may_write(self, request: Request) -> bool:
        return self.opens(request.cookies.get(self.cookie, ""))

    def is_of_own_page(self, request: Request) -> bool:
        """Return True if a page of this server sent the form, from a client that may write."""
        origin = urlsplit(request.headers.get("origin", ""))
        site = request.headers.get("sec-fetch-site", "same-origin")
        return (
            self.may_write(request)
            and site == "same-origin"
            and origin.scheme == "http"
            and origin.netloc == request.headers.get("host")
        )

    def is_key(self, key: str) -> bool:
        return secrets.compare_digest(key.encode(), self.key.encode())


def _split(host: str) -> tuple[str, int] | None:
    try:
        split = urlsplit(f"//{host}")
        name, port = split.hostname, split.port
    except ValueError:
        return None
    if not name or split.path or split.query or split.fragment or "@" in host:
        return None
    return name, 80 if port is None else port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def guarded(app: ASGIApp, guard: Guard) -> ASGIApp:
    """Wrap the application: refuse unknown hosts, and add the headers to every response."""

    async def app_behind_guard(
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif guard.is_known(Headers(scope=scope).get("host", "")):
            await app(scope, receive, _with_headers(send))
        else:
            message = f"This is agenteval view on port {guard.port}: ask for it by its address.\n"
            refused = PlainTextResponse(message, status_code=421)
            await refused(scope, receive, _with_headers(send))

    return app_behind_guard


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sent


# Pages, reviews and events.

_LOOK_EVERY = 1.0  # seconds between two looks at a run under way
_LONGEST = 20_000  # characters of a note
_MOST = 1 << 20  # bytes of a form: four times what the longest note has as a form sends it
_STATE = """SELECT count(*), coalesce(sum(calls), 0) FROM trial
    WHERE run_id = :run AND outcome != '' AND NOT replaced"""
_NEWEST = """SELECT max(one.id) FROM "call" AS one JOIN trial ON trial.id = one.trial_id
    WHERE trial.run_id = :run AND trial.outcome = ''"""


def application(
    store: str,
    guard: Guard,
    limits: Bounds | None = None,
) -> ASGIApp:
    """Return the application over the store at this file or URL; it is read for each page."""
    viewer = _Viewer(store, guard, limits or bounds())
    pages = [Route(f"/{name}", viewer.page) for name in PAGES if name != FIRST]
    app = Starlette(
        routes=[
            Route("/", viewer.first),
            *pages,
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
            return self.page(request)
        if not self.guard.opens(token):
            raise UsageError("this token is not of this server: open the address that it printed")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self.guard.cookie,
            token,
            httponly=True,
            samesite="strict",
        )
        return answer

    def page(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        with opened(self.store) as query:
            return HTMLResponse(rendered(name, self._visit(request, query)))

    def _visit(self, request: Request, query: Query) -> Visit:
        key = self.guard.key if self.guard.may_write(request) else ""
        return Visit(
            self.store,
            query,
            Served(),
            dict(request.query_params),
            key,
        )

    def wrong(self, request: Request, error: Exception) -> Response:
        status = 503 if isinstance(error, HostError) else 400
        return self._complaint(request, str(error), status)

    def not_found(self, request: Request, error: Exception) -> Response:
        del error
        return self._complaint(request, "There is no such page.", 404)

    def _complaint(
        self,
        request: Request,
        reason: str,
        status: int,
    ) -> Response:
        page = complaint(self._visit(request, _no_store), reason)
        return HTMLResponse(page, status_code=status)

    async def review(self, request: Request) -> Response:
        if not self.guard.is_of_own_page(request):
            return _not_written()
        sent = b""
        try:
            async for part in request.stream():
                sent += part
                if len(sent) > _MOST:
                    return PlainTextResponse(f"Not written: over {_MOST} bytes.\n", status_code=413)
        except ClientDisconnect:  # nobody reads the answer
            return _not_written()
        form = dict(parse_qsl(sent.decode("utf-8", "replace")))
        if not self.guard.is_key(form.get("key", "")):
            return _not_written()
        return await run_in_threadpool(self._keep, form)

    def _keep(self, form: Mapping[str, str]) -> Response:
        label, call = form.get("label", ""), form.get("call", "")
        note = form.get("note", "").strip()
        known = {"", ALLOWED, *(failure_class.id for failure_class in failure_classes())}
        if label not in known:
            raise UsageError(f"no failure class {label[:80]!r}")
        if len(note) > _LONGEST:
            raise UsageError(f"a note may have {_LONGEST} characters; this has {len(note)}")
        if not is_number(call):
            raise UsageError("the form names no call")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with closing(SqlStore(self.store)) as store:
            if not store.review(int(call), label, note, now):
                raise UsageError(f"no call {call} in this store")
        return RedirectResponse(f"/call?id={call}", status_code=303)

    def reviews(self, request: Request) -> Response:
        del request
        with opened(self.store) as query:
            lines = _json_lines(reviews(query))
        attachment = {"Content-Disposition": 'attachment; filename="reviews.jsonl"'}
        return PlainTextResponse(lines, headers=attachment)

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
            await asyncio.sleep(_LOOK_EVERY)

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


def _json_lines(all_reviews: Sequence[Review]) -> str:
    return "".join(f"{json.dumps(asdict(review))}\n" for review in all_reviews)


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return PlainTextResponse("no such file\n", status_code=404)
    return Response(asset(name), media_type=ASSETS[name][2])


def _nothing(request: Request) -> Response:
    del request
    return Response(status_code=204)


_RARELY = 100_000  # objects between two rounds of gc: at each 700 a comparison takes a quarter more


def serve(
    store: str,
    host: str,
    port: int,
    announce: Callable[[str], None],
) -> None:
    """Serve until interrupted; call `announce` with the address. Raises UsageError."""
    gc.set_threshold(_RARELY)
    # A store that is not one, or of an older schema, is reported or upgraded now.
    with opened(store):
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
        guard = Guard(
            host,
            listener.getsockname()[1],
            secrets.token_urlsafe(24),
        )
        named = f"[{host}]" if ":" in host else host
        announce(f"http://{named}:{guard.port}/?token={guard.token}")
        limits = bounds()
        viewer = http.server(application(store, guard, limits), limits)
        asyncio.run(http.serve(viewer, listener, limits))


# The same pages as files.

# By what files may choose calls beside their run: one of these at a time, as all of them at once
# would be a page for every combination.
_CHOICES = {"failure_class", "denied", "scenario", "number"}


@cache
def _states() -> Mapping[str, Sequence[str]]:
    text = files("agenteval.viewer").joinpath("pages.toml").read_text("utf-8")
    states: Mapping[str, Sequence[str]] = tomllib.loads(text)["states"]
    return states


class _Files:
    """The addresses of files in one folder. Linked pages are queued for writing (`wanted`)."""

    static = True

    def __init__(self, called: Collection[int]) -> None:
        """Create addresses; `called` are the calls that have a page of their own."""
        self.wanted: deque[tuple[str, State]] = deque()
        self._called = called
        self._known: set[str] = set()

    def page(self, name: str, state: State) -> str:
        if name == "reviews.jsonl":
            return name
        if name == "trial":  # which part of a long one is here is for a server to find out
            state = {key: value for key, value in state.items() if key != "turn"}
        if not self._is_there(name, state):
            return ""
        file = _file_name(name, state)
        if file not in self._known:
            self._known.add(file)
            self.wanted.append((name, state))
        return file

    def _is_there(self, name: str, state: State) -> bool:
        if not set(state) <= set(_states()[name]):
            return False
        if name == "call":
            return int(state["id"]) in self._called
        if name == "compare":
            return state["a"] < state["b"]
        if name == "calls":
            return "run" in state and len(_CHOICES & set(state)) <= 1 + ("number" in state)
        return True

    def asset(self, name: str) -> str:
        return f"static/{name}"


def _file_name(name: str, state: State) -> str:
    """Return a readable, portable file name that is unique for each state."""
    if not state:
        return f"{name or 'index'}.html"
    readable = "-".join([name or "runs", *state.values()])
    digest = hashlib.sha256(json.dumps(sorted(state.items())).encode()).hexdigest()[:10]
    return f"{re.sub(r'[^a-z0-9]+', '-', readable.lower())[:80].strip('-')}-{digest}.html"


def write(store: str, folder: Path) -> int:
    """Write all pages into a new folder, and return their number. Raises UsageError on failure."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--export {folder}: is there already and not empty; name a new folder")
    try:
        (folder / "static").mkdir(parents=True, exist_ok=True)
        for name in ASSETS:
            if not name.startswith("htmx"):
                (folder / "static" / name).write_bytes(asset(name))
        with opened(store) as query:
            return _write_pages(store, query, folder)
    except HostError:  # the store's
        _empty(folder)
        raise
    except OSError as error:
        _empty(folder)  # so that it can be written there once there is room
        raise unwritten(f"--export {folder}", error, "name a folder of yours") from error


def _empty(folder: Path) -> None:
    """Remove what was written, but not the folder, which may have existed before."""
    for path in folder.glob("*"):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


def _write_pages(store: str, query: Query, folder: Path) -> int:
    all_reviews = reviews(query)
    (folder / "reviews.jsonl").write_text(_json_lines(all_reviews), encoding="utf-8")
    addresses = _Files({review.call for review in all_reviews})
    addresses.page(FIRST, {})
    written = 0
    while addresses.wanted:
        name, state = addresses.wanted.popleft()
        visit = Visit(store, query, addresses, state)
        try:
            page = rendered(name, visit)
        except UsageError as error:  # as of two runs of unlike arms, which cannot be compared
            page = complaint(visit, str(error))
        (folder / _file_name(name, state)).write_text(page, encoding="utf-8")
        written += 1
    return written
