"""A check of this machine by trying its parts: sandboxes, readers of a model's output, bashlex."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agenteval.core.call import BashRun
from agenteval.engine.second_reader import SecondReader
from agenteval.sandbox.backends import AUTOMATIC, BACKENDS, automatic, groups_of, probe_all
from agenteval.sandbox.groups import cure
from agenteval.sandbox.inside.linux import landlock_version
from agenteval.sandbox.probe import Probe
from agenteval.workflows.hostile_projects import try_projects
from agenteval.workflows.hostile_texts import try_texts
from agenteval.workflows.hostile_worlds import Tried, try_worlds

# A command it reads, with its words; one it cannot read, one it hangs on.
ASKED = (("ls 'a b'", "ls", "a b"), ("echo { }",), ("echo a'${'b",))


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """The limits that the kernel itself enforces on each sandbox.

    If there are none, `lacking` says why, and `cure` what provides more.
    """

    held: tuple[str, ...] = ()
    lacking: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """`chosen` is the sandbox that a run uses by itself; None where none works.

    `inbound` is what of a model's was given to the parts that read it, `landlock` the version of
    the second layer in this kernel, 0 where it has none.
    """

    probes: Sequence[Probe]
    inbound: Sequence[Tried]
    second_reader: Mapping[str, int]
    landlock: int
    control_groups: KernelLimits

    @property
    def chosen(self) -> str | None:
        return _chosen(self.probes)

    @property
    def holds(self) -> bool:
        """True if a run can start, and nothing that a model sends does harm."""
        return self.chosen is not None and all(tried.is_as_wanted for tried in self.inbound)

    def document(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "control_groups": asdict(self.control_groups),
            "landlock": self.landlock,
            "sandboxes": [asdict(seen) for seen in self.probes],
            "inbound": [asdict(tried) | {"held": tried.is_as_wanted} for tried in self.inbound],
            "second_reader": dict(self.second_reader),
        }


def _chosen(probes: Sequence[Probe]) -> str | None:
    working = {seen.backend for seen in probes if seen.works}
    return next((name for name in automatic() if name in working), None)


def examine() -> Examined:
    return asyncio.run(_examine())


async def _examine() -> Examined:
    probes = await probe_all()
    inbound, reader = await _inbound(probes), await _second_reader()
    return Examined(probes, inbound, reader, landlock_version(), await _kernel_limits(probes))


async def _kernel_limits(probes: Sequence[Probe]) -> KernelLimits:
    name = _chosen(probes)
    if name is None:
        return KernelLimits(lacking="no sandbox works here", cure="first mend the sandbox")
    if name not in AUTOMATIC:
        return KernelLimits(lacking="of our own, as the container engine makes them")
    groups = await groups_of(name)
    return KernelLimits(groups.held, groups.lacking, cure(groups.lacking))


async def _inbound(probes: Sequence[Probe]) -> Sequence[Tried]:
    """In every sandbox of ours that works, all at once, as most of them wait; then the rest."""
    working = [seen.backend for seen in probes if seen.works and seen.backend in BACKENDS]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(try_worlds(BACKENDS[name]())) for name in working]
    return [*(tried for task in tasks for tried in task.result()), *try_texts(), *try_projects()]


async def _second_reader() -> Mapping[str, int]:
    """Return how bashlex answered the test commands, counted by answer."""
    async with SecondReader() as reader:
        for text, *words in ASKED:
            argv = tuple(words)
            await reader.objection(BashRun(text, argv, (argv,)))
    return dict(reader.counts)
