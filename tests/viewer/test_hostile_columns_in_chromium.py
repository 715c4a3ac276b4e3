"""Hostile markup in every column of a store: report and viewer, opened in a real browser."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from chromium import chromium, looking
from hostile_words import AWAY, WORDS
from spoilt_store import NAMES, names_in, spoil, whole_store

from agenteval.report import html
from agenteval.trial.text import legible
from agenteval.viewer.application import write
from agenteval.workflows import views

pytestmark = pytest.mark.slow
AT_ONCE = 6  # words of markup in one column


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """Each column of the store begins with other words."""
    path = whole_store(tmp_path_factory.mktemp("store"))
    words = cycle(legible(word).replace("\0", "") for word in WORDS)
    for table, name in NAMES:
        spoil(path, table, name, "".join(next(words) for _ in range(AT_ONCE)))
    return path


def opened(pages: list[Path]) -> Iterator[str]:
    """What went wrong on these pages: what ran, asked for another address, or was complained of."""
    folder = pages[0].parent.as_uri()
    with chromium() as browser, looking(browser) as seen:
        for page in pages:
            seen.page.goto(page.as_uri())
            struck = seen.page.evaluate("window.struck")
            yield from [f"{page.name}: ran"] if struck is not None else []
        yield from seen.wrong
        yield from (url for url in seen.asked if not url.startswith(folder) or AWAY in url)


def test_every_page_of_the_viewer_shows_it_and_does_nothing(store, tmp_path) -> None:
    written = write(str(store), tmp_path / "pages")
    pages = sorted((tmp_path / "pages").glob("*.html"))
    assert (len(pages), [*opened(pages)]) == (written, [])


def test_the_report_and_the_pages_beside_it_show_it_and_do_nothing(store, tmp_path) -> None:
    named = names_in(store)
    found = views.models_of([named["{one}"], named["{two}"]], str(store), calls=True)
    html.write(views.compared(found, "full", None, across_arms=True), tmp_path / "r.html")
    pages = [tmp_path / "r.html", *tmp_path.glob("r.*/*.html")]
    assert [*opened(pages)] == []
