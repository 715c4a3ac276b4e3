"""Writing one run as it happens: a row for each turn and call, committed before the next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sqlalchemy import Engine, insert
from sqlmodel import Session

from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.protocols import TrialKey
from agenteval.store import mapping
from agenteval.store.rows import CallRow, TrialRow, TurnRow

_INSERTS = {TurnRow: insert(TurnRow), CallRow: insert(CallRow)}


def judged_by(scenario: str, agent: str = "") -> str:
    """The name under which an allow list is kept: of a scenario, or of a sub-agent in it."""
    return f"{scenario}:{agent}" if agent else scenario


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Implements `protocols.Recorder`. A returned call is on disk: a crash loses nothing before it.

    `digests` maps each scenario, and each sub-agent of it, to the digest of the allow list that
    judges it there, under the names that `judged_by` gives.
    """

    engine: Engine
    run_id: str
    taxonomy: str
    digests: Mapping[str, str]
    _ids: dict[TrialKey, int] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> None:
        row = TrialRow(run_id=self.run_id, scenario=key.scenario, number=key.number, seed=key.seed)
        with Session(self.engine) as session:
            session.add(row)
            session.flush()
            if row.id is not None:
                self._ids[key] = row.id
            session.commit()

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None:
        self._insert(TurnRow, mapping.turn_values(self._ids[key], number, turn, agent=agent))

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None:
        values = mapping.call_values(
            self._ids[key],
            record,
            agent=agent,
            policy=self.digests[judged_by(key.scenario, agent.rpartition("/")[0])],
            taxonomy=self.taxonomy,
        )
        self._insert(CallRow, values)

    def finish(self, key: TrialKey, trial: Trial) -> None:
        with Session(self.engine) as session:
            row = session.get_one(TrialRow, self._ids[key])
            row.ending, row.outcome, row.reason = trial.ending, trial.outcome, trial.reason
            row.cause, row.retries = trial.cause or "", trial.retries
            row.seconds = trial.seconds
            row.handshake = [asdict(step) for step in trial.handshake]
            row.agents = [mapping.agent_fields(part) for part in trial.agents]
            session.add(row)
            session.commit()

    def _insert(self, table: type[TurnRow | CallRow], values: mapping.Values) -> None:
        """One row, committed; a third of what the session of an ORM takes for it."""
        with self.engine.begin() as connection:
            connection.execute(_INSERTS[table], values)
