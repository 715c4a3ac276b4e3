"""One view of a run, many renderers, each imported when it is called: `report.html.write(...)`.

Begin with `view`, what is shown; `build` makes it.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.report import (
        console,
        files,
        gate,
        gate_explained,
        html,
        json,
        pairs,
        speed,
        tables,
        transcripts,
    )
else:
    __getattr__ = submodules(__name__)

__all__ = [
    "console",
    "files",
    "gate",
    "gate_explained",
    "html",
    "json",
    "pairs",
    "speed",
    "tables",
    "transcripts",
]
