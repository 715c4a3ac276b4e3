"""How `agenteval classify` shows a verdict: one line of JSON, or the command marked for people."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from typer import style

if TYPE_CHECKING:
    from agenteval.core.call import Finding, ToolCall, Verdict
    from agenteval.core.source import Span

RowName = Callable[[str], str]  # what a class is called in the chosen taxonomy


def as_json(call: "ToolCall", verdict: "Verdict", row: RowName) -> str:
    """One line, safe for any text: what is not ASCII is escaped."""
    found: dict[str, Any] = {"id": call.id} if call.id else {}
    found["command"] = call.command
    if call.command is None:
        found |= {
            "name": call.name,
            "arguments": call.raw if call.arguments is None else call.arguments,
        }
    primary = verdict.primary
    found["verdict"] = "allowed" if verdict.allowed else "denied"
    found["class"] = row(primary.failure_class) if primary else None
    found["also"] = list(dict.fromkeys(row(each.failure_class) for each in verdict.findings[1:]))
    found["evidence"] = _evidence(primary.evidence) if primary else None
    found["hint"] = primary.hint if primary else ""
    found["facets"] = list(primary.facets) if primary else []
    return json.dumps(found)


def _evidence(evidence: "Span") -> dict[str, Any]:
    return {"text": evidence.text, "start": evidence.start, "end": evidence.end}


def as_text(call: "ToolCall", verdict: "Verdict", row: RowName) -> str:
    """The call with the offending part underlined, why it was denied, and the cure; in colours."""
    primary = verdict.primary
    text = _visible(call.raw if call.command is None else call.command)
    if primary is None:
        shown = [style("allowed", fg="green")]
    else:
        name = style(row(primary.failure_class), bold=True)
        shown = [f"{style('denied', fg='red')}  {name}"]
    if call.command is None:
        shown.append(f"  {_visible(call.name)}")
    lines = _marked(text, primary) if primary else text.splitlines()
    shown += [f"  {line}" for line in lines]
    return "\n".join((*shown, *_notes(verdict, row)))


def _notes(verdict: "Verdict", row: RowName) -> Iterator[str]:
    if not verdict.findings:
        return
    primary, *others = verdict.findings
    if primary.hint:
        yield style(f"  {_visible(primary.hint)}", fg="cyan")
    if primary.facets:
        yield style(f"  {', '.join(primary.facets)}", dim=True)
    if others:
        names = dict.fromkeys(row(each.failure_class) for each in others)
        yield style(f"  also: {', '.join(names)}", dim=True)


def _marked(text: str, finding: "Finding") -> Iterator[str]:
    """The lines of the text, the evidence coloured and, below its first line, underlined by ^.

    The end of a line as evidence is shown by one ^ behind it.
    """
    start, end = finding.evidence.start, finding.evidence.end
    at = 0
    marked = start == end
    for line in text.split("\n"):
        first, last = max(start - at, 0), min(end - at, len(line))
        before, part = line[:first], line[first:last]
        if first >= last:
            yield line
            if not marked and at + len(line) == start:
                marked = True
                yield " " * _width(line) + style("^", fg="red")
        else:
            yield f"{before}{style(part, fg='red', bold=True)}{line[last:]}"
            if not marked:
                marked = True
                yield " " * _width(before) + style("^" * _width(part), fg="red")
        at += len(line) + 1


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- start-up: few commands need it

    return cell_len(text)


def _visible(text: str) -> str:
    """The text with its control characters as pictures, one for one: no terminal obeys them."""
    return "".join(
        chr(0x2400 + ord(c))
        if c < " " and c != "\n"
        else c
        if c.isprintable() or c == "\n"
        else "\ufffd"
        for c in text
    )
