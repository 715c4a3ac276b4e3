"""Runs as counts, written as a few numbers."""

from agenteval.core.gated import GatedRun, GatedTrial
from agenteval.core.outcome import Outcome


def trial(errors, calls, *, scenario="s", seed=0, **known):
    """A trial whose errors are all of one class."""
    settings = {"outcome": Outcome.COMPLETED, "executed": calls - errors} | known
    by_class = settings.pop("by_class", {"pipe-to-filter": errors} if errors else {})
    return GatedTrial(scenario, seed, calls=calls, by_class=by_class, **settings)


def run(*trials, name="r", **known):
    settings = {
        "model": name,
        "simulated": False,
        "complete": True,
        "concurrency": 2,
        "trials_planned": len(trials),
    }
    return GatedRun(id=name, trials=trials, **(settings | known))


def runs(ours, theirs, **known):
    """A baseline and a candidate in the same worlds, from the errors of their trials of 8 calls."""
    return tuple(
        run(*(trial(count, 8, seed=at, **known) for at, count in enumerate(errors)), name=name)
        for name, errors in (("base", ours), ("next", theirs))
    )
