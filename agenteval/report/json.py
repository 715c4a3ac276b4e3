"""The view as JSON: its keys are stable and documented in docs/json.md.

documents.toml lists the keys of each document with the attributes behind them; the functions below
add what is no attribute.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

from agenteval.report.view import ClassPair, Errors, Figure, Pair, RunView, View
from agenteval.stats.rates import LEVEL

SCHEMA = "agenteval.report/2"
Document = dict[str, Any]
Keys = Mapping[str, Any]  # of a document: to a dotted path, or to the keys of an inner document
_COMPUTED = "computed"


def dumps(view: View) -> str:
    return json.dumps(document(view), indent=2, allow_nan=False)


def encoded(value: Any) -> Any:
    """Return a value as JSON has it: an object by the keys of its class, else by its fields.

    A number that is not finite, as of a share of nothing, is null.
    """
    # Before the other cases: a finding is a named tuple, and would become a list.
    keys = _documents().get(type(value).__name__)
    if keys is not None:
        return _filled(value, keys, {})
    match value:
        case float():
            return value if isfinite(value) else None
        case Mapping():
            return {str(key): encoded(item) for key, item in value.items()}
        case list() | tuple():
            return [encoded(item) for item in value]
        case _ if is_dataclass(value):
            return attributes(value, *(field.name for field in fields(value)))
        case _:
            return value


def attributes(owner: object, *names: str) -> Document:
    """Return these attributes, under their own names."""
    return {name: encoded(getattr(owner, name)) for name in names}


def keyed(owner: object, kind: str, **computed: Any) -> Document:
    """Return the document of this kind; `computed` are the values that are no attribute."""
    return _filled(owner, _documents()[kind], computed)


@cache
def _documents() -> Mapping[str, Keys]:
    text = files("agenteval.report").joinpath("documents.toml").read_text("utf-8")
    return tomllib.loads(text)


def _filled(owner: object, keys: Keys, computed: Document) -> Document:
    unknown = computed.keys() - keys.keys()
    if unknown:
        raise KeyError(f"documents.toml has no key for {sorted(unknown)}")
    filled: Document = {}
    for key, source in keys.items():
        if source == _COMPUTED:
            filled[key] = computed[key]
        elif isinstance(source, Mapping):
            filled[key] = _filled(owner, source, {})
        else:
            filled[key] = encoded(_attribute(owner, source))
    return filled


def _attribute(owner: object, path: str) -> object:
    """Return the attribute at a dotted path; None where a part of the path is None."""
    for name in path.split("."):
        if owner is None:
            return None
        owner = getattr(owner, name)
    return owner


def document(view: View) -> Document:
    return keyed(
        view,
        "report",
        schema=SCHEMA,
        level=LEVEL,
        models=[_errors(model) for model in view.models],
        pairs=[_pair(pair) for pair in view.pairs],
        architectures=_groups(view),
        runs=[_run(run) for run in view.runs],
    )


def _errors(model: Errors) -> Document:
    influence = encoded(model.influence)
    if influence:
        influence["at"] = model.largest
    return keyed(model, "errors", influence=influence)


def _pair(pair: Pair) -> Document:
    difference = pair.difference
    value = calls = calls_if_half = None
    if not pair.silent:
        value = difference.value
        calls = encoded(difference.calls_needed)
        calls_if_half = difference.calls_for(abs(value) / 2) if value else None
    kinds = encoded(pair.kinds)
    if kinds:
        kinds["p_adjusted"] = pair.kinds_adjusted
    return keyed(
        pair,
        "pair",
        difference=value,
        calls_needed=calls,
        calls_needed_if_half=calls_if_half,
        kinds=kinds,
        classes=_differences(pair.classes),
        figures=_differences(pair.figures),
    )


def _differences(figures: Sequence[Figure | ClassPair]) -> Document:
    """Return the differences by label; null for a figure without data of both models."""
    documents: Document = {}
    for figure in figures:
        difference = figure.difference
        if difference is None:
            documents[figure.label] = None
            continue
        documents[figure.label] = keyed(
            difference,
            "difference",
            ratio=encoded(getattr(difference, "ratio", None)),  # means have none
            p_adjusted=figure.adjusted,
        )
    return documents


def _groups(view: View) -> Document | None:
    groups = view.groups
    if groups is None:
        return None
    others = encoded(groups.others)
    if others:
        others["p_adjusted"] = groups.adjusted
    models = [encoded(dict(rates)) for rates in groups.models]
    return keyed(groups, "architectures", models=models, others=others)


def _run(view: RunView) -> Document:
    voids = [attributes(void, "scenario", "number", "cause", "reason") for void in view.score.voids]
    return keyed(view, "run", voids=voids, missed=_missed(view))


def _missed(view: RunView) -> list[Document]:
    """Return the trials that did not complete, with the checks that they missed."""
    documents = []
    for trial in view.score.counted:
        if trial.goal and not trial.completed:
            checks = [encoded(check) for check in trial.goal if not check.held]
            place = attributes(
                trial,
                "scenario",
                "number",
                "outcome",
                "goal_turn",
            )
            documents.append({**place, "checks": checks})
    return documents
