"""A gate's verdict as Markdown, for a pull request or a job's summary."""

from collections.abc import Iterator

from agenteval.report.gate.view import GateView, goals_told
from agenteval.report.markdown import escaped
from agenteval.report.tables import MARK

_HEADS = ("criterion", "estimate", "bounds", "limit", "n", "verdict", "still needed")


def dumps(view: GateView) -> str:
    return "\n".join(_lines(view)) + "\n"


def _lines(view: GateView) -> Iterator[str]:
    yield f"# {view.verdict}{f' ({MARK})' if view.simulated else ''}"
    yield ""
    yield f"**{escaped(goals_told(view))}**"
    yield ""
    yield (
        f"Candidate {escaped(view.candidate.model)} (run {escaped(view.candidate.id)}) over "
        f"baseline {escaped(view.baseline.model)} (run {escaped(view.baseline.id)}), one-sided "
        f"{100 * (1 - view.judgement.level):.4g} % bounds, rules {escaped(view.rules)}."
    )
    yield ""
    yield _row(*_HEADS)
    yield _row("---", "---:", "---:", "---", "---:", "---", "---")
    for line in view.lines:
        cells = (line.name, f"{line.estimate} {line.unit}", line.bounds, line.limit, line.n)
        yield _row(*map(escaped, cells), f"**{line.verdict}**", line.needed)
    yield ""
    yield from (f"- {escaped(remark)}" for remark in view.remarks)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
