"""Stored runs as they are shown: side by side, compared, by their speed, or only listed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agenteval.config.allowlists import load_policy
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall
from agenteval.core.counts import ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.plain import visible
from agenteval.core.policy.policy import Policy
from agenteval.core.run import Conditions, Run
from agenteval.core.trial import Trial
from agenteval.errors import FAULTS, Cause, UsageError
from agenteval.formats.counts_csv import load_counts
from agenteval.report.build import build_comparison, build_counts_view, build_view
from agenteval.report.side import Side
from agenteval.report.speed import Served
from agenteval.report.view import ClassText, View
from agenteval.stats.speeds import run_speed
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.taxonomy.catalogue import ARTICLE_ROWS, article_row, failure_classes
from agenteval.taxonomy.judge import judge
from agenteval.workflows.gating import check_arms, declared
from agenteval.workflows.ingest import cards

POLICY = "article"  # the allow list that they are judged by
CALLS = Path("fixtures", "article", "calls.jsonl")

Sessions = tuple[tuple[ToolCall, ...], ...]


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: str


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str
    session: str
    call: _Call


def load_article(*, roots: Sequence[Path]) -> Mapping[str, Sessions]:
    """Every model's sessions, each the calls of one sub-agent in order. Raises UsageError."""
    path = next((root / CALLS for root in roots if (root / CALLS).is_file()), None)
    if path is None:
        raise UsageError(f"{CALLS}: not found in {', '.join(map(str, roots))}. Install it again")
    models: dict[str, dict[str, list[ToolCall]]] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line, call = _read(f"{path}:{number}", text)
        models.setdefault(line.model, {}).setdefault(line.session, []).append(call)
    return {
        model: tuple(tuple(calls) for calls in sessions.values())
        for model, sessions in models.items()
    }


def _read(where: str, text: str) -> tuple[_Line, ToolCall]:
    try:
        line = _Line.model_validate_json(text)
        arguments = json.loads(line.call.arguments)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: call.arguments: {error}. Mend the line") from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"])) or "the line"
        raise UsageError(f"{where}: {key}: {fault['msg']}. Mend the line") from error
    return line, ToolCall(line.session, line.call.name, line.call.arguments, arguments)


@contextmanager
def reading(store: str) -> Iterator[SqlStore]:
    """The store at this file or URL, which must be there. Raises UsageError."""
    Location(store).check_there()
    with opened(store) as found:
        yield found


@contextmanager
def opened(store: str) -> Iterator[SqlStore]:
    """The store at this file or URL, made where there is none. Raises UsageError."""
    found = SqlStore(store)
    try:
        yield found
    finally:
        found.close()


def loaded(names: Sequence[str], store: str) -> list[Run]:
    """Whole runs, by what names them. Raises UsageError."""
    with reading(store) as found:
        return [found.load(name) for name in names]


def view_of(runs: Sequence[Run], taxonomy: str, about: str | None = None) -> View:
    return build_view(runs, classes=class_texts(), fold=fold(taxonomy), about=declared(about))


def view_of_article() -> View:
    """The published comparison, judged again from its calls."""
    where = roots()
    policy = load_policy(POLICY, roots=where)
    found = {
        model: ErrorCounts.of([[_primary(call, policy) for call in calls] for calls in sessions])
        for model, sessions in load_article(roots=where).items()
    }  # which calls belong to one trial was not published: the sessions were made up
    counts = {model: replace(of, by_trial=False) for model, of in found.items()}
    title = "The published comparison, judged again from calls written after it"
    return build_counts_view(title, counts, classes=class_texts(), fold=fold("article"))


def _primary(call: ToolCall, policy: Policy) -> str | None:
    finding = judge(call, policy).primary
    return finding.failure_class if finding else None


def compared(
    names: Sequence[str],
    store: str,
    taxonomy: str,
    about: str | None = None,
    *,
    across_arms: bool = False,
) -> View:
    """Two or more models, pair by pair. Raises UsageError."""
    if all(name.endswith(".csv") for name in names):
        sides = [side for name in names for side in _of_file(name)]
    else:
        with reading(store) as found:
            sides = [side for name in names for side in _sides(name, found)]
    if len(sides) < 2:
        raise UsageError(
            f"compare: {' '.join(names)} is one model; name another run, or a file of counts"
        )
    runs = [side.run for side in sides if side.run]
    if not across_arms:
        check_arms([run.id for run in runs], [Conditions.of(run) for run in runs])
    return build_comparison(
        sides, classes=class_texts(), fold=fold(taxonomy), about=declared(about)
    )


def _sides(name: str, store: SqlStore) -> list[Side]:
    """The models behind one name: as many as its file has."""
    if name.endswith(".csv"):
        return _of_file(name)
    found = store.meant(name)
    if imported := store.imported().get(found):
        scenarios = [scenario for scenario, _ in imported.trials]
        return [Side.of_counts(imported.model, imported.counts, scenarios)]
    return [Side.of_run(*store.summarized(found))]


def _of_file(name: str) -> list[Side]:
    tables = load_counts(Path(name))
    known = cards(tables)
    return [
        Side.of_counts(known[model], table.counts, [scenario for scenario, _ in table.trials])
        for model, table in tables.items()
    ]


def speeds(runs: Sequence[Run]) -> list[Served]:
    """How fast stored runs were served."""
    return [Served(run.model.name, run.model.simulated, run_speed(run), run.id) for run in runs]


def class_texts() -> tuple[ClassText, ...]:
    return tuple(ClassText(one.id, one.title, one.rationale) for one in failure_classes())


def fold(taxonomy: str) -> Mapping[str, str] | None:
    """Class to row of the article, in the article's order; None for the classes as they are."""
    if taxonomy != "article":
        return None
    rows = {one.id: article_row(one.id) for one in failure_classes()}
    return dict(sorted(rows.items(), key=lambda item: ARTICLE_ROWS.index(item[1])))


_WHOSE = {
    Cause.AGENTEVAL: "a defect of agenteval",
    Cause.SCENARIO: "a slip of their scenario",
}


def faults(runs: Sequence[Run]) -> list[str]:
    """What broke trials that was a defect of ours or a slip of a scenario, in words."""
    lines = []
    struck = [(run, trial) for run in runs for trial in run.trials if trial.cause in FAULTS]
    causes = Counter(trial.cause for _, trial in struck)
    for cause, whose in _WHOSE.items():
        if causes[cause]:
            run, trial = next(one for one in struck if one[1].cause is cause)
            lines.append(_line(causes[cause], whose, run, trial))
    return lines


def check_usable(runs: Sequence[Run]) -> None:
    """Raises UsageError when the server broke every trial of a run: then nothing was measured."""
    for run in runs:
        reasons = [trial.reason for trial in run.trials if trial.outcome is Outcome.VOID]
        if reasons and len(reasons) == len(run.trials):
            raise UsageError(
                f"{run.model.name}: all {len(reasons)} trials are void, nothing was measured. The "
                f"first one: {reasons[0]}. Look at the server's log, then run again"
            )


def _line(count: int, whose: str, run: Run, trial: Trial) -> str:
    reason, _, trace = trial.reason.partition("\n")
    line = (
        f"{count} {'trial is' if count == 1 else 'trials are'} void by {whose}. The first one: "
        f"{trial.scenario} #{trial.number}, seed {trial.seed}: {visible(reason)}"
    )
    where = f"in the report, and in `reason` of `agenteval show {run.id} --json`"
    return f"{line}\nTraceback: {where}" if trace else line
