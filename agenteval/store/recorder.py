"""Writing one run as it happens: a row for each turn and call, committed before the next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sqlalchemy import Engine
from sqlmodel import Session, SQLModel

from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.protocols import TrialKey
from agenteval.store import mapping
from agenteval.store.rows import TrialRow


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Implements `protocols.Recorder`. A returned call is on disk: a crash loses nothing before it.

    `digests` maps each scenario to the digest of the allow list that judges it.
    """

    engine: Engine
    run_id: str
    taxonomy: str
    digests: Mapping[str, str]
    _ids: dict[TrialKey, int] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> None:
        row = TrialRow(run_id=self.run_id, scenario=key.scenario, number=key.number, seed=key.seed)
        self._add(row)
        if row.id is not None:
            self._ids[key] = row.id

    def turn(self, key: TrialKey, number: int, turn: Turn) -> None:
        self._add(mapping.turn_row(self._ids[key], number, turn))

    def call(self, key: TrialKey, record: CallRecord) -> None:
        self._add(
            mapping.call_row(
                self._ids[key], record, policy=self.digests[key.scenario], taxonomy=self.taxonomy
            )
        )

    def finish(self, key: TrialKey, trial: Trial) -> None:
        with Session(self.engine) as session:
            row = session.get_one(TrialRow, self._ids[key])
            row.ending, row.outcome, row.reason = trial.ending, trial.outcome, trial.reason
            row.seconds = trial.seconds
            row.handshake = [asdict(step) for step in trial.handshake]
            session.add(row)
            session.commit()

    def _add(self, row: SQLModel) -> None:
        with Session(self.engine, expire_on_commit=False) as session:
            session.add(row)
            session.commit()
