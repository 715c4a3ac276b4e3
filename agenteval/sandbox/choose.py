"""Which backend a run uses: the one asked for, or the first whose probe passes, or no run."""

from collections.abc import Callable

from agenteval import plugins
from agenteval.errors import UsageError
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.backends import Bare, Bubblewrap, Namespaces
from agenteval.sandbox.container import Container
from agenteval.sandbox.probe import Probe, probe

GROUP = "agenteval.sandboxes"
Backend = Callable[..., SandboxBackend]
BACKENDS: dict[str, Backend] = {
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
    known = BACKENDS if name is None or name in BACKENDS else BACKENDS | _plugged()
    if name is not None and name not in known:
        raise UsageError(f"--sandbox {name}: no such sandbox. Known: {', '.join(known)}")
    if name == Bare.name:
        return Bare(prefork=prefork)
    failed = []
    for candidate in AUTOMATIC if name is None else (name,):
        backend = known[candidate](prefork=prefork)
        seen = await probe(backend)
        if seen.works:
            return backend
        failed.append(seen)
    raise UsageError(f"no sandbox works here; nothing is run. {' | '.join(map(told, failed))}")


async def probe_all() -> list[Probe]:
    """What every backend that isolates shows here, in the order of choice."""
    shipped = [BACKENDS[name] for name in ISOLATING]
    return [await probe(backend()) for backend in (*shipped, *_plugged().values())]


def _plugged() -> dict[str, Backend]:
    """Those of plug-ins, chosen by name only; they are probed as any other."""
    found = dict(plugins.load(GROUP, callable))
    for name in found.keys() & BACKENDS.keys():
        plugins.leave_out(GROUP, name, "there is a sandbox of that name")
        del found[name]
    return found


def told(seen: Probe) -> str:
    """A failed probe as one line."""
    return f"{seen.backend}: {seen.reason}" + (f" ({seen.cure})" if seen.cure else "")
