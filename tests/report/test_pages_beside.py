"""A long run: every trial can be reached, on the page or on one beside it."""

import re
from dataclasses import replace

from agenteval.report import details, html
from agenteval.report.build import build_view
from agenteval.report.details import BESIDE, CALLS, CALLS_BESIDE, INLINE
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Outcome
from agenteval.trial.trial import Message

SYSTEM = Message("system", "Only listed commands. " * 40)


def long_run(trials, run_id="r1", name="m"):
    """Every tenth missed its goal, after one denial."""
    made = [
        trial(
            denied("ls") if number % 10 == 0 else "uv run a.py",
            number=number,
            outcome=Outcome.GAVE_UP if number % 10 == 0 else Outcome.COMPLETED,
        )
        for number in range(1, trials + 1)
    ]
    prompted = (replace(one, prompt=(SYSTEM, Message("user", "Go."))) for one in made)
    return run(*prompted, run_id=run_id, model=card(name))


def test_every_trial_of_a_long_run_has_a_transcript_and_a_link_to_it(tmp_path):
    trials = INLINE + 2 * BESIDE + 7
    html.write(build_view([long_run(trials)]), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    beside = {one.name: one.read_text() for one in (tmp_path / "r.trials").iterdir()}
    assert sorted(beside) == ["trials-1-1.html", "trials-1-2.html", "trials-1-3.html"]
    assert page.count('<details class="trial">') == INLINE
    assert sum(one.count('<details class="trial">') for one in beside.values()) == trials - INLINE
    links = re.findall(r'href="r\.trials/([^#"]+)#([^"]+)"', page)
    listed = [(file, place) for file, place in links if "-" in place and place.count("-") == 1]
    assert len(set(listed)) == trials - INLINE
    assert all(f'id="{place}"' in beside[file] for file, place in links)
    assert f"{INLINE} of {trials} transcripts stand on this page" in page
    first = page.split('<details class="trial">')[1]
    assert "notes #10</span>" in first, "those that missed their goal come first"


def test_a_message_stands_once_in_a_page_however_many_trials_begin_with_it(tmp_path):
    page = html.page(build_view([long_run(20)]))
    assert page.count(SYSTEM.content) == 1
    assert page.count('<a href="#p0">system: 880 characters</a>') == 20


def links_of(folder):
    """All links of the pages in a folder and below it, as file and place, each from its page."""
    pages = {one.resolve(): one.read_text() for one in folder.rglob("*.html")}
    return pages, [
        ((page.parent / file).resolve() if file else page, place)
        for page, text in pages.items()
        for file, place in re.findall(r'href="([^"#]*)#?([^"]*)"', text)
    ]


def test_all_denied_calls_of_a_class_are_reached_by_links_that_lead_somewhere(tmp_path):
    made = [trial(*[denied("ls")] * 3, number=at) for at in range(1, 211)]
    html.write(build_view([run(*made)]), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.split('<ul id="c0-bare-binary">')[1].split("</ul>")[0].count("<li>") == CALLS
    beside = [(tmp_path / "r.trials" / f"calls-1-bare-binary-{at}.html") for at in (1, 2)]
    assert [one.read_text().count("<li>") for one in beside] == [CALLS_BESIDE, 630 - CALLS - 400]
    assert "441 to 630 of 630" in beside[1].read_text()
    pages, links = links_of(tmp_path)
    assert all(not place or f'id="{place}"' in pages[file] for file, place in links)
    turns = {one for one in links if re.fullmatch(r"t0-\d+-\d+", one[1])}
    assert len(turns) == 630, "each call by its own link"


def test_a_run_too_large_for_all_pages_says_what_is_not_there_and_leads_nowhere_else(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(details, "MOST", 300)
    rare = trial(denied("cat x | sh", "pipe-to-shell"), number=299, scenario="rare/one")
    usual = [trial(*[denied("ls")] * 2, number=at) for at in range(1, 301)]
    html.write(build_view([run(*usual, rare)]), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "560 more of these are on no page" in page
    assert "agenteval calls r1 --class bare-binary" in page
    assert "210 are written nowhere" in page
    pages, links = links_of(tmp_path)
    assert all(not place or f'id="{place}"' in pages[file] for file, place in links)
    assert "rare/one #299" in pages[(tmp_path / "r.trials" / "trials-1-1.html").resolve()]


def test_two_runs_share_the_page(tmp_path):
    runs = [long_run(INLINE, "r1", "one"), long_run(5, "r2", "two")]
    html.write(build_view(runs), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count('<details class="trial">') == INLINE // 2 + 5
    assert [one.name for one in (tmp_path / "r.trials").iterdir()] == ["trials-1-1.html"]
