"""gate.toml: what a candidate must hold, read and checked."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from agenteval.classes.catalogue import failure_classes
from agenteval.config.files import GATE_FILE, check, read_toml, renew, shipped
from agenteval.config.trust import find_project, find_rules, roots, working_folder
from agenteval.errors import UsageError
from agenteval.host import write_whole
from agenteval.stats.criteria import CRITERIA, Rules
from agenteval.stats.rates import PLANNED_ICC, Estimand, estimand
from agenteval.trial.text import as_word, visible

# Points: a promotion asks for work done, also where no file says so.
COMPLETED = 10.0
Per100 = Annotated[float, Field(gt=0, lt=100)]


class _StrictRules(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
    )


class _Margin(_StrictRules):
    points: Per100 | None = None
    ratio: Annotated[float, Field(gt=1, le=100)] | None = None
    completed: Per100 = COMPLETED


class _Budgets(_StrictRules):
    classes: dict[str, Per100] = {}

    def limits(self) -> dict[str, float]:
        """Return the limits of the criteria that have one, as fractions."""
        limits = self.model_dump(exclude={"classes"}, exclude_none=True)
        return {name: limit / 100 for name, limit in limits.items()}


if TYPE_CHECKING:
    _AllBudgets = _Budgets
# A key for each criterion.
else:
    _AllBudgets = create_model(
        "_AllBudgets", __base__=_Budgets, **dict.fromkeys(CRITERIA, (Per100 | None, None))
    )


class _Never(_StrictRules):
    classes: list[str] = []
    below: Per100 = 1.0


class _Minimum(_StrictRules):
    trials: Annotated[int, Field(ge=0)] = 0
    calls: Annotated[int, Field(ge=0)] = 0


class _Plan(_StrictRules):
    icc: Annotated[float, Field(ge=0, lt=1)] = PLANNED_ICC
    looks: Annotated[int, Field(ge=1, le=20)] = 1


class _GateFile(_StrictRules):
    about: Literal["these", "like-these"] = "these"
    margin: _Margin
    budgets: _AllBudgets = _AllBudgets()
    never: _Never = _Never()
    minimum: _Minimum = _Minimum()
    plan: _Plan = _Plan()


def load_rules(path: Path) -> Rules:
    """Return the rules of a file. Raises UsageError: file, key, what was expected there.

    A key of an earlier agenteval is read where its meaning is kept, and a line of the log says so.
    """
    tables, warnings = renew(GATE_FILE, path, read_toml(path))
    file = check(path, tables, _GateFile)
    for warning in warnings:
        logging.getLogger(__name__).warning("agenteval: %s", visible(warning))
    classes, never = file.budgets.classes, file.never
    _check_classes(path, "budgets.classes", list(classes))
    _check_classes(path, "never.classes", never.classes)
    twice = classes.keys() & set(never.classes)
    if twice:
        raise UsageError(
            f"{path}: never.classes: {min(twice)!r} also has a budget; keep it in one of the two"
        )
    points, ratio = file.margin.points, file.margin.ratio
    if (points is None) == (ratio is None):
        raise UsageError(f"{path}: margin: give either points or ratio")
    margin = points / 100 if points else ratio or 0.0
    return Rules(
        margin=margin,
        ratio=ratio is not None,
        completed=file.margin.completed / 100,
        budgets=file.budgets.limits(),
        classes={name: limit / 100 for name, limit in classes.items()},
        never=tuple(never.classes),
        never_below=never.below / 100,
        about=Estimand(file.about),
        **file.minimum.model_dump(),
        **file.plan.model_dump(),
    )


def _check_classes(path: Path, key: str, names: Sequence[str]) -> None:
    known = [failure_class.id for failure_class in failure_classes()]
    for name in names:
        if name not in known:
            raise UsageError(f"{path}: {key}: no failure class {name!r}. Known: {', '.join(known)}")


def rules_at(path: Path | None, about: str | None = None) -> tuple[Rules, str]:
    """Return the rules of a gate, and where they are from; `about` goes before theirs.

    Raises UsageError.
    """
    file = path or _default_rules()
    rules = load_rules(file)
    if about is not None:
        rules = replace(rules, about=estimand(about))
    if os.path.realpath(file) == os.path.realpath(shipped() / GATE_FILE):
        return rules, f"the {GATE_FILE} that agenteval ships"
    return rules, str(file)


def _default_rules() -> Path:
    """Return the project's gate.toml, else the shipped one.

    Raises UsageError for one that is passed over: no other rules may give a verdict in its place.
    """
    search = find_project(working_folder().resolve())
    if search.refused and os.path.lexists(search.refused / GATE_FILE):
        file = search.refused / GATE_FILE
        raise UsageError(
            f"{file}: passed over, as {search.reason}. Name it: --gate {as_word(str(file))}; or "
            f"use the whole project: agenteval trust {as_word(str(search.refused))}"
        )
    return find_rules(roots())


def write_rules() -> Path:
    """Write the shipped rules with their comments into this folder. Raises UsageError."""
    path = Path(GATE_FILE)
    if path.exists():
        raise UsageError(f"{path} is there already; change it, or remove it first")
    write_whole(path, (shipped() / GATE_FILE).read_text(encoding="utf-8"))
    return path
