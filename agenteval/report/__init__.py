"""One view of a run, many renderers, each imported when it is called: `report.html.write(...)`.

Begin with `view`, what is shown; `build` makes it.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.report import (
        arrivals,
        console,
        gate_explained,
        gate_json,
        html,
        json,
        junit,
        live,
        markdown,
        speed,
        stacks,
        tabular,
        transcript_text,
        transcripts,
    )
else:
    __getattr__ = submodules(__name__)

__all__ = [
    "arrivals",
    "console",
    "gate_explained",
    "gate_json",
    "html",
    "json",
    "junit",
    "live",
    "markdown",
    "speed",
    "stacks",
    "tabular",
    "transcript_text",
    "transcripts",
]
