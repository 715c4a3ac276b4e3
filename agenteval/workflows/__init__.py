"""The actions of the program, without a command line.

`evaluate` plays, `gating` judges and `views` reads. `workflows.gating.judged(...)` imports the
modules that a gate needs when it is called.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.workflows import (
        author,
        derive,
        evaluate,
        gate,
        harnesses,
        preflight,
        projects,
        promote,
        prove,
        ray,
        reference,
        rescore,
        runs,
        stages,
        views,
        whatif,
    )
else:
    __getattr__ = submodules(__name__)

__all__ = [
    "author",
    "derive",
    "evaluate",
    "gate",
    "harnesses",
    "preflight",
    "projects",
    "promote",
    "prove",
    "ray",
    "reference",
    "rescore",
    "runs",
    "stages",
    "views",
    "whatif",
]
