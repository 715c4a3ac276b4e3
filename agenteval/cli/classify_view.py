"""How `agenteval classify` shows a verdict: one line of JSON, or the command marked for people."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from agenteval.core.call import Evidence, Finding, ToolCall, Verdict

if TYPE_CHECKING:
    from rich.text import Text

RowName = Callable[[str], str]  # what a class is called in the chosen taxonomy


def as_json(call: ToolCall, verdict: Verdict, row: RowName) -> str:
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


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {"text": evidence.text, "start": evidence.start, "end": evidence.end}


def as_text(call: ToolCall, verdict: Verdict, row: RowName) -> "Text":
    """The call with the offending part underlined, why it was denied, and the cure."""
    from rich.text import Text  # noqa: PLC0415 -- 30 ms of start-up that --json does not need

    shown = Text(
        "allowed\n" if verdict.allowed else "denied  ", "green" if verdict.allowed else "red"
    )
    primary = verdict.primary
    text = _visible(call.raw if call.command is None else call.command)
    lines = list(_marked(text, primary)) if primary else text.splitlines()
    if primary:
        shown.append(f"{row(primary.failure_class)}\n", "bold")
    if call.command is None:
        shown.append(f"  {_visible(call.name)}\n")
    for line in lines:
        shown.append(f"  {line}\n" if isinstance(line, str) else Text("  ") + line + Text("\n"))
    return shown + _notes(verdict, row) if primary else shown


def _notes(verdict: Verdict, row: RowName) -> "Text":
    from rich.text import Text  # noqa: PLC0415 -- as above

    primary, *others = verdict.findings
    notes = Text(f"  {_visible(primary.hint)}\n" if primary.hint else "", "cyan")
    if primary.facets:
        notes.append(f"  {', '.join(primary.facets)}\n", "dim")
    if others:
        names = dict.fromkeys(row(each.failure_class) for each in others)
        notes.append(f"  also: {', '.join(names)}\n", "dim")
    return notes


def _marked(text: str, finding: Finding) -> Iterator["Text"]:
    """The lines of the text, the evidence coloured and, below its first line, underlined by ^."""
    from rich.cells import cell_len  # noqa: PLC0415 -- as above
    from rich.text import Text  # noqa: PLC0415

    start, end = finding.evidence.start, finding.evidence.end
    at = 0
    marked = start == end
    for line in text.split("\n"):
        shown = Text(line)
        first, last = max(start - at, 0), min(end - at, len(line))
        if first < last:
            shown.stylize("bold red", first, last)
        yield shown
        if first < last and not marked:
            marked = True
            yield Text(" " * cell_len(line[:first]) + "^" * cell_len(line[first:last]), "red")
        at += len(line) + 1


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
