"""Markdown of a view and of a gate's verdict, for a pull request or a job's summary."""

import re
from collections.abc import Iterator, Sequence

from agenteval.core.plain import as_name, visible
from agenteval.report.details import detail_tables
from agenteval.report.gate_view import GateView, goals_told
from agenteval.report.goals import missed_lines
from agenteval.report.tables import MARK, MISSED, SAID, Cell, Head, Table, comparison_table
from agenteval.report.view import View
from agenteval.report.voids import void_lines
from agenteval.stats.alpha_spending import confidence_text


def dumps(view: View) -> str:
    return visible("\n".join(_lines(view))).rstrip()


def _lines(view: View) -> Iterator[str]:
    yield f"# {escaped(view.title)}{_marked(simulated=view.simulated)}"
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
    if lines := missed_lines(view):
        yield from (f"## {MISSED}{_marked(simulated=view.simulated)}", "")
        yield from _list(lines)
    if voids := void_lines(view):
        yield from ("## Void trials", "")
        yield from _list(voids)


def _marked(*, simulated: bool) -> str:
    return f" ({MARK})" if simulated else ""


def _list(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {block(line)}" for line in lines)
    yield ""


def _table(table: Table) -> Iterator[str]:
    yield from (block(table.note), "")
    yield _row([escaped(table.first), *map(_head, table.heads)])
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
    """Return one line of literal text, for use within a line or a cell of a table.

    A server's words draw no tables, links, images, tags or emphasis, and notify no user by an `@`.
    """
    text = _ACTIVE.sub(r"\\\g<0>", " ".join(as_name(text).split()))
    return _MENTION.sub(r"\g<0><!-- -->", text)


def block(text: str) -> str:
    """Return the text as `escaped`, where a block begins: no heading, list, quote or definition."""
    return _BLOCK.sub(r"\1\\", escaped(text))


_ACTIVE = re.compile(
    r"[\\`*<|~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; within a word it is a part of a name
    r"|(?<=\])[(\[:]"  # a link, an image, a reference, a definition
    r"|!(?=\[)|\[(?=[\^ xX]|$)"  # an image, a footnote, a box to tick
    r"|&(?=#?\w+;)"  # what would be read as another character
    r"|(?<=\w):(?=//)|(?i:(?<=\bwww))\."  # an address that becomes a link by itself
)
# What GitHub makes of a text after Markdown: no escape keeps it, a comment within it does.
_MENTION = re.compile(r"(?<!\w)@(?=\w)|@(?=[\w-]+\.)", re.ASCII)
_BLOCK = re.compile(r"^(?:(?=[-+=>\[]|#{1,6}(?: |$))|(\d{1,9})(?=[.)](?: |$)))")


_GATE_HEADS = ("criterion", "estimate", "bounds", "limit", "n", "verdict", "still needed")


def gate_dumps(view: GateView) -> str:
    return visible("\n".join(_gate_lines(view))) + "\n"


def _gate_lines(view: GateView) -> Iterator[str]:
    yield f"# {view.verdict}{f' ({MARK})' if view.simulated else ''}"
    yield ""
    yield f"**{escaped(goals_told(view))}**"
    yield ""
    yield (
        f"Candidate {escaped(view.candidate.model)} (run {escaped(view.candidate.id)}) over "
        f"baseline {escaped(view.baseline.model)} (run {escaped(view.baseline.id)}), one-sided "
        f"{confidence_text(view.judgement.level)} % bounds, rules {escaped(view.rules)}."
    )
    yield ""
    yield _gate_row(*_GATE_HEADS)
    yield _gate_row("---", "---:", "---:", "---", "---:", "---", "---")
    for line in view.lines:
        cells = (line.name, f"{line.estimate} {line.unit}", line.bounds, line.limit, line.n)
        yield _gate_row(*map(escaped, cells), f"**{line.verdict}**", escaped(line.needed))
    yield ""
    yield from (f"- {block(remark)}" for remark in view.remarks)


def _gate_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
