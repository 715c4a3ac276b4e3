"""The trial that something broke: what is kept of it, and in whose name."""

import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from jinja2 import TemplateError

from agenteval.core.legible import legible
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.trial import Trial
from agenteval.engine.play import Play
from agenteval.errors import Cause, InfrastructureError, UsageError
from agenteval.protocols import TrialKey

T = TypeVar("T")
LONGEST = 20_000  # characters of a traceback, from its end: there it says what happened


def made(key: TrialKey, make: Callable[[], T]) -> T:
    """What the scenario makes of this seed. Raises InfrastructureError where that is nothing.

    A world that cannot be made at all was told before the run began: this one is the seed's.
    """
    try:
        return make()
    except (UsageError, TemplateError, ValueError) as error:
        raise _slip(key, error) from error


def void_of(key: TrialKey, error: Exception) -> InfrastructureError:
    """What broke the trial; with its traceback where nobody foresaw it."""
    if isinstance(error, InfrastructureError):
        return error
    if isinstance(error, TemplateError):
        return _slip(key, error)
    said = traceback.format_exception_only(error)[-1].strip()
    trace = "".join(traceback.format_exception(error))[-LONGEST:]
    return InfrastructureError(legible(f"{said}\n{trace}").strip(), Cause.AGENTEVAL)


def _slip(key: TrialKey, error: Exception) -> InfrastructureError:
    said = f"scenario {key.scenario!r}, seed {key.seed}: {error}"
    return InfrastructureError(legible(said), Cause.SCENARIO)


def broken(key: TrialKey, begun: Sequence[Play], error: InfrastructureError) -> Trial:
    """The trial as far as it came, void."""
    for play in begun:
        return play.broken(error)
    return Trial(
        scenario=key.scenario,
        number=key.number,
        seed=key.seed,
        turns=(),
        calls=(),
        ending=Ending.BROKEN,
        outcome=Outcome.VOID,
        reason=str(error),
        cause=error.cause,
    )
