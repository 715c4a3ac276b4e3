"""Where named things are found: the user's project first, then what agenteval ships."""

from pathlib import Path

PROJECT_FILE = "agenteval.toml"


def shipped() -> Path:
    """The folder with the shipped scenarios/, allowlists/, fixtures/ and agenteval.toml.

    `agenteval/shipped` of an installed wheel; in a checkout that holds links, and this is where
    they lead: the checkout itself.
    """
    return (Path(__file__).parent.parent / "shipped" / PROJECT_FILE).resolve().parent


def roots(start: Path | None = None) -> tuple[Path, ...]:
    """The folders to look in: first the project around `start` (default: here), then the shipped.

    The project is the nearest folder upwards that holds an agenteval.toml, else `start` itself.
    """
    here = (start or Path.cwd()).resolve()
    project = next(
        (folder for folder in (here, *here.parents) if (folder / PROJECT_FILE).is_file()), here
    )
    return tuple(dict.fromkeys((project, shipped())))
