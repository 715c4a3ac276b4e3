"""Logs of other programs: a reader each, listed in `formats`; `trials` judges, `ingest` stores.

A reader takes a path and gives sessions (`trial.session`), and what it could not read of it. It
never raises for what stands in a file, and never holds a whole one.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.logs import ingest, measured, workers
else:
    __getattr__ = submodules(__name__)

__all__ = ["ingest", "measured", "workers"]
