"""Rows of a result, as any library of data frames takes them."""

from dataclasses import asdict, fields
from typing import Any, TypeVar

Row = TypeVar("Row")


class Table(tuple[Row, ...]):
    """Rows that are frozen dataclasses of plain values, all of one kind.

    `pandas.DataFrame(table)` and `polars.DataFrame(table)` take it as it is; `records` and
    `columns` are for everything else.
    """

    __slots__ = ()

    def records(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        return [asdict(row) for row in self]  # type: ignore[call-overload]

    def columns(self) -> dict[str, list[Any]]:
        """A list for each field; without any rows it is empty."""
        names = [field.name for field in fields(self[0])] if self else []  # type: ignore[arg-type]
        return {name: [getattr(row, name) for row in self] for name in names}
