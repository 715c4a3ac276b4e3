"""Reading what was measured elsewhere: published tables of counts, and the logs of vLLM."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from agenteval import store as parts  # whose sql imports an ORM: only when it is needed
from agenteval.config.models import load_models
from agenteval.config.roots import roots
from agenteval.core.cards import ModelCard
from agenteval.core.summary import ImportedCounts
from agenteval.core.windows import windows
from agenteval.errors import UsageError
from agenteval.formats.counts_csv import load_counts
from agenteval.formats.vllm_log import VllmLog, log_lines
from agenteval.report.speed import LogView
from agenteval.stats.loads import loads
from agenteval.store.location import Location


def import_counts(file: Path, store: str) -> Iterator[ImportedCounts]:
    """Store a published table, one entry for each of its models. Raises UsageError."""
    Location(store).check_ours()
    tables, now = load_counts(file), datetime.now(UTC)
    known = cards(tables)
    with closing(parts.sql.SqlStore(store)) as there:
        for model, table in tables.items():
            name = f"{now:%Y%m%d-%H%M%S}-{model.replace('/', '-').replace(' ', '-')}"
            stamp = now.isoformat(timespec="milliseconds")
            yield there.add_imported(
                ImportedCounts(name, known[model], stamp, str(file), table.trials, table.counts)
            )


def cards(models: Iterable[str]) -> Mapping[str, ModelCard]:
    """What agenteval.toml knows of each model, by its name or by the id it is served under."""
    configured = load_models(roots())
    served = {entry.model: entry for entry in configured.values()} | dict(configured)
    return {
        model: ModelCard(
            name=model,
            served_id=served[model].model,
            architecture=served[model].architecture,
            total_parameters=served[model].total_parameters,
            active_parameters=served[model].active_parameters,
        )
        if model in served
        else ModelCard(name=model, served_id=model)
        for model in models
    }


def read_log(paths: Sequence[str], window: float) -> LogView:
    """What the logs say, the oldest file first. Raises UsageError."""
    log = VllmLog()
    found = loads(windows(log.entries(log_lines(paths)), window))
    if not found:
        raise UsageError(f"{', '.join(paths)}: {_why_none(log)}")
    return LogView(
        loads=found,
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
