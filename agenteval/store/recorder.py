"""Writing one run as it happens: a row for each turn and call, committed before the next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sqlalchemy import Connection, bindparam, insert, update
from sqlmodel import SQLModel

from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.protocols import TrialKey
from agenteval.store import mapping
from agenteval.store.rows import CallRow, TrialRow, TurnRow

_ID = SQLModel.metadata.tables[str(TrialRow.__tablename__)].c.id
_TRIAL = insert(TrialRow).returning(_ID)
_NEW_TRIAL = {  # made here, as a row object for each trial takes as long as all else of its start
    name: column.default
    for name, column in TrialRow.model_fields.items()
    if name != "id" and not column.is_required()
}
_ENDED = update(TrialRow).where(bindparam("trial") == _ID)
_TURN, _CALL = insert(TurnRow).inline(), insert(CallRow).inline()


def judged_by(scenario: str, agent: str = "") -> str:
    """The name under which an allow list is kept: of a scenario, or of a sub-agent in it."""
    return f"{scenario}:{agent}" if agent else scenario


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Implements `protocols.Recorder`. A returned call is on disk: a crash loses nothing before it.

    `connection` commits each statement; it is held, as asking a pool takes as long as writing.
    `digests` maps each scenario, and each sub-agent of it, to the digest of the allow list that
    judges it there, under the names that `judged_by` gives.
    """

    connection: Connection
    run_id: str
    taxonomy: str
    digests: Mapping[str, str]
    _ids: dict[TrialKey, int] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> None:
        values = {"run_id": self.run_id, **asdict(key)}
        self._ids[key] = self.connection.execute(_TRIAL, _NEW_TRIAL | values).scalar_one()

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None:
        values = mapping.turn_values(self._ids[key], number, turn, agent=agent)
        self.connection.execute(_TURN, values)

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None:
        values = mapping.call_values(
            self._ids[key],
            record,
            agent=agent,
            policy=self.digests[judged_by(key.scenario, agent.rpartition("/")[0])],
            taxonomy=self.taxonomy,
        )
        self.connection.execute(_CALL, values)

    def finish(self, key: TrialKey, trial: Trial) -> None:
        values = mapping.ended_values(trial)
        self.connection.execute(_ENDED, {"trial": self._ids[key], **values})
