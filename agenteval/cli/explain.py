"""`agenteval explain`: the page of a failure class, or the list of all."""

from typing import Annotated

import typer

from agenteval.errors import UsageError


def explain(
    failure_class: Annotated[
        str | None, typer.Argument(help="Its id, such as pipe-to-filter. Default: list all.")
    ] = None,
) -> None:
    """Tell what a failure class is, with denied and allowed examples.

    Examples:
    - `agenteval explain`

    - `agenteval explain pipe-to-filter`
    """
    from agenteval.core.nearest import Names  # noqa: PLC0415 -- start-up time
    from agenteval.taxonomy.catalogue import failure_classes  # noqa: PLC0415 -- as above
    from agenteval.taxonomy.page import page  # noqa: PLC0415 -- as above

    known = {each.id: each for each in failure_classes()}
    if failure_class is None:
        width = max(map(len, known))
        for each in known.values():
            typer.echo(f"{each.id:<{width}}  {each.title}")
        return
    if failure_class not in known:
        near = Names(known).nearest(failure_class)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {failure_class!r}: {cure}")
    typer.echo(page(known[failure_class]))
