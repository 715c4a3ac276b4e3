"""`agenteval view`: the store as web pages, served to this machine or written as files."""

from pathlib import Path
from typing import Annotated

import typer

from agenteval import viewer
from agenteval.cli import options as o
from agenteval.store.location import Location

Host = Annotated[str, typer.Option(help="Address to listen at; any but loopback lets others read.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")]
Export = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the pages to this new folder, and end.")
]


def view(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    store: o.Store = o.DEFAULT_STORE,
    export: Export = None,
) -> None:
    """Look at runs, calls and transcripts in a browser.

    The address that is printed has a token: who opens it may write notes and labels, all others
    read. Ctrl-C ends it.

    Examples:
    - `agenteval view`

    - `agenteval view --port 0 --store baseline.db`

    - `agenteval view --export pages` writes pages that open without a server
    """
    Location(store).check_there()
    if export is not None:
        pages = viewer.static_pages.write(store, export)
        typer.echo(f"wrote {pages} pages: open {export / 'index.html'}")
        return
    viewer.application.serve(store, host, port, lambda address: typer.echo(f"Open {address}"))
