"""Logs of other programs taken into a store: their sessions as trials of runs, once each."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agenteval.classes.catalogue import TAXONOMY_VERSION
from agenteval.config.allowlists import load_any
from agenteval.config.models import ModelEntry, load_models
from agenteval.config.trust import roots
from agenteval.errors import UsageError
from agenteval.logs.formats import FORMATS, LogFormat, format_named
from agenteval.logs.packed import closed_folders
from agenteval.logs.workers import (
    EMPTY,
    EVERYTHING,
    LEFT_OUT,
    Counted,
    Found,
    Intake,
    Reading,
    Taken,
    Unread,
    Wanted,
    Workers,
    workers_for,
)
from agenteval.policy.policy import Policy
from agenteval.store import sql
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.store.write import Entry
from agenteval.trial.redaction import KnownKeys, Redactor, secrets_of
from agenteval.trial.run import ModelCard, Run, Source
from agenteval.trial.session import Fact, Skipped
from agenteval.trial.text import visible

if TYPE_CHECKING:
    from agenteval.store.ingesting import LogWriter

AUTO = "auto"
Note = Callable[[Intake], None]


def take_in(  # noqa: PLR0913 -- each is an option of the command line
    format_name: str,
    paths: Sequence[str],
    store: str,
    *,
    allowlist: str | None = None,
    filters: Wanted = EVERYTHING,
    redact: bool = False,
    workers: int | None = None,
    note: Note = lambda _: None,
) -> Intake:
    """Import logs. What was imported before is skipped. Raises UsageError.

    `workers` is the number of processes that read and judge; None picks as many as are worth it.
    `note` is called after each session. However this ends, what was stored is whole.
    """
    filters.check()
    Location(store).check_ours()
    policy = load_any(allowlist, roots=roots()) if allowlist else None
    places = _places(format_name, paths)
    files = _files(places, by_ending=bool(paths))
    if format_name == AUTO and not files:
        raise UsageError(
            f"auto: no logs of {', '.join(FORMATS)} in their own places here. Name a format and a "
            "file: agenteval ingest FORMAT PATH"
        )
    with closing(sql.SqlStore(store)) as there:
        writer = there.log_writer(TAXONOMY_VERSION)
        redactor = _redactor() if redact else None
        taking = _Taking(there, policy, filters, redactor, note, writer)
        try:
            for place in {place: None for _, place in places}:
                for fault in closed_folders(place):
                    taking.intake.skip(fault)
            taking.files(files, workers)
        finally:
            taking.close()
    return taking.intake


def _places(format_name: str, paths: Sequence[str]) -> list[tuple[LogFormat, Path]]:
    """Return the formats and places in which to look for logs. Raises UsageError."""
    if format_name != AUTO:
        log = format_named(format_name)
        places = [Path(path) for path in paths] or [*log.places()]
        if not places:
            raise UsageError(f"{log.name}: no logs in its own place here. Name a file or a folder")
        return [(log, place) for place in places]
    if paths:
        raise UsageError("auto finds each program's own place. Name a format to read other files")
    return [(log, place) for log in FORMATS.values() for place in log.places()]


def _files(
    places: Sequence[tuple[LogFormat, Path]],
    *,
    by_ending: bool,
) -> list[tuple[LogFormat, Path]]:
    return [
        (log, file) for log, place in places for file in log.find_files(place, by_ending=by_ending)
    ]


def _redactor() -> Redactor:
    """Return a redactor that knows the keys in our own environment by their value as well."""
    return Redactor(known=KnownKeys.of(secrets_of(os.environ)))


def check_any(intake: Intake, format_name: str, paths: Sequence[str]) -> None:
    """Raises UsageError where there was no log at all."""
    if not (intake.file_count or intake.skipped):
        where = ", ".join(paths) or "its own place"
        names = ", ".join(FORMATS[format_name].files)
        raise UsageError(f"{where}: no log of {format_name} in it ({names}). Name another place")


@dataclass(slots=True)
class _Taking:
    """One command under way."""

    store: SqlStore
    allowlist: Policy | None
    filters: Wanted
    redactor: Redactor | None
    note: Note
    writer: "LogWriter"
    intake: Intake = field(default_factory=Intake)
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def basis(self) -> str:
        return self.allowlist.digest if self.allowlist else ""

    def files(
        self,
        files: Sequence[tuple[LogFormat, Path]],
        workers: int | None,
    ) -> None:
        self.runs = {run.id: run for run in self.store.runs() if run.source}
        self.intake.file_count = len(files)
        changed = [*self._changed(files)]
        sized = [(log.name, path, _size(path)) for log, path, *_ in changed]
        if self.redactor:
            # The same thing has the same mark in all of them.
            workers = 0
        count = workers_for(sum(size for *_, size in sized), workers)
        reading = Reading(
            self.allowlist,
            self.filters,
            self.redactor,
            self.writer.tables,
        )
        with closing(Workers(reading, sized, count)) as reader:
            for number, (log, path, name, state) in enumerate(changed):
                self.intake.files += 1
                results = reader.of(number)
                if self._take_file(log, path, results):
                    self.writer.read(name, state)
            self.intake.lost_workers = reader.lost_workers

    def _take_file(
        self,
        log: LogFormat,
        path: Path,
        batches: Iterator[Found | Unread],
    ) -> bool:
        """Take the results of a file; return True if it was read to its end."""
        is_whole = True
        is_bare = True
        for batch in batches:
            if isinstance(batch, Unread):
                self.intake.skip(batch.skipped)
                is_whole = False
                continue
            self._take(log, batch)
            is_bare &= all(item == EMPTY or isinstance(item, Skipped) for item in batch)
        if is_bare and is_whole:
            self.intake.bare = self.intake.bare or str(path)
        return is_whole

    def close(self) -> None:
        """Whatever ended it: what is whole is kept."""
        self.writer.flush()
        if self.redactor:
            self.intake.redacted = self.redactor.listed()

    def _changed(
        self, files: Sequence[tuple[LogFormat, Path]]
    ) -> Iterator[tuple[LogFormat, Path, str, str]]:
        """Yield the files that changed since they were read, with the name and state to store."""
        for log, path in files:
            key = f"{log.name}\0{path.absolute()}\0{self.basis}\0{self.filters}"
            name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
            state = _state(path)
            if self.writer.has_read(name, state):
                self.intake.files += 1
                self.intake.unchanged += 1
            else:
                yield log, path, name, state

    def _take(
        self,
        log: LogFormat,
        items: Found,
    ) -> None:
        for item in items:
            if isinstance(item, Skipped):
                self.intake.skip(item)
            elif item == EMPTY:
                self.intake.empty += 1
            elif item == LEFT_OUT:
                self.intake.left_out += 1
            elif isinstance(item, Counted):
                self._keep(log, item)
                self.note(self.intake)

    def _keep(
        self,
        log: LogFormat,
        session: Counted,
    ) -> None:
        run = self._run(log, session.entry)
        how = self.writer.add(run.id, session.entry)
        result = Taken(run.id, run.model.name, log.name)
        self.intake.runs.setdefault(run.id, result).add(how, session)

    def _run(
        self,
        log: LogFormat,
        entry: Entry,
    ) -> Run:
        """Return the run of a session: of its format, its model and the list that judges.

        A copy of a session that does not name its model belongs where the session is.
        """
        own = [
            run
            for run in self.runs.values()
            if run.source and (run.source.format, run.source.basis) == (log.name, self.basis)
        ]
        if not entry.model:
            run_id = self.writer.run_of(entry.session, [run.id for run in own])
            if run_id is not None:
                return self.runs[run_id]
        name = entry.model or "unknown"
        same_model = (run for run in own if run.model.name == name)
        return next(same_model, None) or self._new_run(log, name)

    def _new_run(
        self,
        log: LogFormat,
        model: str,
    ) -> Run:
        now = datetime.now(UTC)
        card = replace(cards([model])[model], name=model)
        plain_model = re.sub(
            r"[^A-Za-z0-9._]",
            "-",
            model[:60],
        )
        judged = self.allowlist is not None or Fact.DENIALS not in log.hidden
        run = Run(
            id=f"{now:%Y%m%d-%H%M%S}-{log.name}-{plain_model}",
            model=card,
            started=now.isoformat(timespec="milliseconds"),
            seed=0,
            trials_planned=0,
            max_turns=None,
            concurrency=1,
            sandbox="",
            protocol="",
            taxonomy=TAXONOMY_VERSION,
            policies={self.allowlist.name: self.basis} if self.allowlist else {},
            complete=True,
            source=Source(
                log.name,
                self.basis,
                tuple(map(str, log.hidden)),
                judged,
            ),
        )
        run = self.store.add(run)
        self.runs[run.id] = run
        return run


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # Whoever opens it is told
        return 0


def _state(path: Path) -> str:
    """Return a text that changes when a file, or the WAL next to it, does.

    Empty if changes cannot be detected.
    """
    # OpenCode's tree: its parts are files of their own
    if path.parent.parent.name == "session":
        return ""
    stamps = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError):
            status = file.stat()
            stamps.append(f"{status.st_size} {status.st_mtime_ns}")
    return "\n".join(stamps)


def cards(models: Iterable[str]) -> Mapping[str, ModelCard]:
    """Return the card of each model in agenteval.toml, found by its name or its served id."""
    configured = _configured()
    served = {entry.model: entry for entry in configured.values()} | dict(configured)
    return {model: _card(model, served.get(model)) for model in models}


def _card(name: str, entry: ModelEntry | None) -> ModelCard:
    if entry is None:
        return ModelCard(name=name, served_id=name)
    return ModelCard(
        name=name,
        served_id=entry.model,
        architecture=entry.architecture,
        total_parameters=entry.total_parameters,
        active_parameters=entry.active_parameters,
    )


def _configured() -> Mapping[str, ModelEntry]:
    """Return the models of agenteval.toml; none of a broken one: counts stand without it."""
    try:
        return load_models(roots())
    except UsageError as error:
        reason = visible(str(error).partition("\n")[0])
        logging.getLogger(__name__).warning("agenteval: %s; it is left out", reason)
        return {}
