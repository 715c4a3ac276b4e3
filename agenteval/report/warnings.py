"""What a reader must know before he reads a number."""

from collections.abc import Sequence

from agenteval.core.run import TAXONOMY, Conditions, differing_asked, differing_other
from agenteval.report.side import Side
from agenteval.report.view import RunView

SIMULATED = (
    "SIMULATED: a simulated model played its slips from published rates. "
    "This shows that the tool works; it says nothing about a real model."
)
MIXED = "A simulated model stands beside a real one: they cannot be compared."


def warnings(sides: Sequence[Side], views: Sequence[RunView]) -> tuple[str, ...]:
    found = [SIMULATED] if any(side.card.simulated for side in sides) else []
    if len({side.card.simulated for side in sides}) > 1:
        found.append(MIXED)
    for view in views:
        found.extend(_of_run(view))
    tables = [side.label for side in sides if side.run is None]
    if views and tables:
        found.append(
            f"{', '.join(tables)}: counts from a table. Under which allow list, taxonomy, prompts "
            "and scenarios they were made is not known."
        )
    return (*found, *_of_counts(sides), *_unequal(views), *_other_worlds(views))


def _of_run(view: RunView) -> list[str]:
    run, found = view.run, []
    if view.unguarded:
        found.append(f"{view.label}: commands ran WITHOUT A SANDBOX (sandbox none).")
    if not run.complete:
        found.append(
            f"{view.label}: the run is not complete, "
            f"{view.played} of {run.trials_planned} trials are here."
        )
    if run.saved:
        last = run.looks[-1]
        found.append(
            f"{view.label}: a gate ended the run at look {last.number} of {last.planned} with "
            f"{last.verdict}, after {last.trials} of {run.trials_planned} trials, which saved "
            f"{run.saved} ({run.saved / run.trials_planned:.0%}). Rates of a run that was stopped "
            "for them lean towards that verdict."
        )
    if view.score.voids:
        found.append(
            f"{view.label}: {len(view.score.voids)} of {view.played} trials are void and left out "
            "of every rate; their reasons are listed."
        )
    if view.arrivals and (left := view.arrivals.kinds["call-in-text"].count):
        found.append(
            f"{view.label}: calls left as text, so that nothing ran: {left}. "
            "Does the server's tool parser fit the model?"
        )
    if view.errors.total.clusters == 1:
        found.append(f"{view.label}: one trial tells next to nothing about the next one.")
    return found


def _of_counts(sides: Sequence[Side]) -> list[str]:
    counts = [side for side in sides if not side.errors.by_trial]
    if not counts:
        return []
    line = (
        f"{', '.join(side.label for side in counts)}: the counts do not say which calls belong to "
        "one trial, so all are taken as independent. Calls of one trial resemble each other: the "
        "intervals are too narrow and p too small."
    )
    return [line]


def _unequal(views: Sequence[RunView]) -> list[str]:
    """In what the runs differ besides the model."""
    conditions = [Conditions.of(view.run) for view in views]
    differing = [*differing_asked(conditions), *differing_other(conditions)]
    played = [{world[0] for world in view.score.worlds} for view in views]
    if any(one != played[0] for one in played):
        differing.append("scenarios")
    if not differing:
        return []
    one_model = len({view.run.model.served_id for view in views}) == 1
    several = "These runs differ in more than the model"
    lead = "These runs of one model differ in" if one_model else several
    judged = any(one.startswith(TAXONOMY) for one in differing)
    cure = " `agenteval rescore RUN` judges stored calls again." if judged else ""
    return [f"{lead}: {', '.join(differing)}.{cure}"]


def _other_worlds(views: Sequence[RunView]) -> list[str]:
    """Runs of the same scenarios in other worlds: they could have been paired, and are not."""
    worlds = [view.score.worlds for view in views]
    scenarios = [{world[0] for world in met} for met in worlds]
    if any(one != scenarios[0] for one in scenarios):
        return []
    strange = [met for met in worlds if not met & worlds[0]]
    seeds = sorted({view.run.seed for view in views})
    if not strange:
        return []
    line = (
        f"These runs played other worlds (seeds {', '.join(map(str, seeds))}): their trials are "
        "not compared pair by pair. With one --seed for all, fewer calls settle a difference."
    )
    return [line]
