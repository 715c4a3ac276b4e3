"""A run over a Ray cluster: actors that play it as shards do, and a driver that reports on it.

The store decides, as for shards, which worker has which trial, and that none is lost or counted
twice. Ray places the workers, starts them anew, and carries the events for the display.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from agenteval import workflows
from agenteval.config import trust
from agenteval.config.models import SIMULATED, load_models, resolve
from agenteval.config.roots import roots
from agenteval.errors import AgentevalError, HostError, UsageError
from agenteval.models.identity import key_of
from agenteval.protocols import Progress
from agenteval.report.side import Side
from agenteval.store.location import Location
from agenteval.store.shards import Part
from agenteval.store.sql import SqlStore
from agenteval.workflows.evaluate import Quiet, session_of
from agenteval.workflows.ray_worker import EVERY, Event, Order, Shown, Worker, suite_of
from agenteval.workflows.stages import Plan

GRACE = 5.0  # seconds for the others to close their parts
STARTS = 10  # of one worker, on one machine after another


def run_models(plan: Plan, progress: Progress | None = None) -> tuple[list[Side], bool]:
    """Play a plan as `evaluate.run_models` does; its part has the job and each worker's lease.

    Raises UsageError, and HostError where no worker could play.
    """
    progress, job = progress or Quiet(), plan.part or Part(1, 1)
    job = replace(job, job=job.job or uuid4().hex, run=plan.resume.id if plan.resume else "")
    plan = replace(plan, part=job)
    with closing(SqlStore(plan.store)) as store, _cluster() as ray:
        session = session_of(plan, store, None, progress)
        parts = shares(job, _processors(ray), session.levels[0])
        shard, interrupted = store.shard(job), False
        try:
            _play(ray, _order(plan, suite_of(session)), parts, Shown(progress))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            shard.let_go()
        runs = shard.played()
    return workflows.views.played(runs, plan.store), interrupted


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


def shares(job: Part, processors: int, trials: int) -> list[Part]:
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
    for name in plan.options.model:
        if not name.startswith(SIMULATED):
            for one in resolve(name, configured, plan.options.base_url).per_server:
                key_of(one)  # who may not have it is told before a worker begins
                granted += [(one.base_url, one.api_key_env)]
    return [pair for pair in granted if trust.may_send(pair[1], pair[0])]


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


def _play(ray: Any, order: Order, parts: Sequence[Part], display: Shown) -> None:
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
    ray: Any, playing: dict[Any, Part], display: Shown, events: Callable[[], list[Event]]
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
            if error is None:
                ray.wait([*playing], num_returns=len(playing), timeout=GRACE) if playing else ()
                display.all(events())
                return
            if not playing:
                raise error
            display.note(f"{error}. It is left out")


def _ended(ray: Any, one: Any, part: Part) -> AgentevalError | None:
    """Return why a worker does not play; None if it played until there was no trial left."""
    try:
        ray.get(one)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AgentevalError):
            return error.cause
        raise
    except ray.exceptions.RayError as error:
        return HostError(f"worker {part.label}: {' '.join(str(error).split())}")
    return None
