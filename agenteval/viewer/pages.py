"""Every page by its name: the function for its content, and its template."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from agenteval.report.html import templates_of
from agenteval.report.tables import MARK
from agenteval.viewer.addresses import Visit
from agenteval.viewer.call_pages import call_page, calls_found, reviews_page
from agenteval.viewer.run_pages import comparison, run_page, runs_page, trials_page
from agenteval.viewer.trial_pages import side_by_side, transcript

Shown = Mapping[str, Any]
FIRST = ""  # the name of the page that a visit begins with
PAGES: Mapping[str, tuple[str, Callable[[Visit], Shown]]] = {
    FIRST: ("runs.html", runs_page),
    "run": ("run.html", run_page),
    "trials": ("trials.html", trials_page),
    "calls": ("calls.html", calls_found),
    "call": ("call.html", call_page),
    "trial": ("trial.html", transcript),
    "side": ("side.html", side_by_side),
    "compare": ("compare.html", comparison),
    "reviews": ("reviews.html", reviews_page),
}

ASSETS = {  # where each stands, and its type
    "report.css": ("agenteval.report", "templates", "text/css"),
    "viewer.css": ("agenteval.viewer", "static", "text/css"),
    "viewer.js": ("agenteval.viewer", "static", "text/javascript"),
    "htmx-2.0.11.min.js": ("agenteval.viewer", "static", "text/javascript"),
    "htmx-LICENSE.txt": ("agenteval.viewer", "static", "text/plain"),
}


def rendered(name: str, visit: Visit) -> str:
    """Return a whole page. Raises UsageError if its address is invalid for this store."""
    template, shows = PAGES[name]
    return written(template, visit, name=name, **shows(visit))


def asset(name: str) -> bytes:
    package, folder, _ = ASSETS[name]
    return files(package).joinpath(folder, name).read_bytes()


def complaint(visit: Visit, said: str) -> str:
    """Return the page that reports why there is no page."""
    return written("complaint.html", visit, name="", said=said)


def written(template: str, visit: Visit, **shown: Any) -> str:
    templates = templates_of("agenteval.viewer", "agenteval.report")
    return templates.get_template(template).render(visit=visit, mark=MARK, **shown)
