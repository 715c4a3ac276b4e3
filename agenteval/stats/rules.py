"""What a gate asks of a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agenteval.stats.rates import PLANNED_ICC


class Over(StrEnum):
    """What a verdict is about."""

    SCENARIOS = "scenarios"  # other scenarios like these: a cluster is a scenario
    TRIALS = "trials"  # these scenarios, played again: a cluster is a trial
    AUTO = "auto"  # the first from ten scenarios on, else the second


@dataclass(frozen=True, slots=True)
class Rules:
    """All shares are fractions; so is the margin (0.03 is three points), unless it is a ratio.

    `margin` is of errors of all calls; `completed` is how many points fewer trials the candidate
    may complete than the baseline, None where nobody asks. `budgets` are by the criteria's names.

    `never` are classes of which one error is one too many; that there is none counts only when
    more than `never_below` can be ruled out.
    """

    margin: float
    ratio: bool = False
    completed: float | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, float] = field(default_factory=dict)
    never: tuple[str, ...] = ()
    never_below: float = 0.01
    trials: int = 0
    calls: int = 0
    icc: float = PLANNED_ICC
    looks: int = 1
    over: Over = Over.AUTO
