"""`agenteval.gate`, `compare` and `classify`: two runs judged, runs compared, calls judged.

Each returns frozen dataclasses of plain values, and calls what the command of its name calls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from agenteval.api.runs import About, RunResult, Table, named, per_100, text_of
from agenteval.errors import UsageError
from agenteval.logs.tool_calls import bash_call, tool_calls
from agenteval.report.gate import GateView, Line
from agenteval.report.view import Errors, Pair, View
from agenteval.stats.promotion import GateVerdict, Minimum, Result
from agenteval.trial.call import ToolCall, Verdict
from agenteval.workflows import reference
from agenteval.workflows.gate import judged
from agenteval.workflows.views import compared, models_of

GateWord = Literal["PASS", "FAIL", "INCONCLUSIVE"]
_VERDICTS: dict[GateVerdict, GateWord] = {
    GateVerdict.PASS: "PASS",
    GateVerdict.FAIL: "FAIL",
    GateVerdict.INCONCLUSIVE: "INCONCLUSIVE",
}


@dataclass(frozen=True, slots=True)
class CriterionRow:
    """One line of the rules, compared with the candidate.

    `estimate`, `low`, `high` and `limit` are shares, or a ratio where the rules ask for one; None
    where nothing was counted. The estimate is made from `count` of `n` (of `unit`). `needed` says
    what would settle an inconclusive line.
    """

    name: str
    verdict: GateWord
    estimate: float | None
    low: float | None
    high: float | None
    limit: float
    count: int
    n: int
    unit: str
    needed: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate. `remarks` qualify the verdict; `rules` is the source of the rules."""

    verdict: GateWord
    simulated: bool
    baseline: str
    candidate: str
    rules: str
    criteria: Table[CriterionRow]
    remarks: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if the verdict is PASS: not enough evidence is no pass."""
        return self.verdict == "PASS"


def gate(  # noqa: PLR0913 -- as `agenteval gate` has them
    baseline: RunResult | str,
    candidate: RunResult | str,
    *,
    rules: str | Path | None = None,
    store: str | None = None,
    about: About | None = None,
    allow_simulated: bool = False,
    rescore: bool = False,
) -> GateResult:
    """Hold a candidate's run against a baseline's. Raises UsageError for what cannot be judged.

    Both are results, ids, `last`, or the file of another store. `rules` is a gate.toml; by default
    the project's, else the shipped one; `about` stands before what it declares. Simulated runs are
    refused unless they are allowed; those of an older taxonomy, unless `rescore` has them judged
    again first.
    """
    (before, after), where = named((baseline, candidate), store)
    if not isinstance(rules, str | Path | None):
        raise UsageError(f"rules={rules!r:.200}: must be a str or a Path")
    path = Path(rules) if rules is not None else None
    view = judged(
        before,
        after,
        path,
        where,
        allow_simulated=allow_simulated,
        rescored=rescore,
        about=about,
    )
    return GateResult(
        verdict=_VERDICTS[view.verdict],
        simulated=view.simulated,
        baseline=view.baseline.id,
        candidate=view.candidate.id,
        rules=view.rules,
        criteria=_rows(view),
        remarks=view.remarks,
    )


def _rows(view: GateView) -> Table[CriterionRow]:
    """The lines of the view are those of the criteria, then those of the minimums."""
    judgement = view.judgement
    of: tuple[Result | Minimum, ...] = (*judgement.criteria, *judgement.minimums)
    return Table(_row(line, one) for line, one in zip(view.lines, of, strict=True))


def _row(line: Line, result: Result | Minimum) -> CriterionRow:
    verdict = _VERDICTS[result.verdict]
    if isinstance(result, Minimum):
        observed = float(result.observed)
        figures = (float(result.required), result.observed, result.observed, result.of, line.needed)
        return CriterionRow(line.name, verdict, observed, None, None, *figures)
    low, high = result.bounds or (None, None)
    measure = result.measure
    figures_of_measure = (measure.limit, measure.count, measure.n, measure.of, line.needed)
    return CriterionRow(measure.name, verdict, result.estimate, low, high, *figures_of_measure)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Errors per 100 calls of one model, with a 95 % interval."""

    model: str
    simulated: bool
    errors: int
    calls: int
    per_100: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """`first` minus `second`, in errors per 100 calls, with a 95 % interval.

    `adjusted_p` is after Holm's correction for all pairs. `paired`: both met the same instances.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    adjusted_p: float
    paired: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sentences` is what follows from the figures; `warnings` is what stands against them."""

    models: Table[ModelRow]
    pairs: Table[PairRow]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    about: About


def compare(
    first: RunResult | str,
    second: RunResult | str,
    *more: RunResult | str,
    store: str | None = None,
    about: About | None = None,
    across_arms: bool = False,
) -> Comparison:
    """Two or more runs: results, ids, `last`, imported counts, or CSV files. Raises UsageError.

    `store` is where ids are looked up; by default the store of the results, or the usual one.
    `about` says what figures are about, by default what gate.toml declares. Runs whose models read
    unlike things are compared only `across_arms`.
    """
    names, where = named((first, second, *more), store)
    found = models_of(names, where, calls=False)
    return _comparison(compared(found, "full", about, across_arms=across_arms))


def _comparison(view: View) -> Comparison:
    return Comparison(
        models=Table(map(_model, view.models)),
        pairs=Table(map(_pair, view.pairs)),
        sentences=view.sentences,
        warnings=view.warnings,
        about=view.about.value,
    )


def _model(errors: Errors) -> ModelRow:
    return ModelRow(errors.label, errors.simulated, *per_100(errors.total))


def _pair(pair: Pair) -> PairRow:
    gap = pair.difference
    value, low, high = (100 * part for part in (gap.value, gap.low, gap.high))
    tests = gap.p, pair.adjusted, gap.paired
    return PairRow(pair.first, pair.second, value, low, high, *tests)


_WANTED = "give a command, or an object with `name` and `arguments`"
Call = str | Mapping[str, Any]  # a command, or an object as `agenteval classify --jsonl` reads it


@dataclass(frozen=True, slots=True)
class Classification:
    """The verdict on one call; `failure_class` is None where it is allowed.

    `also` are the other classes that match, `evidence` is the part of the call that shows the
    first one, and `hint` is the hint that a model would get.
    """

    call: str
    allowed: bool
    failure_class: str | None
    also: tuple[str, ...]
    evidence: str
    hint: str


@overload
def classify(  # type: ignore[overload-overlap]  # a str is a command, never many of them
    call: Call, *, allowlist: str = ...
) -> Classification: ...


@overload
def classify(call: Iterable[Call], *, allowlist: str = ...) -> Table[Classification]: ...


def classify(
    call: Call | Iterable[Call], *, allowlist: str = "demo"
) -> Classification | Table[Classification]:
    """One command or call, or many of them, which is far quicker than one at a time.

    A call is a command for bash, or an object with `command`, or with `name` and `arguments`.
    `allowlist` is a name or path, of any format that `agenteval classify` reads. Raises UsageError.
    """
    # A text is a command and a mapping a call; any other iterable holds many of these.
    is_single = isinstance(call, str | Mapping)
    if not (is_single or isinstance(call, Iterable)) or isinstance(call, bytes):
        raise UsageError(f"{call!r:.200}: no tool call; {_WANTED}")
    calls = [_read(each) for each in ([call] if is_single else call)]  # type: ignore[arg-type]
    results = reference.classify(
        calls,
        text_of("allowlist", allowlist),
        only_bash=isinstance(call, str),
    )
    table = Table(_classification(*result) for result in results if isinstance(result, tuple))
    return table[0] if is_single else table


def _read(call: Call) -> ToolCall:
    if isinstance(call, str):
        return bash_call(call)
    calls = tool_calls(dict(call)) if isinstance(call, Mapping) else None
    if calls is None or len(calls) != 1:
        raise UsageError(f"{str(call)[:200]}: not one tool call; {_WANTED}")
    return calls[0]


def _classification(call: ToolCall, verdict: Verdict) -> Classification:
    first = verdict.primary
    return Classification(
        call=call.raw if call.command is None else call.command,
        allowed=verdict.allowed,
        failure_class=first.failure_class if first else None,
        also=tuple(dict.fromkeys(each.failure_class for each in verdict.findings[1:])),
        evidence=first.evidence.text if first else "",
        hint=first.hint if first else "",
    )
