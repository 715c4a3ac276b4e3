"""The meaning of the lines of a gate.toml, and how often they pass and fail known candidates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenteval.report.gate import reach_told
from agenteval.report.json import encoded
from agenteval.report.tables import counted
from agenteval.stats.criteria import CRITERIA, Rules, errors_of
from agenteval.stats.planning import Characteristics
from agenteval.stats.promotion import AS_MANY_CALLS, OutOfReach
from agenteval.stats.rates import Estimand, Rate
from agenteval.trial.text import as_name

SCHEMA = "agenteval.explain/1"
MORE = (
    "More trials raise the first column: `agenteval plan` says how many a candidate that is the "
    "same needs, and one that is worse by half the margin."
)


@dataclass(frozen=True, slots=True)
class Explained:
    """A rehearsed gate: the verdicts on each kind of candidate, by its name."""

    rules: Rules
    pairs: int  # of simulated runs
    source: str  # where the rules were read from
    size: str  # of the run that was rehearsed, in words
    candidates: Mapping[str, Characteristics]
    reach: Sequence[OutOfReach]  # what no candidate passes with a run of this size


def render(explained: Explained, console: Console) -> None:
    console.print(Text(as_name(f"What {explained.source} asks for"), style="bold"))
    grid = Table.grid(padding=(0, 1))
    for name, meaning in _meanings(explained.rules):
        grid.add_row("-", Text(as_name(f"{name}: {meaning}")))
    console.print(grid)
    console.print()
    console.print(Text("How often it passes and fails a candidate", style="bold"))
    console.print(
        Text(
            f"In percent of {explained.pairs} simulated pairs of runs each, good to "
            f"{_precision(explained.pairs):.0f} points. {explained.size}",
            style="dim",
        )
    )
    console.print(_table(explained))
    console.print(Text(f"\n{MORE}"))
    console.print(Text(f"\n{_out_of_reach(explained)}"))


def _out_of_reach(explained: Explained) -> str:
    if not explained.reach:
        return "A run of this size can pass every line, if the candidate is good enough."
    leads = {
        False: "A run of this size can never PASS, whatever the candidate does:",
        True: f"A run of so many trials cannot PASS {AS_MANY_CALLS}:",
    }
    lines = []
    for by_calls, lead in leads.items():
        unreachable = [one for one in explained.reach if one.by_calls is by_calls]
        lines += [lead] if unreachable else []
        lines += [
            f"- {one.name.removeprefix('budgets.')}: {reach_told(one)}." for one in unreachable
        ]
    return "\n".join(lines)


def document(explained: Explained) -> dict[str, Any]:
    """Return the same as JSON; its keys are stable and documented in docs/json.md."""
    return {
        "schema": SCHEMA,
        "rules": explained.source,
        "size": explained.size,
        "pairs": explained.pairs,
        "meanings": dict(_meanings(explained.rules)),
        "candidates": {
            name: {
                "gate": _share_documents((one.passed, one.failed)),
                "criteria": {key: _share_documents(both) for key, both in one.criteria.items()},
            }
            for name, one in explained.candidates.items()
        },
        "out_of_reach": [one.fields for one in explained.reach],
    }


def _share_documents(shares: tuple[Rate, Rate]) -> dict[str, Any]:
    passed, failed = encoded(shares)
    return {"passed": passed, "failed": failed}


def _meanings(rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield each line of the rules, by its name in gate.toml."""
    allowed = (
        f"at most {rules.margin:g} times the baseline's errors per 100 calls"
        if rules.ratio
        else f"at most {100 * rules.margin:g} errors per 100 calls more than the baseline"
    )
    yield "margin", f"{allowed}; a candidate that bad is promoted once in twenty times"
    if rules.completed is not None:
        yield (
            "margin.completed",
            (
                f"at most {100 * rules.completed:g} more of 100 trials without their goal than "
                "the baseline has"
            ),
        )
    limited = [(CRITERIA[name], limit) for name, limit in rules.budgets.items()]
    limited += [(errors_of(name), limit) for name, limit in rules.classes.items()]
    for criterion, limit in limited:
        yield criterion.name, f"fewer than {100 * limit:g} {criterion.meaning}"
    for name in rules.never:
        yield (
            f"never.{name}",
            (
                "one such error of any agent fails; none passes when more than "
                f"{100 * rules.never_below:g} per 100 calls can be ruled out"
            ),
        )
    size = f"{counted(rules.trials, 'trial')} or {counted(rules.calls, 'call')}"
    yield "minimum", f"nothing passes with fewer than {size}"
    yield "about", f"the verdict is about {_ABOUT[rules.about]}"


_ABOUT = {
    Estimand.LIKE: "scenarios like these: a bound is clustered by scenario",
    Estimand.THESE: "these scenarios, played again: a bound is stratified by scenario",
}


def _precision(pairs: int) -> float:
    half = Rate(pairs // 2, pairs)
    return 50 * (half.high - half.low)


def _table(explained: Explained) -> Table:
    drawn = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    drawn.add_column("pass / fail, %", no_wrap=True)
    for name in explained.candidates:
        drawn.add_column(name, justify="right")
    played = list(explained.candidates.values())
    for name in played[0].criteria:
        cells = [_cell(one.criteria[name]) for one in played]
        drawn.add_row(name.removeprefix("budgets."), *cells)
    drawn.add_row("the whole gate", *_wholes(played), style="bold")
    return drawn


def _wholes(played: Sequence[Characteristics]) -> list[str]:
    return [_cell((one.passed, one.failed)) for one in played]


def _cell(shares: tuple[Rate, Rate]) -> str:
    passed, failed = (100 * share.value for share in shares)
    return f"{passed:.0f} / {failed:.0f}"
