"""A run over a Ray cluster: actors that play it as shards do, and a driver that tells of it.

Which trial is whose, and that none is lost or counted twice, is what the store says of shards. Ray
places the workers, starts them anew, and carries what the display is told.
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
    """As `evaluate.run_models`; the plan's part has the job, and the lease of each worker.

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
    """Where the workers may send which key, by the word of who starts them. Raises UsageError."""
    configured, granted = load_models(roots()), []
    for name in plan.options.model:
        if not name.startswith(SIMULATED):
            for one in resolve(name, configured, plan.options.base_url).each:
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


def _play(ray: Any, order: Order, parts: Sequence[Part], shown: Shown) -> None:
    here = ray.get_runtime_context().get_node_id()
    beside = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    told = import_module("ray.util.queue").Queue(
        actor_options={"num_cpus": 0, "scheduling_strategy": beside(here, soft=False)}
    )
    lasting = {"max_restarts": STARTS, "max_task_retries": STARTS}
    made = ray.remote(num_cpus=1, scheduling_strategy="SPREAD", **lasting)(Worker)
    workers = [made.remote() for _ in parts]
    try:
        playing = {
            worker.play.remote({**order, "part": asdict(part)}, told): part
            for worker, part in zip(workers, parts, strict=True)
        }
        _follow(ray, playing, shown, lambda: told.get_nowait_batch(told.qsize()))
    finally:
        for worker in workers:
            ray.kill(worker)
        told.shutdown(force=True)


def _follow(
    ray: Any, playing: dict[Any, Part], shown: Shown, events: Callable[[], list[Event]]
) -> None:
    """Until one has seen every trial end. Raises what ended the last one where all were refused."""
    while playing:
        over, _ = ray.wait([*playing], timeout=EVERY)
        shown.all(events())
        for one in over:
            part = playing.pop(one)
            error = _ended(ray, one, part)
            if error is None:
                ray.wait([*playing], num_returns=len(playing), timeout=GRACE) if playing else ()
                shown.all(events())
                return
            if not playing:
                raise error
            shown.note(f"{error}. It is left out")


def _ended(ray: Any, one: Any, part: Part) -> AgentevalError | None:
    """Why a worker does not play; None where it did until there was no trial left."""
    try:
        ray.get(one)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AgentevalError):
            return error.cause
        raise
    except ray.exceptions.RayError as error:
        return HostError(f"worker {part.label}: {' '.join(str(error).split())}")
    return None
