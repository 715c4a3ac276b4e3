"""`agenteval whatif` and `suggest`: stored runs under other rules, or with another prompt."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenteval import workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.cli.allowlist import in_one_line
from agenteval.core.plain import as_file_part, shortened
from agenteval.core.policy.relaxation import NOTHING, Relaxation
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.workflows.suggest import Suggested
    from agenteval.workflows.whatif import Relaxed, Trials, WhatIf


def whatif(
    runs: Annotated[list[str], typer.Argument(help="Run ids, or `last`.")],
    *,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="The smallest set of rules with so many errors per 100."),
    ] = None,
    allowlist: Annotated[
        str | None, typer.Option("--allowlist", "-a", help="Begin at another allow list.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Say which rules would remove most errors of stored runs, and what they would let run.

    No model is asked. What a model would have done after a call that it was then allowed nobody
    knows: the second figure counts of each trial only the first call that would change.

    Exit code: 0; 1 where no set of rules has so few errors as --budget asks.

    Examples:
    - `agenteval whatif last`

    - `agenteval whatif last --budget 5`
    """
    whatifs = workflows.whatif.whatif(output.chosen(runs, store), store, allowlist=allowlist)
    now = whatifs.relaxed(NOTHING)
    smallest, is_least = whatifs.smallest_set(budget) if budget is not None else (None, True)
    relaxations = whatifs.best() if budget is None else [smallest] if smallest else []
    with output.reader_may_go():
        if as_json:
            output.print_json({"now": _document(now),
                               "relaxed": [_document(one) for one in relaxations],
                               "is_smallest": is_least})  # fmt: skip
        else:
            for line in _relaxations(whatifs, now, relaxations, budget, is_least=is_least):
                output.say(line)
    if budget is not None and smallest is None:
        raise typer.Exit(1)


def _relaxations(
    whatifs: "WhatIf",
    now: "Relaxed",
    relaxations: "Sequence[Relaxed]",
    budget: float | None,
    *,
    is_least: bool,
) -> Iterator[str]:
    simulated = " SIMULATED" if any(run.simulated for run in whatifs.runs) else ""
    yield f"now{simulated}: {now.rate.per_100()} errors per 100 calls"
    for one in relaxations:
        yield from _relaxed(one, now, whatifs.runs)
    if budget is not None and not relaxations:
        yield f"no set of rules has {budget:g} errors per 100 or fewer"
    elif not is_least:
        yield "a smaller set may do: there are too many to try all of them"


def _relaxed(relaxed: "Relaxed", now: "Relaxed", runs: "Sequence[Trials]") -> Iterator[str]:
    more = relaxed.more
    rules = more.description if more.size else "no rule more"
    yield f"{rules}: {now.rate.per_100()} -> {relaxed.rate.per_100()}"
    if len(relaxed.first) < len(relaxed.calls):
        first = f"{len(relaxed.first)} of {len(relaxed.calls)} changes are the first of their trial"
        yield f"    {first}; with these alone {relaxed.cautious.per_100()}"
    if len(runs) > 1:
        flips = [f"{after} then makes fewer than {before}" for before, after in relaxed.flips]
        yield f"    {'; '.join(flips) or 'the order of the models stays'}"
        for run, was, then in zip(runs, now.rates(), relaxed.rates(), strict=True) if flips else ():
            yield f"        {run.model}: {was.per_100()} -> {then.per_100()}"
    for command, count, harms in relaxed.let_through[:_SHOWN]:
        facets = f" ({', '.join(harms)})" if harms else ""
        yield f"    lets through{facets} {_times(count)}: {_brief(command)}"


def _brief(written: str) -> str:
    """Return a model's text on one line that a terminal has space for."""
    return in_one_line(shortened(written, _WIDE))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


_SHOWN, _WIDE = 3, 100  # commands of each set of rules, and characters of each


def _document(relaxed: "Relaxed") -> dict[str, Any]:
    def rate(measured: Any) -> dict[str, Any]:
        return {"per_100": 100 * measured.value, "n": measured.n, "low": 100 * measured.low,
                "high": 100 * measured.high}  # fmt: skip

    models = zip(relaxed.runs, relaxed.rates(), relaxed.rates(relaxed.first), strict=True)
    return {
        "allow": sorted(f"{program} *" for program in relaxed.more.programs),
        "constructs": sorted(relaxed.more.constructs),
        "rate": rate(relaxed.rate),
        "first_changes_only": rate(relaxed.cautious),
        "models": [
            {"run": run.run, "model": run.model, "simulated": run.simulated, "rate": rate(all_of),
             "first_changes_only": rate(first)}
            for run, all_of, first in models
        ],
        "flips": [list(pair) for pair in relaxed.flips],
        "lets_through": [
            {"command": command, "count": count, "facets": list(harms)}
            for command, count, harms in relaxed.let_through
        ],
    }  # fmt: skip


Play = Annotated[
    Literal["prompt", "rules"] | None,
    typer.Option("--try", help="Play the first run again with the sentences, or the rules."),
]
PromptFile = Annotated[
    Path | None, typer.Option(help="Write the prompt's rules with these sentences there.")
]
Beside = Annotated[
    str | None, typer.Option("--allowlist", "-a", help="Look for rules beside this list's.")
]


def suggest(
    runs: Annotated[list[str], typer.Argument(help="Run ids, or `last`.")],
    *,
    play: Play = None,
    prompt: PromptFile = None,
    allowlist: Beside = None,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Say what the denied calls of runs ask for: options, rules, sentences of a prompt.

    What several models guess independently may deserve to exist. Rules are those of `whatif`, which
    says what each would let run. With --try the first run's scenarios are played once more, from
    the same seeds, by the same model, with the sentences in its prompt or under the first of the
    rules, and both runs are compared trial by trial.

    Examples:
    - `agenteval suggest last`

    - `agenteval suggest last --try prompt`

    - `agenteval suggest last --try rules`
    """
    names = output.chosen(runs, store)
    suggested = workflows.suggest.suggest(names, store)
    best, why = _rules(names, store, allowlist)
    if why and (allowlist or play == "rules"):
        raise UsageError(why)
    for line in _suggested(suggested, best, why):
        output.say(line)
    more = next((one.more for one in best), NOTHING) if play == "rules" else NOTHING
    if play == "rules" and not more.size:
        raise UsageError(f"--try rules: no rule would allow a denied call of {' '.join(names)}")
    if play == "prompt" or prompt:
        prompt = prompt or Path("prompts", f"{as_file_part(names[0])}-suggested.md")
        workflows.suggest.write_prompt(names[0], store, suggested.sentences[:_LINES], prompt)
        output.say(f"wrote {prompt}")
    if play is not None:
        _tried(names[0], store, prompt if play == "prompt" else None, more)


def _rules(
    names: "Sequence[str]", store: str, allowlist: str | None
) -> "tuple[Sequence[Relaxed], str]":
    """The best rules more, or why none can be looked for: of a log the list is often not ours."""
    try:
        return workflows.whatif.whatif(names, store, allowlist=allowlist).best(), ""
    except UsageError as error:
        return (), str(error)


def _tried(run: str, store: str, prompt: Path | None, more: Relaxation) -> None:
    made = workflows.suggest.tried(run, store, prompt=prompt, more=more)
    output.say(f"played {made} {'with this prompt' if prompt else f'to {more.description}'}")
    found = workflows.views.models_of([run, made], store, calls=False)
    view = workflows.views.compared(found, "full", across_arms=True)
    output.show_view(view, as_json=False)


def _suggested(suggested: "Suggested", best: "Sequence[Relaxed]", why: str) -> Iterator[str]:
    yield "options and names that do not exist:"
    for invention in suggested.inventions[:_LINES]:
        by = f"{len(invention.models)} {'model' if len(invention.models) == 1 else 'models'}"
        where = _brief(invention.where) or "a tool"
        yield f"  {_times(invention.count)}, {by}: {_brief(invention.part)}  in {where}"
    yield f"rules: none looked for. {why}" if why else "rules:"
    for one in best[:_LINES]:
        yield f"  {_times(len(one.calls))}: {'; '.join(one.more.rules.splitlines())}"
    yield "sentences of a prompt:"
    for line in suggested.sentences[:_LINES]:
        said = f", {line.already_told} of them although it was said" if line.already_told else ""
        text = line.text.replace("{{ bash }}", "bash")
        yield f"  {_times(line.denied)}{said}: {text}"
    if suggested.without:
        yield f"no sentence for {suggested.without} denied calls"


_LINES = 8  # of each kind
