"""A worker of a cluster: an actor that plays a part of a run, and the events that it sends."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenteval import workflows
from agenteval.config.trust import bind
from agenteval.core.run import Options
from agenteval.errors import UsageError
from agenteval.protocols import Observer, Progress, TrialKey
from agenteval.store.shards import Part
from agenteval.store.sql import SqlStore
from agenteval.workflows.stages import digests, plan_of, policies_of

if TYPE_CHECKING:
    from agenteval.workflows.evaluate import Session

Event = tuple[str, tuple[Any, ...]]  # a method of an Observer, or of a Progress, and its arguments
Order = Mapping[str, Any]  # plain values, so that another version of agenteval can read its number
EVERY = 0.5  # seconds between two reports of a worker


@dataclass(slots=True)
class Telling:
    """A Progress, and the Observer of each of its runs; `send` carries its words to the driver."""

    send: Callable[[list[Event]], None]
    model: str = ""
    _pending: list[Event] = field(default_factory=list)
    _sent: float = 0.0

    def run(self, model: str, *, trials: int, simulated: bool) -> "Telling":
        self.model = model
        self._tell("run", model, trials, simulated)
        return self

    def note(self, line: str) -> None:
        self._tell("note", line)

    def wrote(self, trial: TrialKey, tokens: int) -> None:
        self._tell("wrote", self.model, trial, tokens)

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        self._tell("called", self.model, trial, failure_class)

    def finished(self, trial: TrialKey, *, void: str) -> None:
        self._tell("finished", self.model, trial, void)

    def flush(self) -> None:
        self._sent = time.monotonic()
        if self._pending:
            self.send(self._pending)
            self._pending = []

    def _tell(self, what: str, *said: Any) -> None:
        self._pending.append((what, said))
        if time.monotonic() - self._sent >= EVERY:
            self.flush()


class Worker:
    """An actor that plays trials that nobody else has begun, in a sandbox of its own node."""

    def play(self, order: Order, event_queue: Any) -> None:
        """Play until every trial of the run has ended. Raises UsageError and HostError."""
        field_names = {one.name for one in fields(Part)}  # another version's may have more
        part = Part(**{name: one for name, one in order["part"].items() if name in field_names})
        _check_like_driver(part, order)
        for url, variable in order.get("keys", ()):
            bind(url, variable)
        if Path(order["folder"]).is_dir():
            os.chdir(order["folder"])
        telling = Telling(event_queue.put_nowait_batch)
        try:
            with closing(SqlStore(order["store"])) as store:
                plan = plan_of(Options(**order["options"]), order["store"], part=part)
                session = workflows.evaluate.session_of(plan, store, None, telling)
                _check_suite(part, suite_of(session), order["suite"])
                asyncio.run(session.play())
        except UsageError as error:
            complaint = str(error)
            raise UsageError(
                complaint if complaint.startswith(str(part)) else f"{part}: {complaint}"
            ) from None
        finally:
            telling.flush()


def _check_like_driver(part: Part, order: Order) -> None:
    """Raises UsageError where this node could not play what the driver wants played."""
    version = import_module("agenteval").__version__  # of the package, which is above this layer
    if version != order["version"]:
        raise UsageError(
            f"{part}: this is agenteval {version}, and the driver's is {order['version']}. "
            "Install the same on each node"
        )
    if order["host"] not in {"", os.uname().nodename}:
        raise UsageError(
            f"{part}: --store {order['store']} is a file of {order['host']}. Workers on several "
            "machines need a database that all reach: --store postgresql://HOST/runs"
        )


def _check_suite(part: Part, own: Mapping[str, str], driver: Mapping[str, str]) -> None:
    """Raises UsageError for what differs, by its name."""
    for name in sorted({*own, *driver}):
        if own.get(name) != driver.get(name):
            raise UsageError(
                f"{part}: {name} is another one than where the run was begun. Have the same "
                "project on each node, in a folder of the same name"
            )


def suite_of(session: "Session") -> dict[str, str]:
    """Return what must be the same for all workers, by name."""
    return {
        **{f"allow list {name!r}": one for name, one in policies_of(session.stages).items()},
        **{f"scenario {name!r}": one for name, one in digests(session.stages).items()},
        "the prompt": session.plan.setting.protocol,
    }


@dataclass(slots=True)
class Shown:
    """The events of workers, as one display of one command shows them."""

    progress: Progress
    _runs: dict[str, Observer] = field(default_factory=dict)
    _notes: set[str] = field(default_factory=set)

    def all(self, events: Sequence[Event]) -> None:
        for kind, payload in events:
            match kind:
                case "note":
                    self.note(*payload)
                case "run":
                    self._run(*payload)
                case _:
                    model, *arguments = payload
                    _observe(self._runs[model], kind, *arguments)

    def note(self, line: str) -> None:
        """Note a line once, however many workers send it."""
        if line not in self._notes:
            self.progress.note(line)
        self._notes.add(line)

    def _run(self, model: str, trials: int, simulated: bool) -> None:  # noqa: FBT001 -- as it was sent
        if model not in self._runs:
            self._runs[model] = self.progress.run(model, trials=trials, simulated=simulated)


def _observe(observer: Observer, kind: str, key: TrialKey, payload: Any) -> None:
    match kind:
        case "wrote":
            observer.wrote(key, payload)
        case "called":
            observer.called(key, failure_class=payload)
        case _:
            observer.finished(key, void=payload)
