"""`agenteval view` in a real browser: clicked through, by keys, in light and dark, at any width."""

import zipfile
from contextlib import closing
from dataclasses import replace
from urllib.parse import quote

import pytest
from chromium import chromium, looking, serving
from hostile_words import AWAY, WORDS
from stored import play, stored
from two_runs import FIRST, SECOND

from agenteval.store.sql import SqlStore
from agenteval.testing import card, denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.text import legible, visible
from agenteval.viewer.application import write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(looked_at):
    with serving(looked_at) as served:
        yield served


@pytest.mark.parametrize(
    ("width", "theme"),
    [(1400, "light"), (1400, "dark"), (800, "dark"), (390, "light"), (390, "dark")],
)
def test_from_the_runs_to_a_class_to_a_call_to_its_transcript_and_back(
    browser, address, width, theme
) -> None:
    screen = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    with looking(browser, **screen) as seen:
        page = seen.page
        page.goto(address)
        titles, problems, wide = [], [], []
        for click in (None, "first", "pipe-to-filter", "uv run notes.py list | head -5", "call 2"):
            if click:
                page.get_by_role("link", name=click, exact=True).first.click()
                page.wait_for_load_state()
            titles.append(page.title().removesuffix(" - agenteval"))
            problems += seen.problems()
            wide.append(seen.overflow())
        for _ in range(4):
            page.go_back()
        back = page.title()
        page.goto(address.partition("?")[0] + "side?a=first&b=second&scenario=notes/read&number=1")
        problems += seen.problems()
        page.goto(address.partition("?")[0] + "compare?a=first&b=second")
        problems += seen.problems()
        wide.append(seen.overflow())
    assert titles == [
        "Runs",
        "first",
        "Pipe-to-filter calls of first",
        "notes/read #1",
        "Call 2.1 of notes/read #1",
    ]
    assert (back, problems, seen.wrong) == ("Runs - agenteval", [], [])
    assert max(wide) <= 0


def test_keys_walk_the_lines_open_one_and_find_the_search(browser, address) -> None:
    with looking(browser) as seen:
        page = seen.page
        page.goto(address)
        page.keyboard.press("?")
        assert page.get_by_role("heading", name="Keys").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("model-a")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?model=model-a*")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/run?id=first")
    assert seen.wrong == []


def test_a_review_is_written_in_the_browser_that_opened_the_address_and_in_no_other(
    browser, tmp_path
) -> None:
    with serving(stored(str(tmp_path / "runs.db"), FIRST)) as served:
        base = served.partition("/?")[0]
        with looking(browser) as seen:
            page = seen.page
            page.goto(served)
            page.goto(f"{base}/call?id=2")
            page.get_by_label("label").select_option("bare-binary")
            page.get_by_label("note").fill("not the pipe")
            page.get_by_role("button", name="keep").click()
            page.wait_for_load_state()
            page.goto(f"{base}/reviews")
            assert "0 of 1" in page.inner_text("main")
        with looking(browser) as other:
            other.page.goto(f"{base}/call?id=2")
            assert "not the pipe" in other.page.inner_text("main")
            assert other.page.get_by_role("button", name="keep").count() == 0
    assert seen.wrong == other.wrong == []


def test_a_run_under_way_renews_itself(browser, tmp_path) -> None:
    store = stored(str(tmp_path / "runs.db"), replace(FIRST, complete=False, trials_planned=9))
    with serving(store) as served, looking(browser) as seen:
        seen.page.goto(served.partition("?")[0] + "run?id=first")
        trials = seen.page.locator("dl.figures div").nth(2)
        assert trials.inner_text().endswith("3 of 9")
        with closing(SqlStore(store)) as writing:
            recorder = writing.recorder(FIRST, {"notes/read": "d", "mail/draft": "d"})
            play(recorder, replace(SECOND.trials[0], number=7, seed=3))
        seen.page.get_by_text("4 of 9", exact=False).wait_for()
    assert seen.wrong == []


def test_nothing_that_a_model_writes_is_run_or_asked_for_on_any_page(browser, tmp_path) -> None:
    hostile = [
        run(
            *(
                trial(
                    (denied(word, evidence=word), tool(word, failure_class="hallucinated-tool")),
                    tool("write", text=word),
                    says(word),
                    agents=(sub_agent("one", denied(word), reason=word),),
                    scenario=f"s/{at:02d}",
                    reason=word,
                    outcome=Outcome.CLAIMED_DONE,
                )
                for at, word in enumerate(WORDS)
            ),
            run_id=name,
            model=card(legible(WORDS[0])),
            started=f"2026-01-0{at}T00:00:00Z",
        )
        for at, name in ((1, 'a"><script>window.struck=1</script>'), (2, "b"))
    ]
    store = stored(str(tmp_path / "runs.db"), *hostile)
    with closing(SqlStore(store)) as writing:
        for at, word in enumerate(WORDS):
            writing.review(4 * at + 1, "allowed", word, "2026-01-01")
        writing.tag("b", [legible(WORDS[4]).replace("\0", "")], "<b>note", off=False)
    with serving(store) as served, looking(browser) as seen:
        base = served.partition("/?")[0]
        seen.page.goto(served)
        shown = []
        for address in _pages(base, hostile[0].id):
            seen.page.goto(address)
            assert seen.page.evaluate("window.struck") is None, address
            shown.append(seen.page.evaluate("document.body.textContent"))
    text = " ".join(" ".join(shown).split())
    hidden = [word for word in WORDS if " ".join(visible(word).split()) not in text]
    assert (hidden, seen.wrong) == ([], [NOT_HERE])
    assert [url for url in seen.asked if not url.startswith(f"{base}/") or AWAY in url] == []


# What Chromium says of the one page that is no run's: its address is hostile, and the page says so.
NOT_HERE = "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"


def _pages(base: str, run_id: str) -> list[str]:
    run_id = quote(run_id)
    trials = [f"{base}/trial?run=b&scenario=s/{at:02d}&number=1" for at in range(len(WORDS))]
    sides = [f"{base}/side?a={run_id}&b=b&scenario=s/{at:02d}&number=1" for at in (0, 3, 57)]
    return [
        f"{base}/",
        f"{base}/run?id={run_id}",
        f"{base}/trials?run={run_id}",
        f"{base}/calls?run=b",
        f"{base}/calls?run=b&by=tool",
        f"{base}/calls?text={quote(WORDS[0])}",
        f"{base}/calls?scenario={quote(WORDS[42])}",
        f"{base}/run?id={quote(WORDS[42])}",
        f"{base}/call?id=1",
        f"{base}/compare?a={run_id}&b=b",
        f"{base}/reviews",
        *trials,
        *sides,
    ]


def test_exported_pages_open_from_a_zip_without_a_server(browser, looked_at, tmp_path) -> None:
    write(looked_at, tmp_path / "pages")
    with zipfile.ZipFile(tmp_path / "pages.zip", "w") as packed:
        for file in (tmp_path / "pages").rglob("*"):
            packed.write(file, file.relative_to(tmp_path))
    with zipfile.ZipFile(tmp_path / "pages.zip") as packed:
        packed.extractall(tmp_path / "away")
    with looking(browser) as seen:
        page = seen.page
        page.goto((tmp_path / "away" / "pages" / "index.html").as_uri())
        for click in ("first", "pipe-to-filter", "uv run notes.py list | head -5"):
            page.get_by_role("link", name=click, exact=True).first.click()
            page.wait_for_load_state()
        padding = page.evaluate("getComputedStyle(document.querySelector('nav')).display")
        page.keyboard.press("?")
        assert page.get_by_role("heading", name="Keys").is_visible()
        title = page.title()
    assert (title, padding, seen.wrong) == ("notes/read #1 - agenteval", "flex", [])
    assert {url.partition(":")[0] for url in seen.asked} == {"file"}
