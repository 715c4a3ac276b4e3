"""A gate's verdict on a terminal: the criteria, what to know beside them, the verdict last."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenteval.report.gate.view import UNITS, GateView, Line, goals_told
from agenteval.report.tables import MARK
from agenteval.stats.gate import GateVerdict

STYLES = {
    GateVerdict.PASS: "bold green",
    GateVerdict.FAIL: "bold red",
    GateVerdict.INCONCLUSIVE: "bold yellow",
}


def render(view: GateView, console: Console) -> None:
    console.print(Text(f"{view.candidate.model} over {view.baseline.model}", style="bold"))
    console.print(Text(goals_told(view)))
    level = f"{100 * (1 - view.judgement.level):.4g} %"
    console.print(Text(f"One-sided {level} bounds. {UNITS} Rules: {view.rules}.", style="dim"))
    console.print(_table(view))
    for line in view.lines:
        if line.needed:
            console.print(Text(f"- {line.name}: {line.needed}."))
    for remark in view.remarks:
        style = "bold yellow" if remark.startswith(MARK) else ""
        console.print(Text(f"- {remark}", style=style))
    console.print()
    verdict = Text(view.verdict, style=STYLES[view.verdict])
    if view.simulated:
        verdict.append(f"  {MARK}", style="bold yellow")
    console.print(verdict)


def _table(view: GateView) -> Table:
    drawn = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
        header_style="bold",
    )
    for head in ("criterion", "estimate", "bounds", "limit", "n", "verdict"):
        right = head in {"estimate", "bounds", "n"}
        drawn.add_column(head, justify="right" if right else "left", no_wrap=True)
    for line in view.lines:
        drawn.add_row(*map(Text, _cells(line)), Text(line.verdict, style=STYLES[line.verdict]))
    return drawn


def _cells(line: Line) -> tuple[str, ...]:
    estimate = f"{line.estimate} times" if line.unit == "times" else line.estimate
    return line.name, estimate, line.bounds, line.limit, line.n
