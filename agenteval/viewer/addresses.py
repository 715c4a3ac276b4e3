"""Where pages are, and what is asked of one: all that is on screen stands in its address."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from agenteval.core.plain import legible
from agenteval.errors import UsageError
from agenteval.store.summaries import Query

State = Mapping[str, str]


class Addresses(Protocol):
    """How pages are linked. Pages of files (`static`) have no form, and not every page is there."""

    static: bool

    def page(self, name: str, state: State) -> str:
        """The address of a page; empty where there is none."""
        ...

    def asset(self, name: str) -> str: ...


class Served:
    """Addresses of a server: the page's name, and its state behind it."""

    static = False

    def page(self, name: str, state: State) -> str:
        return f"/{name}?{urlencode(state)}" if state else f"/{name}"

    def asset(self, name: str) -> str:
        return f"/static/{name}"


@dataclass(frozen=True, slots=True)
class Visit:
    """One page that somebody asks for. `key` is what a form that writes must send; "": none may."""

    store: str
    query: Query
    addresses: Addresses
    state: State = field(default_factory=dict)
    key: str = ""

    def get(self, name: str) -> str:
        return self.state.get(name, "")

    def to(self, page: str, /, **state: Any) -> str:
        """The address of a page in this state, without what is empty."""
        kept = {name: legible(str(value)) for name, value in state.items() if _is_told(value)}
        return self.addresses.page(page, kept)

    def changed(self, page: str, /, **state: Any) -> str:
        """The address of a page in the state of this one, but for these."""
        return self.to(page, **(dict(self.state) | state))

    def number(self, name: str) -> int | None:
        """Raises UsageError for what is no number."""
        if not (given := self.get(name)):
            return None
        if not (given.isascii() and given.isdecimal() and len(given) < 16):
            raise UsageError(f"{name}={given[:40]}: must be a whole number")
        return int(given)

    def needed(self, name: str) -> str:
        """Raises UsageError where the address does not say it."""
        if not (given := self.get(name)):
            raise UsageError(f"the address of this page lacks {name}=")
        return given


def _is_told(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def known_run(query: Query, run_id: str) -> str:
    """Raises UsageError where the store has no run of this id."""
    if not query("SELECT 1 FROM run WHERE id = :run", run=run_id):
        raise UsageError(f"no run {run_id[:200]!r} in this store")
    return run_id


def spot(agent: str, turn: int, position: int) -> str:
    """The anchor of a call in its transcript."""
    return f"{agent or 'call'}-{turn + 1}-{position + 1}".replace("/", "-")
