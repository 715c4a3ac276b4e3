"""`agenteval models` and `doctor`: what is configured and served, and what works here."""

from typing import TYPE_CHECKING

import typer

from agenteval import workflows
from agenteval.cli.options import AsJson, BaseUrl
from agenteval.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenteval.sandbox.probe import Probe
    from agenteval.workflows.preflight import Listed

NO_LIST = "but lists no models: a base URL usually ends in /v1"


def models(*, base_url: BaseUrl = None, as_json: AsJson = False) -> None:
    """List the configured models, and ask each one's server what it serves.

    Examples:
    - `agenteval models`

    - `agenteval models --base-url http://localhost:8000/v1`
    """
    listed, simulated = workflows.preflight.list_models(base_url)
    if as_json:
        print_json(_as_data(listed, simulated))
    else:
        _print_models(listed, simulated)


def _as_data(listed: "Sequence[Listed]", simulated: tuple[str, ...]) -> list[dict[str, object]]:
    served: list[dict[str, object]] = [
        {
            "name": one.name,
            "simulated": False,
            **one.entry.model_dump(exclude_defaults=True),
            "serves": sorted(one.answer.ids),
            "problem": one.answer.problem,
        }
        for one in listed
    ]
    return served + [{"name": name, "simulated": True} for name in simulated]


def _print_models(listed: "Sequence[Listed]", simulated: tuple[str, ...]) -> None:
    for one in listed:
        answer, entry = one.answer, one.entry
        serves = f"serves {', '.join(sorted(answer.ids))}" if answer.ids else "answers, " + NO_LIST
        typer.echo(f"{one.name}  {entry.architecture}  {entry.base_url}")
        typer.echo(f"    {answer.problem or serves}")
    for name in simulated:
        typer.echo(f"{name}  SIMULATED, started by agenteval itself")


def doctor(*, as_json: AsJson = False) -> None:
    """Try every sandbox with real commands and a battery of escapes; say what mends a failure.

    Exits 1 when none works that a run would choose by itself.

    Examples:
    - `agenteval doctor`

    - `agenteval doctor --json`
    """
    found = workflows.inspect.inspect()
    if as_json:
        print_json(found.document())
    else:
        _print_sandboxes(found.probes, found.chosen)
        told = ", ".join(f"{answer} {count}" for answer, count in found.second_reader.items())
        typer.echo(f"second reader (bashlex): {told}")
        typer.echo("  asked on purpose: a command it reads, one it cannot, and one it hangs on")
    if found.chosen is None:
        raise typer.Exit(1)


def _print_sandboxes(probes: "Sequence[Probe]", chosen: str | None) -> None:
    for seen in probes:
        typer.echo(f"sandbox {seen.backend}: {'works' if seen.works else 'fails'}")
        if not seen.works:
            typer.echo(f"  why   {seen.reason}")
            typer.echo(f"  mend  {seen.cure or 'no cure is known: please report it'}")
        for attempt, stopped_by in seen.blocked:
            typer.echo(f"  blocked  {attempt}: {stopped_by}")
    typer.echo("sandbox none: isolates nothing")
    typer.echo("container and none are used only when asked for: --sandbox NAME")
    typer.echo(f"A run uses: {chosen or 'nothing, it refuses to start'}")
