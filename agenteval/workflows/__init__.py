"""The actions of the program, without a command line.

`evaluate` plays, `gating` judges and `views` reads. `workflows.gating.judged(...)` imports the
modules that a gate needs when it is called.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.workflows import (
        authoring,
        by_hand,
        classify,
        derive,
        doctor,
        earlier,
        evaluate,
        explaining,
        gating,
        harnesses,
        ingest,
        interim_looks,
        log_results,
        measured_elsewhere,
        preflight,
        projects,
        promoting,
        prove,
        ray_cluster,
        reference,
        rescore,
        sharding,
        shelf,
        speed_probe,
        stages,
        suggest,
        trends,
        trial_calls,
        views,
        whatif,
    )
else:
    __getattr__ = submodules(__name__)

__all__ = [
    "authoring",
    "by_hand",
    "classify",
    "derive",
    "doctor",
    "earlier",
    "evaluate",
    "explaining",
    "gating",
    "harnesses",
    "ingest",
    "interim_looks",
    "log_results",
    "measured_elsewhere",
    "preflight",
    "projects",
    "promoting",
    "prove",
    "ray_cluster",
    "reference",
    "rescore",
    "sharding",
    "shelf",
    "speed_probe",
    "stages",
    "suggest",
    "trends",
    "trial_calls",
    "views",
    "whatif",
]
