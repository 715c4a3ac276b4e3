"""A run over a Ray cluster: actors that play it as shards do, and a driver that reports on it.

The store decides, as for shards, which worker has which trial, and that none is lost or counted
twice. Ray places the workers, starts them anew, and carries the events for the display. The worker
comes first, then the driver.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from agenteval.config import trust
from agenteval.config.models import SIMULATED, load_models, resolve
from agenteval.config.trust import bind, roots
from agenteval.errors import AgentevalError, HostError, UsageError
from agenteval.models.servers import key_of
from agenteval.protocols import Observer, Progress, TrialKey
from agenteval.report.sentences import Side
from agenteval.store.location import Location
from agenteval.store.sql import Part, SqlStore
from agenteval.trial.run import Options
from agenteval.workflows import views
from agenteval.workflows.evaluate import Session, session_of
from agenteval.workflows.stages import Plan, Quiet, digests, plan_of, policies_of

Event = tuple[str, tuple[Any, ...]]  # the name of a method of `Shown`, and its arguments
Order = Mapping[str, Any]  # plain values, so that another version of agenteval can read its number
EVERY = 0.5  # seconds between two reports of a worker


@dataclass(slots=True)
class Telling:
    """A Progress, and the Observer of each of its runs; `send` carries its words to the driver."""

    send: Callable[[list[Event]], None]
    model: str = ""
    _pending: list[Event] = field(default_factory=list)
    _sent: float = 0.0

    def run(
        self,
        model: str,
        *,
        trials: int,
        simulated: bool,
    ) -> Self:
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

    def _tell(self, event: str, *arguments: Any) -> None:
        self._pending.append((event, arguments))
        if time.monotonic() - self._sent >= EVERY:
            self.flush()


class Worker:
    """An actor that plays trials that nobody else has begun, in a sandbox of its own node."""

    def play(self, order: Order, event_queue: Any) -> None:
        """Play until every trial of the run has ended. Raises UsageError and HostError."""
        known = Part.__dataclass_fields__.keys() & order["part"].keys()  # another version has more
        part = Part(**{name: order["part"][name] for name in known})
        _check_like_driver(part, order)
        for url, variable in order.get("keys", ()):
            bind(url, variable)
        # A node without the folder has no project, and is refused by its suite below.
        if Path(order["folder"]).is_dir():
            os.chdir(order["folder"])
        telling = Telling(event_queue.put_nowait_batch)
        try:
            with closing(SqlStore(order["store"])) as store:
                plan = plan_of(Options(**order["options"]), order["store"], part=part)
                session = session_of(plan, store, None, telling)
                _check_suite(part, _suite_of(session), order["suite"])
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


def _check_suite(
    part: Part,
    own: Mapping[str, str],
    driver: Mapping[str, str],
) -> None:
    """Raises UsageError for what differs, by its name."""
    for name in sorted({*own, *driver}):
        if own.get(name) != driver.get(name):
            raise UsageError(
                f"{part}: {name} is another one than where the run was begun. Have the same "
                "project on each node, in a folder of the same name"
            )


def _suite_of(session: Session) -> dict[str, str]:
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
        for event, arguments in events:
            getattr(self, event)(*arguments)

    def note(self, line: str) -> None:
        """Note a line once, however many workers send it."""
        if line not in self._notes:
            self.progress.note(line)
        self._notes.add(line)

    def run(self, model: str, trials: int, simulated: bool) -> None:  # noqa: FBT001 -- as it was sent
        if model not in self._runs:
            self._runs[model] = self.progress.run(
                model,
                trials=trials,
                simulated=simulated,
            )

    def wrote(
        self,
        model: str,
        trial: TrialKey,
        tokens: int,
    ) -> None:
        self._runs[model].wrote(trial, tokens)

    def called(
        self,
        model: str,
        trial: TrialKey,
        failure_class: str,
    ) -> None:
        self._runs[model].called(trial, failure_class=failure_class)

    def finished(
        self,
        model: str,
        trial: TrialKey,
        void: str,
    ) -> None:
        self._runs[model].finished(trial, void=void)


# The driver.

GRACE = 5.0  # seconds for the others to close their parts
STARTS = 10  # of one worker, on one machine after another


def run_models(plan: Plan, progress: Progress | None = None) -> tuple[list[Side], bool]:
    """Play a plan as `evaluate.run_models` does; its part has the job and each worker's lease.

    Raises UsageError, and HostError where no worker could play.
    """
    progress, job = progress or Quiet(), plan.part or Part(1, 1)
    job = replace(
        job,
        job=job.job or uuid4().hex,
        run=plan.resume.id if plan.resume else "",
    )
    plan = replace(plan, part=job)
    with closing(SqlStore(plan.store)) as store, _cluster() as ray:
        session = session_of(plan, store, None, progress)
        parts = shares(job, _processors(ray), session.levels[0])
        shard, interrupted = store.shard(job), False
        try:
            _play(ray, _order(plan, _suite_of(session)), parts, Shown(progress))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            shard.let_go()
        runs = shard.played()
    return views.played(runs, plan.store), interrupted


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray, at the cluster that it finds as it always does. Raises UsageError."""
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise UsageError("--executor ray: install agenteval-gate[ray], on each node") from error
    begun = not ray.is_initialized()
    try:
        if begun:
            ray.init(log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise UsageError(f"--executor ray: no cluster ({said}); see RAY_ADDRESS") from error
    try:
        yield ray
    finally:
        if begun:
            ray.shutdown()


def _processors(ray: Any) -> int:
    found = int(ray.cluster_resources().get("CPU", 0))
    if not found:
        raise UsageError("--executor ray: no node of the cluster has a processor")
    return found


def shares(
    job: Part,
    processors: int,
    trials: int,
) -> list[Part]:
    """The workers, each with its share of the trials that are played at a time."""
    workers = min(processors, trials)
    parts, before = [], 0
    for number in range(1, workers + 1):
        own = trials // workers + (number <= trials % workers)
        parts.append(replace(job, number=number, of=workers, trials=own, before=before))
        before += own
    return parts


def _granted(plan: Plan) -> list[trust.Pair]:
    """Return the origins to which workers may send which key, as the user who starts them may.

    Raises UsageError.
    """
    configured, granted = load_models(roots()), []
    served = [name for name in plan.options.model if not name.startswith(SIMULATED)]
    for name in served:
        for server in resolve(name, configured, plan.options.base_url).per_server:
            key_of(server)  # who may not have it is told before a worker begins
            if trust.may_send(server.api_key_env, server.base_url):
                granted.append((server.base_url, server.api_key_env))
    return granted


def _order(plan: Plan, suite: Mapping[str, str]) -> Order:
    file = Location(plan.store).file
    return {
        "version": plan.part.version if plan.part else "",
        "folder": str(Path.cwd()),
        "options": asdict(plan.options),
        "store": str(Path(file).absolute()) if file else plan.store,
        "host": os.uname().nodename if file else "",
        "suite": suite,
        "keys": _granted(plan),
    }


def _play(
    ray: Any,
    order: Order,
    parts: Sequence[Part],
    display: Shown,
) -> None:
    # The queue lives where the driver does: another node may die.
    here = ray.get_runtime_context().get_node_id()
    node_affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    event_queue = import_module("ray.util.queue").Queue(
        actor_options={"num_cpus": 0, "scheduling_strategy": node_affinity(here, soft=False)}
    )
    lasting = {"max_restarts": STARTS, "max_task_retries": STARTS}
    actor_class = ray.remote(num_cpus=1, scheduling_strategy="SPREAD", **lasting)(Worker)
    workers = [actor_class.remote() for _ in parts]
    try:
        playing = {
            worker.play.remote({**order, "part": asdict(part)}, event_queue): part
            for worker, part in zip(workers, parts, strict=True)
        }
        _follow(ray, playing, display, lambda: event_queue.get_nowait_batch(event_queue.qsize()))
    finally:
        for worker in workers:
            ray.kill(worker)
        event_queue.shutdown(force=True)


def _follow(
    ray: Any,
    playing: dict[Any, Part],
    display: Shown,
    events: Callable[[], list[Event]],
) -> None:
    """Wait until one worker has seen every trial end.

    Raises the error of the last worker if all were refused.
    """
    while playing:
        over, _ = ray.wait([*playing], timeout=EVERY)
        display.all(events())
        for one in over:
            part = playing.pop(one)
            error = _ended(ray, one, part)
            # One worker that saw every trial end is enough: the others only close their parts.
            if error is None:
                ray.wait([*playing], num_returns=len(playing), timeout=GRACE) if playing else ()
                display.all(events())
                return
            if not playing:
                raise error
            display.note(f"{error}. It is left out")


def _ended(
    ray: Any,
    task: Any,
    part: Part,
) -> AgentevalError | None:
    """Return why a worker does not play; None if it played until there was no trial left."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AgentevalError):
            return error.cause
        raise
    except ray.exceptions.RayError as error:
        return HostError(f"worker {part.label}: {' '.join(str(error).split())}")
    return None
