"""Rates over time: the trials of a store, played and out of logs, by day, week, model, version."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from agenteval.core.counts import Cluster
from agenteval.core.plain import Name, as_name, without_log_commands
from agenteval.stats.rates import Rate
from agenteval.stats.trend import Change, Point, changes, points
from agenteval.store.summaries import Query, decoded, opened

By = Literal["day", "week", "model", "version"]
_Place = tuple[str, str, str, int]  # model, format, session, part

_TRIALS = """SELECT run.model, run.simulated, run.started, run.card, run.source, run.policies,
    session.session, session.part, session.began, session.version, trial.calls, trial.errors
    FROM trial JOIN run ON run.id = trial.run_id LEFT JOIN session ON session.trial_id = trial.id
    WHERE NOT trial.replaced AND trial.outcome NOT IN ('', 'void') ORDER BY trial.id DESC"""


@dataclass(frozen=True, slots=True)
class Trend:
    """The errors of each model over time, by name: two models in a week are no change of one."""

    by: By
    series: Mapping[str, "Series"]
    left_out: int = 0  # trials whose errors no log shows, or whose time is not known
    judged_since: int = 0  # other judgements of sessions that were read again, left out too


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one model in their order, and the changes that are settled; none by model."""

    points: Sequence[Point]
    changes: Sequence[Change]


def trend(store: str, by: By, *, model: str = "", simulated: bool = False) -> Trend:
    """Return the trend of the models with `model` in their names.

    Raises UsageError for a store that is not there.
    """
    clusters_of: dict[str, dict[str, list[Cluster]]] = {}
    left_out = judged_since = 0
    with opened(store) as query:
        for name, label, cluster in _labelled(query, by, model, simulated=simulated):
            if label is None:
                judged_since += 1
            elif label:
                clusters_of.setdefault(name, {}).setdefault(label, []).append(cluster)
            else:
                left_out += 1
    for clusters in (one for of in clusters_of.values() for one in of.values()):
        clusters.reverse()  # as they were played
    boundaries = sum(len(clusters) - 1 for clusters in clusters_of.values())
    series_of = {name: _series(by, clusters_of[name], boundaries) for name in sorted(clusters_of)}
    return Trend(by, series_of, left_out, judged_since)


def _series(by: By, clusters: Mapping[str, Sequence[Cluster]], boundaries: int) -> Series:
    ordered = dict(sorted(clusters.items(), key=lambda one: _key(one[0])))
    if by == "model":
        return Series(points(ordered), ())
    return Series(points(ordered), changes(ordered, others=boundaries - len(ordered) + 1))


def _labelled(
    query: Query, by: By, model: str, *, simulated: bool
) -> Iterator[tuple[str, str | None, Cluster]]:
    """Yield the name, label and cluster of each trial, the newest first.

    Of a session that was judged again, None labels all judgements but one. That is the one with
    most calls, then the last: a session that grew keeps its trial.
    """
    trials: list[tuple[_Place | None, str, str, Cluster]] = []
    counts: dict[_Place, int] = {}
    for name, is_simulated, started, card, source, policies, *rest in query(_TRIALS):
        session, part, began, version, calls, errors = rest
        log_source = decoded(source)
        place = (name, log_source.get("format", ""), session, part)
        if model not in name or bool(is_simulated) != simulated:
            continue
        label = {
            "day": _day(began, "" if log_source else started),
            "week": _week(began, "" if log_source else started),
            "model": name,
            "version": version or decoded(card).get("server_version", ""),
        }[by]
        judged = not log_source or log_source["judged"] or decoded(policies)
        if session and judged and (place not in counts or calls > trials[counts[place]][-1][1]):
            counts[place] = len(trials)
        cluster = (sum(decoded(errors).values()), calls)
        trials.append(
            (place if session and judged else None, name, label if judged else "", cluster)
        )
    for number, (at, name, label, cluster) in enumerate(trials):
        yield name, label if at is None or counts[at] == number else None, cluster


def _day(began: float | None, started: str) -> str:
    """In UTC. A session that does not tell its time has none, and a damaged time is none."""
    if began is None and not started:
        return ""
    try:
        at = (
            datetime.fromisoformat(started) if began is None else datetime.fromtimestamp(began, UTC)
        )
        return at.astimezone(UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _week(began: float | None, started: str) -> str:
    """Return the week as in ISO 8601: 2026-W48."""
    if not (day := _day(began, started)):
        return ""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def _key(label: str) -> tuple[tuple[bool, int, str], ...]:
    """1.10 behind 1.9."""
    return tuple(
        (part.isdecimal(), int(part) if part.isdecimal() else 0, part)
        for part in label.replace("-", ".").split(".")
    )


_GAUGES: Mapping[str, tuple[str, Callable[[Rate], float]]] = {
    "errors_per_100_calls": ("Errors per 100 tool calls.", lambda rate: 100 * rate.value),
    "errors_per_100_calls_low": ("Lower end of its 95 % interval.", lambda rate: 100 * rate.low),
    "errors_per_100_calls_high": ("Upper end of its 95 % interval.", lambda rate: 100 * rate.high),
    "calls": ("Tool calls that were counted.", lambda rate: rate.n),
}


def openmetrics(trend: Trend) -> str:
    """Return the points as OpenMetrics, for a textfile collector of Prometheus."""
    lines = []
    models = dict(zip(trend.series, _distinct(trend.series), strict=True))
    for name, (help_text, value) in _GAUGES.items():
        lines += [f"# TYPE agenteval_{name} gauge", f"# HELP agenteval_{name} {help_text}"]
        for model, series in trend.series.items():
            of = f'model="{_escaped(models[model])}"'
            labels = _distinct(point.label for point in series.points)
            for point, by in zip(series.points, labels, strict=True):
                label = of if trend.by == "model" else f'{of},{trend.by}="{_escaped(by)}"'
                if point.rate.n:
                    lines.append(f"agenteval_{name}{{{label}}} {value(point.rate):.9g}")
    return "\n".join([*lines, "# EOF", ""])


def _distinct(texts: Iterable[str]) -> Iterator[Name]:
    """Name each, with a number where the name came before: no series may stand there twice."""
    used: set[Name] = set()
    for text in texts:
        name = label = as_name(without_log_commands(text))
        number = 1
        while label in used:
            number += 1
            label = as_name(f"{name} ({number})")
        used.add(label)
        yield label


def _escaped(label: Name) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"')
