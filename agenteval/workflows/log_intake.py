"""Logs of other programs taken into a store: their sessions as trials of runs, once each."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agenteval import store as parts  # whose sql imports an ORM: only when it is needed
from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.cards import ModelCard, Source
from agenteval.core.logged import Fact, Session, Skipped
from agenteval.core.policy.policy import Policy
from agenteval.core.redaction import Redactor
from agenteval.core.run import Run
from agenteval.errors import UsageError
from agenteval.formats.tool_calls import UNREADABLE
from agenteval.readers.log_bytes import closed_folders
from agenteval.readers.log_formats import FORMATS, LogFormat, format_named
from agenteval.store.ingesting import Judged
from agenteval.store.sql import SqlStore
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION
from agenteval.workflows import ingest
from agenteval.workflows.log_results import EVERYTHING, Intake, Taken, Wanted
from agenteval.workflows.log_trials import LogJudge, differs

AUTO = "auto"
SHOWN = 10  # calls of which list and record differ


Note = Callable[[Intake], None]


def take_in(  # noqa: PLR0913 -- each is an option of the command line
    format_name: str,
    paths: Sequence[str],
    store: str,
    *,
    allowlist: str | None = None,
    wanted: Wanted = EVERYTHING,
    redact: bool = False,
    note: Note = lambda _: None,
) -> Intake:
    """Take logs in; what was taken in before is not taken again. Raises UsageError.

    `note` is told after each session. Whatever ends it, what was stored is whole.
    """
    wanted.check()
    given = load_any(allowlist, roots=roots()) if allowlist else None
    places = _places(format_name, paths)
    files = [(log, file) for log, place in places for file in log.found(place)]
    if format_name == AUTO and not files:
        raise UsageError(
            f"auto: no logs of {', '.join(FORMATS)} in their own places here. Name a format and a "
            "file: agenteval ingest FORMAT PATH"
        )
    with closing(parts.sql.SqlStore(store)) as there:
        taking = _Taking(there, given, wanted, Redactor() if redact else None, note)
        try:
            for place in {place: None for _, place in places}:
                for fault in closed_folders(place):
                    taking.intake.skip(fault)
            for log, path in files:
                taking.file(log, path)
        finally:
            taking.close()
    return taking.intake


def _places(format_name: str, paths: Sequence[str]) -> list[tuple[LogFormat, Path]]:
    """Where logs are to be looked for. Raises UsageError."""
    if format_name != AUTO:
        log = format_named(format_name)
        if not (places := [Path(path) for path in paths] or [*log.places()]):
            raise UsageError(f"{log.name}: no logs in its own place here. Name a file or a folder")
        return [(log, place) for place in places]
    if paths:
        raise UsageError("auto finds each program's own place. Name a format to read other files")
    return [(log, place) for log in FORMATS.values() for place in log.places()]


class _Taking:
    """One command under way."""

    def __init__(
        self,
        store: SqlStore,
        allowlist: Policy | None,
        wanted: Wanted,
        redactor: Redactor | None,
        note: Note,
    ) -> None:
        self.intake = Intake()
        self._store, self._allowlist, self._wanted = store, allowlist, wanted
        self._redactor, self._note = redactor, note
        self._writer = store.log_writer(TAXONOMY_VERSION)
        self._runs = {run.id: run for run in store.runs() if run.source}
        self._judges: dict[str, LogJudge] = {}

    def file(self, log: LogFormat, path: Path) -> None:
        self.intake.files += 1
        name, state = self._asked_of(log, path), _state(path)
        if self._writer.has_read(name, state):
            self.intake.unchanged += 1
            return
        try:
            for one in log.read(path):
                if isinstance(one, Skipped):
                    self.intake.skip(one)
                else:
                    self._session(log, one)
        except UNREADABLE as error:
            why = getattr(error, "strerror", None) or str(error)
            self.intake.skip(Skipped(str(path), "the file", why))
            return
        self._writer.read(name, state)

    def close(self) -> None:
        for run in self.intake.runs:
            self._writer.close_run(self._runs[run])
        self._writer.connection.close()
        if self._redactor:
            self.intake.redacted = self._redactor.listed()

    def _asked_of(self, log: LogFormat, path: Path) -> str:
        basis = self._allowlist.digest if self._allowlist else ""
        asked = f"{log.name}\0{path.absolute()}\0{basis}\0{self._wanted}"
        return hashlib.sha256(asked.encode(errors="surrogatepass")).hexdigest()[:32]

    def _session(self, log: LogFormat, session: Session) -> None:
        if not session.turns:
            self.intake.empty += 1
            return
        session = session.plain()
        judge = self._judges.setdefault(
            log.name, LogJudge(log.name, self._allowlist, self._redactor)
        )
        for own in session.by_model():
            if not self._wanted.fits(own):
                self.intake.left_out += 1
                continue
            run, judged = self._run(log, own), judge.judged(own)
            self._keep(run, judged, log)
            self._note(self.intake)

    def _keep(self, run: Run, judged: Judged, log: LogFormat) -> None:
        how = self._writer.write(run, judged)
        taken = self.intake.runs.setdefault(run.id, Taken(run.id, run.model.name, log.name))
        taken.sessions[how] += 1
        if how == "unchanged":
            return
        if how == "added":
            run = replace(run, trials_planned=run.trials_planned + 1)
        if self._allowlist:
            run = replace(run, policies={self._allowlist.name: self._allowlist.digest})
        self._runs[run.id] = run
        taken.recorded.update(judged.session.outcomes)
        taken.derived.update(one.derived for one in judged.records if one.derived)
        taken.policies[judged.policy.partition(":")[0]] += 1
        for one in judged.records:
            if differs(one):
                taken.differing[one.record.harness] += 1
                if len(taken.differ) < SHOWN:
                    told = (
                        one.record.call.command or f"{one.record.call.name} {one.record.call.raw}"
                    )
                    taken.differ.append(f"{one.record.harness}, but {one.derived}: {told}")

    def _run(self, log: LogFormat, session: Session) -> Run:
        """The run that the session belongs to: of its format, its model and the list that judges.

        A copy of a session that does not name its model belongs where the session is.
        """
        basis = self._allowlist.digest if self._allowlist else ""
        own = [
            run
            for run in self._runs.values()
            if run.source and (run.source.format, run.source.basis) == (log.name, basis)
        ]
        if not session.model:
            there = self._writer.run_of(session, [run.id for run in own])
            if there is not None:
                return self._runs[there]
        name = session.model or "unknown"
        found = next((run for run in own if run.model.name == name), None)
        return found or self._new_run(log, name, basis)

    def _new_run(self, log: LogFormat, model: str, basis: str) -> Run:
        now = datetime.now(UTC)
        card: ModelCard = ingest.cards([model])[model]
        judged = self._allowlist is not None or Fact.DENIALS not in log.hidden
        run = Run(
            id=self._store.free_id(f"{now:%Y%m%d-%H%M%S}-{log.name}-{_plain(model[:60])}"),
            model=replace(card, name=model),
            started=now.isoformat(timespec="milliseconds"),
            seed=0,
            trials_planned=0,
            max_turns=None,
            concurrency=1,
            sandbox="",
            protocol="",
            taxonomy=TAXONOMY_VERSION,
            policies={},
            complete=True,
            source=Source(log.name, basis, tuple(map(str, log.hidden)), judged),
        )
        self._store.add(run)
        self._runs[run.id] = run
        return run


def _plain(name: str) -> str:
    return "".join(one if one.isascii() and (one.isalnum() or one in "._") else "-" for one in name)


def _state(path: Path) -> str:
    """A text that is another one when a file, or the WAL beside it, was changed."""
    told = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            known = file.stat()
        except OSError:
            continue
        told.append(f"{known.st_size} {known.st_mtime_ns}")
    if path.parent.parent.name == "session":  # OpenCode's tree: its parts are files of their own
        return ""
    return "\n".join(told)
