"""Which backend a run uses: the one asked for, or the first whose probe passes, or no run."""

from collections.abc import Callable

from agenteval.errors import UsageError
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.bubblewrap import Bubblewrap
from agenteval.sandbox.container import Container
from agenteval.sandbox.namespaces import Namespaces
from agenteval.sandbox.none import Bare
from agenteval.sandbox.probe import Probe, probe

BACKENDS: dict[str, Callable[..., SandboxBackend]] = {
    "bubblewrap": Bubblewrap,
    "namespaces": Namespaces,
    "container": Container,
    "none": Bare,
}
AUTOMATIC = ("bubblewrap", "namespaces")
ISOLATING = (*AUTOMATIC, "container")


async def choose(name: str | None = None, *, prefork: bool = False) -> SandboxBackend:
    """The backend of this name, or the first that works here; `prefork`: see README.md.

    Raises UsageError, with the reason and the cure, when its probe fails. `none` isolates nothing
    and is never chosen but by name.
    """
    if name is not None and name not in BACKENDS:
        raise UsageError(f"--sandbox {name}: no such sandbox. Known: {', '.join(BACKENDS)}")
    if name == Bare.name:
        return Bare(prefork=prefork)
    failed = []
    for candidate in AUTOMATIC if name is None else (name,):
        backend = BACKENDS[candidate](prefork=prefork)
        seen = await probe(backend)
        if seen.works:
            return backend
        failed.append(seen)
    raise UsageError(f"no sandbox works here; nothing is run. {' | '.join(map(told, failed))}")


async def probe_all() -> list[Probe]:
    """What every backend that isolates shows here, in the order of choice."""
    return [await probe(BACKENDS[name]()) for name in ISOLATING]


def told(seen: Probe) -> str:
    """A failed probe as one line."""
    return f"{seen.backend}: {seen.reason}" + (f" ({seen.cure})" if seen.cure else "")
