"""The pages as files that link each other, to open from a folder or a zip without a server."""

import hashlib
import json
import re
import shutil
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from agenteval.errors import HostError, UsageError, unwritten
from agenteval.store.reviews import reviews
from agenteval.store.summaries import Query, opened
from agenteval.viewer.addresses import State, Visit
from agenteval.viewer.pages import ASSETS, FIRST, asset, complaint, rendered

_PAGING = {"after", "before"}
# By what files may choose calls beside their run: one of these at a time, as all of them at once
# would be a page for every combination.
_CHOICES = {"failure_class", "denied", "scenario", "number"}
_STATES: Mapping[str, set[str]] = {
    FIRST: {"from"},
    "run": {"id"},
    "trials": {"run", "scenario", "after", "number"},
    "calls": {"run", "counted", *_PAGING, *_CHOICES},
    "call": {"id"},
    "trial": {"run", "scenario", "number", "from"},
    "side": {"a", "b", "scenario", "number"},
    "compare": {"a", "b", "across"},
    "reviews": {"run"},
}


class Written:
    """The addresses of files in one folder. Linked pages are queued for writing (`wanted`)."""

    static = True

    def __init__(self, called: frozenset[int]) -> None:
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
        if not set(state) <= _STATES[name]:
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
    lines = "".join(f"{json.dumps(asdict(one))}\n" for one in all_reviews)
    (folder / "reviews.jsonl").write_text(lines, encoding="utf-8")
    addresses = Written(frozenset(one.call for one in all_reviews))
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
