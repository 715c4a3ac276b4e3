"""The report and the pages beside it in a real browser: clicked through, looked at, printed."""

import pytest
from chromium import chromium, looking
from playwright.sync_api import expect

from agenteval.report import details, html
from agenteval.report.build import build_view
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Outcome
from agenteval.trial.trial import GoalCheck

pytestmark = pytest.mark.slow

GOALS = tuple(GoalCheck(f"note {at} is kept", held=False, expected=1, found=0) for at in range(15))
UPWARD = 'uv run notes.py add --text "{}" | head -5'.format("The garden gate is open. " * 20)


def _trial(number: int):
    calls = [denied(UPWARD, "pipe-to-filter", evidence="| head -5")] * 5
    lost = number % 3 > 0
    return trial(
        *calls,
        number=number,
        outcome=Outcome.CLAIMED_DONE if lost else Outcome.COMPLETED,
        goal=GOALS if lost else (),
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of two models; one has more denied calls than fit on a page beside the report."""
    many = [_trial(number) for number in range(1, 21)]
    few = [trial("uv run notes.py list", number=number) for number in range(1, 4)]
    one = run(*many, run_id="one", model=card("model-a", simulated=True))
    path = tmp_path_factory.mktemp("report") / "r.html"
    two = run(*few, run_id="two", model=card("model-b"))
    with pytest.MonkeyPatch.context() as small:  # pages that are looked at in seconds
        small.setattr(details, "INLINE", 12)
        small.setattr(details, "CALLS_BESIDE", 40)
        html.write(build_view([one, two]), path)
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_from_a_count_to_its_calls_to_the_pages_beside_to_a_turn_and_back(
    browser, report, width, theme
):
    screen = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    with looking(browser, **screen) as seen:
        page = seen.page
        page.goto(report.as_uri())
        problems, wide, places = seen.problems(), [seen.overflow()], []
        steps = [
            page.locator('td a[href="#c0-pipe-to-filter"]', has_text="100"),
            page.get_by_role("link", name="page 1", exact=True),
            page.get_by_role("link", name="2", exact=True),
            page.locator(".calls li a").first,
        ]
        for step in steps:
            step.click()
            page.wait_for_load_state()
            problems += seen.problems()
            wide.append(seen.overflow())
            places.append(page.url.rpartition("/")[2])
        turn = page.locator(":target")
        expect(turn, "what holds it is opened by the link").to_be_visible()
        assert "| head -5" in turn.inner_text()
        page.go_back()
        page.get_by_role("link", name="the report", exact=True).click()
        expect(page.locator(":target")).to_be_visible()
        inner = page.evaluate(
            "[...document.querySelectorAll('.scroll')]"
            ".filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
        )
    first, second, third, last = places
    assert first == "r.html#c0-pipe-to-filter"
    assert (second, third) == ("calls-1-pipe-to-filter-1.html", "calls-1-pipe-to-filter-2.html")
    assert last.startswith("trials-1-1.html#t0-")
    assert (problems, seen.wrong, inner) == ([], [], [])
    assert max(wide) <= 0
    assert all(one.startswith("file:") for one in seen.asked)


def test_what_is_opened_is_printed_and_nothing_else_that_is_folded(browser, report):
    with looking(browser, color_scheme="dark") as seen:
        page = seen.page
        page.goto(report.as_uri())
        page.emulate_media(media="print")
        shut = [page.locator(what).first.is_visible() for what in ("#trials", "#denied", "nav")]
        page.emulate_media(media="screen")
        page.locator(".trial > summary").nth(1).click()
        page.emulate_media(media="print")
        opened = [page.locator(".trial").nth(at).is_visible() for at in range(3)]
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shut == [False, False, False]
    assert opened == [False, True, False]
    assert paper == "rgb(255, 255, 255)"


def test_a_name_without_end_makes_no_page_wider(browser, tmp_path):
    page = tmp_path / "long.html"
    page.write_text(html.page(build_view([run(trial("ls"), model=card("x" * 90))])))
    with looking(browser, viewport={"width": 390, "height": 900}) as seen:
        seen.page.goto(page.as_uri())
        assert seen.overflow() <= 0
