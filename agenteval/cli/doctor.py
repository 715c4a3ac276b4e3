"""`agenteval doctor`: what works on this machine, shown by trying it."""

from typing import TYPE_CHECKING

import typer

from agenteval.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenteval.sandbox.probe import Probe


def doctor(*, as_json: AsJson = False) -> None:
    """Try every sandbox with real commands and a battery of escapes; say how to mend what fails.

    Exits 1 when none works that a run would choose by itself.

    Examples:
    - `agenteval doctor`

    - `agenteval doctor --json`
    """
    import asyncio  # noqa: PLC0415 -- start-up time, as all imports below
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from agenteval.sandbox.choose import AUTOMATIC, probe_all  # noqa: PLC0415

    probes = asyncio.run(probe_all())
    second_reader = asyncio.run(_second_reader())
    working = [seen.backend for seen in probes if seen.works]
    chosen = next((name for name in AUTOMATIC if name in working), None)
    if as_json:
        report = {
            "chosen": chosen,
            "sandboxes": [asdict(seen) for seen in probes],
            "second_reader": second_reader,
        }
        typer.echo(json.dumps(report, indent=2))
    else:
        _print(probes, chosen)
        told = ", ".join(f"{answer} {count}" for answer, count in second_reader.items())
        typer.echo(f"second reader (bashlex): {told}")
        typer.echo("  asked on purpose: a command it reads, one it cannot, and one it hangs on")
    if chosen is None:
        raise typer.Exit(1)


def _print(probes: "Sequence[Probe]", chosen: str | None) -> None:
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


async def _second_reader() -> dict[str, int]:
    """How bashlex answers one command it reads, one it cannot, and one it hangs on."""
    from agenteval.core.call import BashRun  # noqa: PLC0415
    from agenteval.engine.second_reader import SecondReader  # noqa: PLC0415

    async with SecondReader() as reader:
        for text, *words in (("ls 'a b'", "ls", "a b"), ("echo { }",), ("echo a'${'b",)):
            argv = tuple(words)
            await reader.objection(BashRun(text, argv, (argv,)))
    return dict(reader.counts)
