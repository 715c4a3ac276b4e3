"""The tables. A row is what happened, kept raw enough to be judged again under another policy."""

from typing import Any

from sqlalchemy import JSON, Column, Dialect, Index, Text, UniqueConstraint, false, text
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

from agenteval.store.texts import from_column, packed, to_column


class ExactText(TypeDecorator[str]):
    """A text column that keeps NUL and lone surrogates, which models write and databases refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else to_column(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else from_column(value)


class PackedText(ExactText):
    """An ExactText that is compressed: for what is large, and searched by nothing."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else packed(value)


_ZERO = {"server_default": "0"}  # what rows of an older schema get
_EMPTY, _FALSE = {"server_default": ""}, {"server_default": false()}


def _no_list() -> Column[Any]:
    """A column of JSON that is an empty list in rows of an older schema."""
    return Column(JSON, nullable=False, server_default="[]")


def _no_dict() -> Column[Any]:
    return Column(JSON, nullable=False, server_default="{}")


class RunRow(SQLModel, table=True):
    __tablename__ = "run"

    id: str = Field(primary_key=True)
    model: str = Field(index=True)
    simulated: bool
    started: str
    seed: int
    trials_planned: int
    max_turns: int | None
    concurrency: int
    sandbox: str
    prefork: bool = Field(sa_column_kwargs=_FALSE)
    protocol: str
    taxonomy: str
    complete: bool = False
    seconds: float | None = None
    joules: float | None = None
    second_reader: dict[str, int] = Field(default={}, sa_column=Column(JSON, nullable=False))
    card: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    policies: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    judged: dict[str, str] = Field(default={}, sa_column=_no_dict())
    options: dict[str, Any] = Field(default={}, sa_column=_no_dict())
    scenarios: dict[str, str] = Field(default={}, sa_column=_no_dict())
    arm: dict[str, Any] = Field(default={}, sa_column=_no_dict())
    source: dict[str, Any] = Field(default={}, sa_column=_no_dict())
    per_token: float = Field(default=4.0, sa_column_kwargs={"server_default": "4"})


class ShardRow(SQLModel, table=True):
    """A process that plays a part of a run, next to others.

    It counts as gone when `lease` seconds of the database's clock have passed since `seen`, which
    is negative for one that has ended.
    """

    __tablename__ = "shard"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    number: int  # from 1
    shards: int
    job: str  # what the scheduler calls it all; empty where it was not told
    host: str
    version: str  # of agenteval
    lease: float
    seen: float
    came: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})


_COUNTED = "outcome <> '' AND NOT replaced"
_GARBLED = "CAST(garbles AS TEXT) <> '[]'"  # JSON has no equality in PostgreSQL


class TrialRow(SQLModel, table=True):
    """A trial's summary; its turns and calls, as they happened, are rows of their own.

    `outcome` is empty while the trial runs: what stands there after a crash was in flight. A
    `replaced` trial was void, and played again: it is kept, and no figure counts it. Where several
    processes play a run, the row is the claim of its `shard`.
    """

    __tablename__ = "trial"
    __table_args__ = (
        Index(
            "trial_in_force",
            *("run_id", "scenario", "number"),
            unique=True,
            sqlite_where=text("NOT replaced"),
            postgresql_where=text("NOT replaced"),
        ),
        Index(
            "trial_replaced",
            "id",
            sqlite_where=text("replaced"),
            postgresql_where=text("replaced"),
        ),
        Index(
            "trial_counting",
            "counting",
            sqlite_where=text(_COUNTED),
            postgresql_where=text(_COUNTED),
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    scenario: str
    number: int
    seed: int
    shard: int | None = Field(default=None, foreign_key="shard.id")
    ending: str = ""
    outcome: str = ""
    reason: str = Field(default="", sa_type=ExactText)
    cause: str = Field(default="", sa_column_kwargs=_EMPTY)
    retries: int = Field(default=0, sa_column_kwargs=_ZERO)
    stretched: float = Field(default=1.0, sa_column_kwargs={"server_default": "1"})
    seconds: float = 0.0
    handshake: list[Any] = Field(default=[], sa_column=Column(JSON, nullable=False))
    goal: list[Any] = Field(default=[], sa_column=_no_list())
    goal_turn: int | None = None
    prompts: dict[str, Any] = Field(default={}, sa_column=_no_dict())  # digests, by agent
    replaced: bool = Field(default=False, sa_column_kwargs=_FALSE)
    agents: list[Any] = Field(default=[], sa_column=_no_list())  # without their turns and calls
    calls: int = Field(default=0, sa_column_kwargs=_ZERO)
    errors: dict[str, int] = Field(default={}, sa_column=_no_dict())  # by failure class
    executed: int = Field(default=0, sa_column_kwargs=_ZERO)
    crashed: int = Field(default=0, sa_column_kwargs=_ZERO)
    prompt_tokens: int = Field(default=0, sa_column_kwargs=_ZERO)
    agent_calls: dict[str, Any] = Field(default={}, sa_column=_no_dict())
    agent_errors: dict[str, int] = Field(default={}, sa_column=_no_dict())  # by failure class
    # How its summary was made (`core.recovery.COUNTING`); 0 while it runs, and in an older store.
    counting: int = Field(default=0, sa_column_kwargs=_ZERO)
    recovery: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))


class TurnRow(SQLModel, table=True):
    """`raw` is the server's reply as received; `calls` is what was read from it.

    `agent` is the label of a sub-agent, and empty for a trial's first agent. `first_piece` is None
    where the reply came in one piece; times are in seconds.
    """

    __tablename__ = "turn"
    __table_args__ = (
        Index(
            "turn_garbled",
            "trial_id",
            sqlite_where=text(_GARBLED),
            postgresql_where=text(_GARBLED),
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id", index=True)
    agent: str = Field(default="", sa_column_kwargs=_EMPTY)
    number: int
    text: str = Field(sa_type=ExactText)
    finish_reason: str = Field(sa_type=ExactText)
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = Field(default=0, sa_column_kwargs=_ZERO)
    cached_tokens: int = Field(default=0, sa_column_kwargs=_ZERO)
    seconds: float
    first_piece: float | None = None
    pieces: int = Field(default=0, sa_column_kwargs=_ZERO)
    gap_mean: float = Field(default=0.0, sa_column_kwargs=_ZERO)
    gap_median: float = Field(default=0.0, sa_column_kwargs=_ZERO)
    gap_p95: float = Field(default=0.0, sa_column_kwargs=_ZERO)
    gap_longest: float = Field(default=0.0, sa_column_kwargs=_ZERO)
    garbles: list[Any] = Field(default=[], sa_column=_no_list())
    repairs: list[Any] = Field(default=[], sa_column=_no_list())
    repeats: str = Field(default="", sa_type=ExactText, sa_column_kwargs=_EMPTY)
    model: str = Field(default="", sa_type=ExactText, sa_column_kwargs=_EMPTY)
    reasoning: str = Field(default="", sa_type=ExactText, sa_column_kwargs=_EMPTY)
    raw: str = Field(sa_type=PackedText)
    ended: float | None = None
    calls: list[Any] = Field(sa_column=Column(JSON, nullable=False))


class MessageRow(SQLModel, table=True):
    """A message that agents of a run began with: once, however many trials begin with it."""

    __tablename__ = "message"

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    digest: str = Field(primary_key=True)
    data: str  # JSON in ASCII


class CallRow(SQLModel, table=True):
    """One tool call, written as it happens; `failure_class` is the primary class of a denial.

    Of a call from a log, `harness` is what was recorded. `derived` is what its known allow list
    gives, empty if none is known. `offending` is the part that this stops at, and `shape` the class
    that its command looks like.
    """

    __tablename__ = "call"
    __table_args__ = (Index("call_by_class", "trial_id", "failure_class", "agent"),)

    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id")
    agent: str = Field(default="", sa_column_kwargs=_EMPTY)
    turn: int
    position: int
    call_id: str = Field(sa_type=ExactText)
    name: str = Field(sa_type=ExactText)
    raw: str = Field(sa_type=ExactText)
    arguments: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    garbled: str = Field(sa_type=ExactText)
    allowed: bool
    failure_class: str = Field(index=True)
    findings: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    objection: str = Field(sa_type=ExactText)
    policy: str  # digest of the allow list that judged it
    taxonomy: str
    reply: str = Field(sa_type=ExactText)
    exit_code: int | None = None
    output: str | None = Field(default=None, sa_type=ExactText)  # None when nothing ran
    output_is_reply: bool = Field(default=False, sa_column_kwargs=_FALSE)  # then it is empty here
    seconds: float | None = None
    limit: str = ""
    cut: bool = False
    harness: str = Field(default="", sa_column_kwargs=_EMPTY)
    derived: str = Field(default="", sa_column_kwargs=_EMPTY)
    offending: str = Field(default="", sa_type=ExactText, sa_column_kwargs=_EMPTY)
    shape: str = Field(default="", sa_column_kwargs=_EMPTY)


class LookRow(SQLModel, table=True):
    """One look of a gate at a run, under way or ended."""

    __tablename__ = "look"
    __table_args__ = (UniqueConstraint("run_id", "number"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    number: int
    planned: int
    trials: int
    level: float
    verdict: str
    baseline: str
    rules: str
    at: str = Field(default="", sa_column_kwargs=_EMPTY)
    data: str = Field(default="", sa_column_kwargs=_EMPTY)
    judged: str = Field(default="", sa_column_kwargs=_EMPTY)


class CrashRow(SQLModel, table=True):
    """A crash of the server during a run."""

    __tablename__ = "crash"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    at: float
    said: str


class TagsRow(SQLModel, table=True):
    """A user's labels of a run, and the note on it."""

    __tablename__ = "tags"

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    labels: list[str] = Field(default=[], sa_column=Column(JSON, nullable=False))
    note: str = ""
