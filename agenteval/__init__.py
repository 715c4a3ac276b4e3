"""agenteval: how reliably does a served model call its tools under an allow list?

    import agenteval

    result = agenteval.run("sim/qwen3.6-35b", ["ralf/handshake"], trials=2)
    print(result.errors.per_100())

docs/python.md tells the rest. Each name is imported when it is first used. Who reads the source
begins with `protocols`: the seams, on one screen.
"""

import sys

# `python -m agenteval` puts the working folder before all libraries: a numpy.py there would run.
if sys.argv[:1] == ["-m"] and "agenteval" in sys.orig_argv and not sys.flags.safe_path:
    del sys.path[0]

from agenteval._version import __version__ as __version__
from agenteval.lazily import attributes

# Name to module.
_HOMES = {
    "run": "api.runs",
    "run_async": "api.runs",
    "rescore": "api.runs",
    "load": "api.runs",
    "ingest": "api.runs",
    "compare": "api.comparisons",
    "gate": "api.comparisons",
    "classify": "api.comparisons",
    "RunResult": "api.runs",
    "Ingestion": "api.runs",
    "Comparison": "api.comparisons",
    "GateResult": "api.comparisons",
    "Classification": "api.comparisons",
    "Progress": "api.runs",
    "Table": "api.runs",
    "Rate": "stats.rates",
    "UsageError": "errors",
    "InfrastructureError": "errors",
    "HostError": "errors",
}

TYPE_CHECKING = False  # typing's own takes as long to import as all of this
if TYPE_CHECKING:
    from agenteval.api.comparisons import (
        Classification,
        Comparison,
        GateResult,
        classify,
        compare,
        gate,
    )
    from agenteval.api.runs import (
        Ingestion,
        Progress,
        RunResult,
        Table,
        ingest,
        load,
        rescore,
        run,
        run_async,
    )
    from agenteval.errors import HostError, InfrastructureError, UsageError
    from agenteval.stats.rates import Rate
else:
    __getattr__ = attributes(__name__, _HOMES)

__all__ = [
    "Classification",
    "Comparison",
    "GateResult",
    "HostError",
    "InfrastructureError",
    "Ingestion",
    "Progress",
    "Rate",
    "RunResult",
    "Table",
    "UsageError",
    "classify",
    "compare",
    "gate",
    "ingest",
    "load",
    "rescore",
    "run",
    "run_async",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
