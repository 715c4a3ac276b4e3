"""Access control of the viewer: hosts by name, writing by a token, and what a page may load."""

import hashlib
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

    @classmethod
    def of(cls, host: str, port: int) -> "Guard":
        return cls(host, port, secrets.token_urlsafe(24))

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

    async def app_behind_guard(scope: Scope, receive: Receive, send: Send) -> None:
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
