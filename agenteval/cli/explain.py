"""`agenteval explain`: the page of a failure class, or the list of all."""

from typing import Annotated

import typer

from agenteval.errors import UsageError


def explain(
    failure_class: Annotated[
        str | None, typer.Argument(help="Its id, such as pipe-to-filter. Default: list all.")
    ] = None,
) -> None:
    """Tell what a failure class is, with denied and allowed examples, or a kind of garble.

    Examples:
    - `agenteval explain`

    - `agenteval explain pipe-to-filter`
    """
    from agenteval.core.nearest import Names  # noqa: PLC0415 -- start-up time
    from agenteval.taxonomy.catalogue import failure_classes  # noqa: PLC0415 -- as above
    from agenteval.taxonomy.garbles import KINDS  # noqa: PLC0415 -- as above
    from agenteval.taxonomy.page import garble_page, page  # noqa: PLC0415 -- as above

    classes = {each.id: each for each in failure_classes()}
    garbles = {each.id: each for each in KINDS}
    known = classes | garbles
    if failure_class is None:
        width = max(map(len, known))
        for each in known.values():
            typer.echo(f"{each.id:<{width}}  {each.title}")
        return
    if failure_class not in known:
        near = Names(known).nearest(failure_class)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {failure_class!r}: {cure}")
    if failure_class in classes:
        typer.echo(page(classes[failure_class]))
    else:
        typer.echo(garble_page(garbles[failure_class]))
