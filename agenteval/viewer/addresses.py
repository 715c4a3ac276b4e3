"""The addresses of pages, and requests for them: an address has all the state of its page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from agenteval.core.plain import legible
from agenteval.errors import UsageError
from agenteval.store.summaries import Query

State = Mapping[str, str]


class Addresses(Protocol):
    """The scheme of links between pages. `static` pages are files: no forms, and not every page."""

    static: bool

    def page(self, name: str, state: State) -> str:
        """Return the address of a page; empty if there is none."""
        ...

    def asset(self, name: str) -> str: ...


class Served:
    """The addresses of a server: the page's name, and its state as the query."""

    static = False

    def page(self, name: str, state: State) -> str:
        return f"/{name}?{urlencode(state)}" if state else f"/{name}"

    def asset(self, name: str) -> str:
        return f"/static/{name}"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page. `key` must be sent by a form that writes; "" means none may write."""

    store: str
    query: Query
    addresses: Addresses
    state: State = field(default_factory=dict)
    key: str = ""

    def get(self, name: str) -> str:
        return self.state.get(name, "")

    def to(self, page: str, /, **state: Any) -> str:
        """Return the address of a page in this state, without empty values."""
        filled = {name: legible(str(value)) for name, value in state.items() if _is_filled(value)}
        return self.addresses.page(page, filled)

    def changed(self, page: str, /, **state: Any) -> str:
        """Return the address of a page in the state of this one, with these changes."""
        return self.to(page, **(dict(self.state) | state))

    def number(self, name: str) -> int | None:
        """Return a number of the state; None if it is empty. Raises UsageError if it is none."""
        if not (text := self.get(name)):
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise UsageError(f"{name}={text[:40]}: must be a whole number")
        return int(text)

    def needed(self, name: str) -> str:
        """Return a value of the state. Raises UsageError if the address lacks it."""
        if not (value := self.get(name)):
            raise UsageError(f"the address of this page lacks {name}=")
        return value


def _is_filled(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def known_run(query: Query, run_id: str) -> str:
    """Return the id of a run. Raises UsageError if the store has no such run."""
    if not query("SELECT 1 FROM run WHERE id = :run", run=run_id):
        raise UsageError(f"no run {run_id[:200]!r} in this store")
    return run_id


def spot(agent: str, turn: int, position: int) -> str:
    """Return the anchor of a call in its transcript."""
    return f"{agent or 'call'}-{turn + 1}-{position + 1}".replace("/", "-")
