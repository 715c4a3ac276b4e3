"""What every renderer draws, whole."""

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from agenteval.report import console, files, html
from agenteval.report import json as json_report
from agenteval.report.build import build_comparison, build_view
from agenteval.report.sentences import Side
from agenteval.testing import run


def printed(view, width):
    console_ = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.render(view, console_)
    return "".join(f"{line.rstrip()}\n" for line in console_.file.getvalue().splitlines())


@pytest.mark.parametrize("width", [120, 50])
def test_the_console_draws_the_golden_page(drawn, golden, width):
    golden(f"console-{width}.txt", printed(drawn, width))


@pytest.mark.parametrize("width", [120, 80, 50, 30])
def test_no_line_on_the_console_is_wider_than_the_console(view, width):
    assert max(map(len, printed(view, width).splitlines())) <= width


def test_a_brief_page_ends_with_what_can_be_said(drawn):
    out = Console(file=io.StringIO(), width=120, color_system=None)
    console.render(drawn, out, brief=True)
    before, comparison = out.file.getvalue().split("Tool-call errors by failure class")
    said, short = comparison.split("\nIn short  SIMULATED\n")
    assert said.rstrip().endswith("\n- Settled: S1\n- S2")
    assert short.rstrip() == f"{console.SHORT_NOTE}\n- I1\n- I2"
    assert ("Provenance" in before, "Void trials" in before) == (False, True)


def test_html_is_the_golden_page(drawn, golden):
    before, style, page = re.split("(?<=<style>)\n|\n(?=</style>)", html.page(drawn))
    assert (
        style.strip()
        == Path(html.__file__)
        .with_name("templates")
        .joinpath("report.css")
        .read_text("utf-8")
        .strip()
    )
    golden("report.html", f"{before}\n{page}")


def test_json_is_the_golden_document(drawn, golden):
    golden("report.json", json_report.dumps(drawn))


def test_markdown_of_a_comparison_is_the_golden_page(runs, view, golden, without_words):
    compared = build_comparison(list(map(Side.of_run, runs)), classes=view.rows)
    golden("report.md", files.markdown_text(without_words(compared)))


def test_a_view_of_no_runs_can_be_drawn():
    empty = build_view([])
    assert "total" in printed(empty, 80)
    assert json.loads(json_report.dumps(empty))["models"] == []
    assert ">Signature</h2>" in html.page(empty)
    assert files.markdown_text(empty).startswith("# Tool-call errors")


def test_writing_the_page_makes_its_folder(view, tmp_path):
    html.write(view, tmp_path / "reports" / "r1.html")
    assert (tmp_path / "reports" / "r1.html").read_text(encoding="utf-8") == html.page(view)


@pytest.mark.parametrize("brief", [True, False])
def test_a_run_without_trials_is_one_line(brief):
    out = Console(file=io.StringIO(), width=100, color_system=None)
    console.render(build_view([run()]), out, brief=brief)
    (line,) = out.file.getvalue().strip().splitlines()
    assert line.startswith("No trial of ")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.fetched = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "br", "link", "img"}:
            self.open.append(tag)
        self.fetched += [
            value for name, value in attrs if name in {"src", "href"} and not value.startswith("#")
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(view):
    tags = Tags()
    tags.feed(html.page(view))
    assert tags.open == []
    assert tags.fetched == []
    assert "url(" not in html.page(view)
    assert "<script" not in html.page(view)
