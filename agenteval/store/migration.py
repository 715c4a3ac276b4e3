"""Tables as this version needs them: made when new, and widened when an older version made them.

A change of schema so far adds columns, each with a default for the rows that are there or filled
from them, or frees the rows of a constraint. It is done in place: nothing stored is lost, and doing
it twice, or half of it, does no harm.
"""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, Inspector, inspect
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlmodel import Session, SQLModel, col, select

from agenteval.core.recovery import COUNTING
from agenteval.core.run import judged_by
from agenteval.core.summary import summarize
from agenteval.errors import UsageError
from agenteval.store.location import SCHEMA
from agenteval.store.mapping import trial_value
from agenteval.store.rows import CallRow, RunRow, TrialRow, TurnRow
from agenteval.store.summaries import summary_values

if TYPE_CHECKING:
    from alembic.operations import Operations

TRIALS = SQLModel.metadata.tables[str(TrialRow.__tablename__)]
CALLS = SQLModel.metadata.tables[str(CallRow.__tablename__)]
TURNS = SQLModel.metadata.tables[str(TurnRow.__tablename__)]
# Its place is taken by one that has the class too, so that calls are counted without being read.
_CALLS_BY_TRIAL = "DROP INDEX IF EXISTS ix_call_trial_id"
OLDEST = 2  # the first schema that was released
# Once there was no outcome of this name; what ended the trial was always kept.
_TIMED_OUT = """UPDATE trial SET outcome = 'timed-out'
    WHERE outcome = 'out-of-turns' AND ending = 'time'"""
# Nothing of a trial without sub-agents was counted differently by the third way to count.
_COUNTED = "UPDATE trial SET counting = 4 WHERE counting = 3 AND CAST(agent_calls AS TEXT) = '{}'"
STEPS = 40  # more than there are tables and columns to add: each may be lost to another process


def check_schema(engine: Engine, shown: str) -> None:
    """Raises UsageError for a store that another version's schema cannot be widened from.

    Asked before anything is altered. Older releases kept no number in PostgreSQL.
    """
    with engine.connect() as connection:
        found = _kept(connection)
    if found and not OLDEST <= found <= SCHEMA:
        engine.dispose()  # nobody gets the store that would close it
        raise UsageError(
            f"--store {shown}: written with schema {found}, this agenteval has {SCHEMA}; "
            "use the agenteval that wrote it, or give another --store"
        )


_NUMBERED = "agenteval schema "  # the comment on PostgreSQL's table of runs, with the number
_COMMENT = "SELECT obj_description(to_regclass('run'), 'pg_class')"


def _kept(connection: Connection) -> int:
    """The number of the schema; 0 where there is none yet."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if connection.dialect.name != "postgresql":
        return 0
    number = str(connection.exec_driver_sql(_COMMENT).scalar_one() or "").removeprefix(_NUMBERED)
    return int(number) if number.isdecimal() else 0


# Processes that open a new database of PostgreSQL at once make its tables one after another: what
# its catalogue says to the later one has no fixed form. The number is nobody else's.
_LOCK = "SELECT pg_advisory_xact_lock(7161118931)"


def make_tables(engine: Engine) -> None:
    if _is_whole(engine):
        return _summarize(engine)
    with engine.connect() as holding:
        if engine.dialect.name == "postgresql":
            holding.exec_driver_sql(_LOCK)
        return _made(engine)


def _is_whole(engine: Engine) -> bool:
    with engine.connect() as connection:
        return _kept(connection) == SCHEMA  # the number is written last


def _made(engine: Engine) -> None:
    for _ in range(STEPS):
        try:
            return _widen(engine)
        except (OperationalError, ProgrammingError):
            continue  # another process made this step between look and change
    return _widen(engine)


def _widen(engine: Engine) -> None:
    SQLModel.metadata.create_all(engine)
    for table in SQLModel.metadata.sorted_tables:
        there = {column["name"] for column in inspect(engine).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                with engine.begin() as connection:
                    _altering(connection).add_column(table.name, column)
    _free_numbers(engine)
    for index in (*TRIALS.indexes, *TURNS.indexes, *CALLS.indexes):
        index.create(engine, checkfirst=True)
    with engine.begin() as connection:
        for change in (_CALLS_BY_TRIAL, _TIMED_OUT, _COUNTED):
            connection.exec_driver_sql(change)
    _summarize(engine)
    _tell_judges(engine)
    keeps = {
        "sqlite": f"PRAGMA user_version={SCHEMA}",
        "postgresql": f"COMMENT ON TABLE run IS '{_NUMBERED}{SCHEMA}'",
    }
    with engine.begin() as connection:
        if engine.dialect.name in keeps and _kept(connection) != SCHEMA:
            connection.exec_driver_sql(keeps[engine.dialect.name])


def _summarize(engine: Engine) -> None:
    """Count the trials of a time when none was counted, or otherwise than today."""
    ended = TrialRow.outcome != "", col(TrialRow.replaced).is_(False)
    with Session(engine) as session:
        for row in session.exec(select(TrialRow).where(TrialRow.counting != COUNTING, *ended)):
            turns = select(TurnRow).where(TurnRow.trial_id == row.id).order_by(col(TurnRow.id))
            calls = select(CallRow).where(CallRow.trial_id == row.id).order_by(col(CallRow.id))
            trial = trial_value(row, [*session.exec(turns)], [*session.exec(calls)])
            for name, value in summary_values(summarize(trial)).items():
                setattr(row, name, value)
        session.commit()


def _tell_judges(engine: Engine) -> None:
    """Put down who was judged by which allow list, for runs of a time when calls alone told it."""
    told = select(TrialRow.run_id, TrialRow.scenario, CallRow.agent, CallRow.policy).distinct()
    with Session(engine) as session:
        runs = {row.id: row for row in session.exec(select(RunRow)) if not row.judged | row.source}
        for run, scenario, agent, digest in session.exec(told.join(CallRow)) if runs else ():
            if row := runs.get(run):
                whose = judged_by(scenario, agent.rpartition("/")[0])
                row.judged = {**row.judged, whose: digest}
        session.commit()


def _free_numbers(engine: Engine) -> None:
    """A trial that is played again has the number of the one it replaces: once no two might."""
    if not _numbered(inspect(engine)):
        return
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # It drops no constraint: the table is written again without it, all or nothing.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        for name in _numbered(inspect(connection)):  # none where another process was quicker
            with _altering(connection).batch_alter_table(
                TRIALS.name, naming_convention={"uq": _UNNAMED}
            ) as trials:
                trials.drop_constraint(name or _UNNAMED % {"table_name": TRIALS.name}, "unique")


_UNNAMED = "uq_%(table_name)s"  # SQLite reports no name for unnamed constraints; this makes one up


def _numbered(schema: Inspector) -> list[str | None]:
    """The constraints by which a number is a single trial's."""
    known = schema.get_unique_constraints(TRIALS.name)
    return [one["name"] for one in known if "number" in one["column_names"]]


def _altering(connection: Connection) -> "Operations":
    from alembic import migration, operations  # noqa: PLC0415 -- 0.1 s; few stores are of old

    return operations.Operations(migration.MigrationContext.configure(connection))
