"""The view as Markdown, for a pull request or a page of notes."""

from collections.abc import Iterator, Sequence

from agenteval.report.details import detail_tables, void_lines
from agenteval.report.tables import MARK, SAID, Cell, Head, Table, comparison_table
from agenteval.report.view import View


def dumps(view: View) -> str:
    return "\n".join(_lines(view)).rstrip()


def _lines(view: View) -> Iterator[str]:
    yield f"# {view.title}{_marked(simulated=view.simulated)}"
    yield ""
    for line in view.warnings:
        yield from (f"> **{escaped(line)}**", "")
    yield from _table(comparison_table(view))
    if view.sentences:
        yield from (f"## {SAID}{_marked(simulated=view.simulated)}", "")
        yield from _list(view.sentences)
    for table in detail_tables(view):
        yield from (f"## {escaped(table.title)}{_marked(simulated=table.simulated)}", "")
        yield from _table(table)
    if voids := void_lines(view):
        yield from ("## Void trials", "")
        yield from _list(voids)


def _marked(*, simulated: bool) -> str:
    return f" ({MARK})" if simulated else ""


def _list(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {escaped(line)}" for line in lines)
    yield ""


def _table(table: Table) -> Iterator[str]:
    yield from (table.note, "")
    yield _row([table.first, *map(_head, table.heads)])
    yield _row(["---", *("---:" for _ in table.heads)])
    for row in table.rows:
        texts = [escaped(row.label), *map(_cell, row.cells)]
        yield _row([f"**{text}**" for text in texts] if row.strong else texts)
    yield ""


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _head(head: Head) -> str:
    counted = f" ({', '.join(head.counted.splitlines())})" if head.counted else ""
    return escaped(f"{head.label}{_marked(simulated=head.simulated)}{counted}")


def _cell(cell: Cell) -> str:
    return escaped(" ".join(filter(None, (cell.count, cell.value, cell.interval, cell.n))))


def escaped(text: str) -> str:
    """Text as it is: a server's words must not draw tables, links or tags of their own."""
    text = " ".join(text.split())
    for character in "\\`*<|":
        text = text.replace(character, f"\\{character}")
    return text.replace("](", "]\\(")
