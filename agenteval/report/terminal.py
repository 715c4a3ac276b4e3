"""The terminal that tables are drawn on."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Terminal(Console):
    """Leaves to its caller what it means that nobody reads on: raises BrokenPipeError."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_named(rows: Iterable[tuple[str, str, str]]) -> None:
    """A name each, which is never broken, what it is, and below that a line that matters less."""
    table = Table.grid("name", "what it is", padding=(0, 2))
    table.columns[0].no_wrap = True
    for name, title, less in rows:
        table.add_row(name, Text.assemble(title, "\n", (less, "dim")))
    Terminal().print(table)
