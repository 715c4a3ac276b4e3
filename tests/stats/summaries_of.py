"""Runs as summaries, written as a few numbers."""

from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, TrialSummary
from agenteval.trial.trial import HandshakeStep


def trial(errors, calls, *, scenario="s", seed=0, handshake=None, **known):
    """A trial whose errors are all of one class; `handshake` is whether it was closed, if any."""
    settings = {"outcome": Outcome.COMPLETED, "executed": calls - errors} | known
    by_class = settings.pop("by_class", {"pipe-to-filter": errors} if errors else {})
    steps = () if handshake is None else (HandshakeStep("closed", reached=handshake),)
    counts = {"calls": calls, "errors": by_class, "handshake": steps}
    return TrialSummary(scenario, seed + 1, seed, **counts, **settings)


def run(*trials, name="r", **known):
    settings = {
        "model": name,
        "simulated": False,
        "complete": True,
        "concurrency": 2,
        "trials_planned": len(trials),
    }
    return RunSummary(id=name, trials=trials, **(settings | known))


def runs(ours, theirs, **known):
    """A baseline and a candidate in the same worlds, from the errors of their trials of 8 calls."""
    return tuple(
        run(*(trial(count, 8, seed=at, **known) for at, count in enumerate(errors)), name=name)
        for name, errors in (("base", ours), ("next", theirs))
    )
