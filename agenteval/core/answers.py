"""What a world's database is asked, and what it answers: of neither may anything be believed."""

from collections.abc import Mapping
from dataclasses import dataclass

from agenteval.core.chance import Value

# Type, name, table and SQL of each object that a fixture's database declares.
Schema = tuple[tuple[str, str, str, str | None], ...]
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and how many of its rows are wanted at most."""

    query: str
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of one query; `error` is why it has none."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    error: str = ""

    @property
    def first(self) -> Cell:
        """The first value; None where there is none."""
        return self.rows[0][0] if self.rows else None

    @property
    def named(self) -> list[Mapping[str, Value]]:
        """Each row by the names of its columns, as a template takes it: NULL is an empty text."""
        return [
            {name: "" if cell is None else cell for name, cell in zip(self.names, row, strict=True)}
            for row in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer for each question, or why the database as a whole has none: `broken`."""

    answers: tuple[Answer, ...] = ()
    broken: str = ""
