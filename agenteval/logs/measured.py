"""Reading what was measured elsewhere: published tables of counts and calls, and logs of vLLM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agenteval.classes import catalogue
from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.trust import roots
from agenteval.errors import UsageError
from agenteval.logs.counts_csv import VllmLog, load_counts, log_lines
from agenteval.logs.ingest import cards
from agenteval.policy.policy import Policy
from agenteval.report import build
from agenteval.report.build import build_counts_view
from agenteval.report.speed import LogView
from agenteval.report.view import View
from agenteval.stats.loads import loads
from agenteval.store import sql
from agenteval.store.location import Location
from agenteval.trial.call import ToolCall
from agenteval.trial.recovery import windows
from agenteval.trial.summary import ImportedCounts
from agenteval.trial.trial import ErrorCounts

# The allow list that the published calls are judged by, and their taxonomy
ARTICLE = "article"
CALLS = Path("fixtures", "article", "calls.jsonl")
Sessions = tuple[tuple[ToolCall, ...], ...]


def import_counts(file: Path, store: str) -> Iterator[ImportedCounts]:
    """Store a published table, one entry for each of its models. Raises UsageError."""
    Location(store).check_ours()
    tables = load_counts(file)
    now = datetime.now(UTC)
    model_cards = cards(tables)
    with closing(sql.SqlStore(store)) as there:
        for model, table in tables.items():
            plain = model.replace("/", "-").replace(" ", "-")
            imported = ImportedCounts(
                id=f"{now:%Y%m%d-%H%M%S}-{plain}",
                model=model_cards[model],
                imported=now.isoformat(timespec="milliseconds"),
                source=str(file),
                trials=table.trials,
                counts=table.counts,
            )
            yield there.add_imported(imported)


def read_log(paths: Sequence[str], window: float) -> LogView:
    """Return the contents of the logs, the oldest file first. Raises UsageError."""
    log = VllmLog()
    entries = log.entries(log_lines(paths))
    window_loads = loads(windows(entries, window))
    if not window_loads:
        raise UsageError(f"{', '.join(paths)}: {_why_none(log)}")
    return LogView(
        loads=window_loads,
        window=window,
        lines=log.lines,
        engine_lines=log.engine_lines,
        completions=log.completions,
        failed=log.failed,
        unread=log.unread,
    )


def _why_none(log: VllmLog) -> str:
    if log.other:
        return (
            f"the log of {log.other}, not of vLLM: only vLLM's can be read; ask the server itself, "
            "with agenteval speed --model"
        )
    unread = f" ({log.unread:,} speak of it in a form not known here)" if log.unread else ""
    return (
        f"no engine line in {log.lines:,} lines{unread}; expected vLLM's `Avg prompt throughput: "
        "..., Running: ...`, which it logs unless --disable-log-stats"
    )


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: str


class _CallLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str
    session: str
    call: _Call


def _load_article(*, roots: Sequence[Path]) -> Mapping[str, Sessions]:
    """Return every model's sessions, each the calls of one sub-agent. Raises UsageError."""
    paths = (root / CALLS for root in roots if (root / CALLS).is_file())
    path = next(paths, None)
    if path is None:
        raise UsageError(f"{CALLS}: not found in {', '.join(map(str, roots))}. Install it again")
    models: dict[str, dict[str, list[ToolCall]]] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line, call = _read(f"{path}:{number}", text)
        models.setdefault(line.model, {}).setdefault(line.session, []).append(call)
    return {model: tuple(map(tuple, sessions.values())) for model, sessions in models.items()}


def _read(where: str, text: str) -> tuple[_CallLine, ToolCall]:
    try:
        line = _CallLine.model_validate_json(text)
        arguments = json.loads(line.call.arguments)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: call.arguments: {error}. Mend the line") from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"])) or "the line"
        raise UsageError(f"{where}: {key}: {fault['msg']}. Mend the line") from error
    return line, ToolCall(
        line.session,
        line.call.name,
        line.call.arguments,
        arguments,
    )


def view_of_article() -> View:
    """Return the published comparison, judged again from its calls."""
    where = roots()
    policy = load_policy(ARTICLE, roots=where)
    counts: dict[str, ErrorCounts] = {}
    for model, sessions in _load_article(roots=where).items():
        classes = [[_primary(call, policy) for call in calls] for calls in sessions]
        # Which calls belong to one trial was not published: the sessions were made up.
        counts[model] = replace(ErrorCounts.of(classes), by_trial=False)
    return build_counts_view(
        "The published comparison, judged again from calls written after it",
        counts,
        classes=build.class_texts(),
        fold=catalogue.fold(ARTICLE),
    )


def _primary(call: ToolCall, policy: Policy) -> str | None:
    finding = judge(call, policy).primary
    return finding.failure_class if finding else None
