"""Each form of a report takes only what it can carry: 10,000 hostile names, and who reads each."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice
from xml.parsers import expat

import pytest
from hostile_names import NAME, hostile_names, moves, obeyed
from markdown_it import MarkdownIt

from agenteval.cli.output import _LogGuard
from agenteval.report import console, files, html
from agenteval.report.gate import GateView, Line, gate_view
from agenteval.report.tables import Cell, Table, head, row
from agenteval.stats.criteria import Rules
from agenteval.stats.incidence import Point
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.stats.rates import Rate
from agenteval.testing import card, run, trial
from agenteval.trial.summary import RunSummary, summarize
from agenteval.trial.text import as_name, visible
from agenteval.workflows.runs import Series, Trend, openmetrics

SOME = [300, pytest.param(10_000, marks=pytest.mark.slow)]
AT_ONCE = 100


def batches(count):
    names = hostile_names(count)
    while batch := [*islice(names, AT_ONCE)]:
        yield batch


def table(names) -> Table:
    rows = tuple(row(name, [Cell(name), Cell("-0.5")]) for name in names)
    return Table(names[0], names[1], (head(names[2]), head(names[3])), rows, names[4])


@pytest.mark.parametrize("count", SOME)
def test_no_runner_obeys_a_line_of_a_table_and_nothing_moves(count) -> None:
    for names in batches(count):
        printed = io.StringIO()
        terminal = console.Terminal(file=_LogGuard(printed), width=60)
        console.print_table(terminal, table(names))
        console.print_lines(terminal, names)
        assert (obeyed(printed.getvalue()), moves(printed.getvalue())) == ([], [])


@pytest.mark.parametrize("count", SOME)
def test_no_runner_obeys_what_is_written_in_pieces(count) -> None:
    pieces = [*hostile_names(count)]
    for size in (1, 2, 3):
        printed = io.StringIO()
        guard = _LogGuard(printed)
        text = "".join(pieces[: count // 3])
        for at in range(0, len(text), size):
            guard.write(text[at : at + size])
        assert obeyed(printed.getvalue()) == []


def test_a_number_stays_a_number_in_csv_and_a_formula_is_a_text() -> None:
    cells = {
        "-0.5": "-0.5", "+3": "+3", "-1e-5": "-1e-5", "-12.5%": "-12.5%", "-.5": "-.5", "7": "7",
        "=1+1": "'=1+1", "+1+1": "'+1+1", "-1+1": "'-1+1", "@SUM(A1)": "'@SUM(A1)",
        "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1", " =1": "' =1", "\ufeff=1": "'\ufeff=1",
        "\uff1d1": "'\uff1d1", "\uff0b1": "'\uff0b1", "\uff0d1": "'\uff0d1", "\uff20a": "'\uff20a",
        "-\u0661": "'-\u0661", "a=1": "a=1", "a\r=1": "a\r=1",
    }  # fmt: skip
    text = files._csv_text([{"cell": cell} for cell in cells])
    assert text.splitlines()[0] == "cell"
    read = [cell for (cell,) in islice(csv.reader(io.StringIO(text, newline="")), 1, None)]
    assert dict(zip(cells, read, strict=True)) == cells


_COMPUTED = re.compile(r"[\s\x00-\x1f\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


@pytest.mark.parametrize("count", SOME)
def test_a_cell_of_a_csv_file_is_one_cell_and_no_formula(count) -> None:
    names = [*hostile_names(count)]
    text = files._csv_text([{"name": name, "n": -0.5, "again": name} for name in names])
    _, *rows = csv.reader(io.StringIO(text, newline=""))
    shown = [first.removeprefix("'") for first, _, _ in rows]
    assert shown == [visible_half(name).removeprefix("'") for name in names]
    assert {tuple(row[1:2]) for row in rows} == {("-0.5",)}
    number = re.compile(r"[+-]?[\d.]+")
    cells = [cell for one in rows for cell in (one[0], one[2]) if _COMPUTED.match(cell)]
    assert [cell for cell in cells if not number.fullmatch(cell)] == []


def visible_half(name: str) -> str:
    """A name as UTF-8 can hold it."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def macros():
    template = files._text_templates().get_template("table.md")
    return template.make_module({"mark": "SIMULATED"})


@pytest.mark.parametrize("count", SOME)
def test_markdown_of_names_is_one_table_whose_cells_are_text(count) -> None:
    for names in batches(count):
        text = macros().grid(table(names))
        tokens = MARKDOWN.parse(text)
        cells = [one for one in tokens if one.type in {"th_open", "td_open"}]
        assert (len(cells), active(text)) == (3 * (len(names) + 1), [])


@pytest.mark.parametrize("count", SOME)
def test_markdown_of_names_is_one_list_whose_lines_are_text(count) -> None:
    for names in batches(count):
        text = macros().lines(names)
        items = [one for one in MARKDOWN.parse(text) if one.type == "list_item_open"]
        assert (len(items), active(text)) == (len(names), [])


_TEXT = {"text", "strong_open", "strong_close", "text_special", "softbreak"}
_BLOCKS = {"bullet_list", "list_item", "paragraph", "table", "thead", "tbody", "tr", "th", "td"}
# What GitHub makes of a text beside Markdown: people who are told, addresses that are links.
_BY_ITSELF = re.compile(r"(?<![a-zA-Z0-9_])@[a-zA-Z0-9]|\w://|\bwww\.", re.IGNORECASE)


def active(text: str) -> list[str]:
    """What is drawn, loaded or linked. A comment of ours keeps an `@` from telling somebody."""
    tokens = MARKDOWN.parse(text)
    blocks = [one.type for one in tokens if one.type.rpartition("_")[0] not in _BLOCKS]
    inner = [child for one in tokens for child in one.children or ()]
    drawn = [one.type for one in inner if one.type not in _TEXT and one.content != "<!-- -->"]
    return [one for one in blocks if one != "inline"] + drawn + _BY_ITSELF.findall(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](http://x)", "[a]\\(http\\://x)"),
        ("see www.x.org", "see www\\.x.org"),
        ("@all a@b.org pass@3", "@<!-- -->all a@<!-- -->b.org pass@3"),
        ("&lt;b&gt; a & b", "\\&lt;b\\&gt; a & b"),
        ("read_file _x_ __y__", "read_file \\_x\\_ \\_\\_y\\_\\_"),
        ("$a$ [7.8, 18.0]", "\\$a\\$ [7.8, 18.0]"),
        ("a\n# b", "a\u240a# b"),
    ],
)
def test_what_markdown_would_act_on_is_escaped_and_nothing_else(text, shown) -> None:
    assert files.escaped(text) == shown


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.texts += [value for _, value in attrs]

    def handle_data(self, data) -> None:
        self.texts.append(data)

    def handle_comment(self, data) -> None:
        self.tags.append(f"<!--{data}")


@pytest.mark.parametrize("count", SOME)
def test_a_page_shows_a_name_as_text_and_attribute_and_makes_no_tag_of_it(count) -> None:
    template = html.templates_of("agenteval.report").from_string(
        '<p title="{{ name }}">{{ name }}</p>'
    )
    for name in hostile_names(count):
        page = _Tags()
        page.feed(template.render(name=name))
        page.close()
        shown = ["".join(page.texts[1:]), *page.texts[:1]]
        assert (page.tags, shown) == (["p"], [visible(name)] * 2)


def gate_of(names) -> GateView:
    """A real verdict, in which all that is a text is one of the names."""
    sides = [
        RunSummary.of(run(model=card(names[at]), run_id=names[at + 1]), (summarize(trial("ls")),))
        for at in (0, 2)
    ]
    view = gate_view(judge_gate(*sides, Rules(0.03)), *sides, rules=names[4], remarks=tuple(names))
    lines = tuple(
        Line(name, name, name, name, name, name, verdict, name)
        for name in names
        for verdict in GateVerdict
    )
    return replace(view, lines=lines)


def elements(document: str) -> list[tuple[str, dict[str, str]]]:
    """Each element with its attributes, by a parser that takes no other XML."""
    read = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, found: read.append((name, found))
    parser.Parse(document.encode(), True)  # noqa: FBT003 -- that it is all there is
    return read


@pytest.mark.parametrize("count", SOME)
def test_junit_of_any_names_is_read_by_a_strict_parser(count) -> None:
    for names in batches(count):
        read = elements(files.junit_text(gate_of(names)))
        cases = [found["name"] for name, found in read if name == "testcase"]
        assert cases == [as_name(name) for name in names for _ in GateVerdict]


def test_a_summary_of_a_gate_is_one_table_and_a_list() -> None:
    names = [NAME, "a|b", "]]>", "<img src=x>", "- x", "# y"]
    tokens = MARKDOWN.parse(files.gate_dumps(gate_of(names)))
    rows = [one for one in tokens if one.type == "tr_open"]
    assert (len(rows), [one.tag for one in tokens if one.type == "heading_open"]) == (19, ["h1"])


_LABEL = r'[a-z]+="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"agenteval_[a-z0-9_]+\{{{_LABEL}(?:,{_LABEL})*\}} [-0-9.e+]+")
_COMMENT = re.compile(r"# (?:TYPE|HELP) agenteval_[a-z0-9_]+ .*|# EOF")


@pytest.mark.parametrize("by", ["model", "version"])
@pytest.mark.parametrize("count", SOME)
def test_openmetrics_of_any_names_keeps_to_its_grammar(count, by) -> None:
    """As the specification has it: a line feed ends a line, and no series stands there twice."""
    for names in batches(count):
        points = [Point(name, 1, Rate(1, 10)) for name in names[: 1 if by == "model" else 5]]
        text = openmetrics(Trend(by, {name: Series(points, ()) for name in names}))
        *lines, end = text.split("\n")
        samples = [line for line in lines if not _COMMENT.fullmatch(line)]
        assert (lines[-1], end, moves(text), obeyed(text)) == ("# EOF", "", [], [])
        assert [line for line in samples if not _SAMPLE.fullmatch(line)] == []
        assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)


def test_a_store_of_the_same_name_twice_is_two_series() -> None:
    series = {name: Series([Point("w", 1, Rate(1, 9))], ()) for name in ("a\n", "a\u240a")}
    found = re.findall('calls{model="(.*?)"', openmetrics(Trend("model", series)))
    assert found == ["a\u240a", "a\u240a (2)"] * 2
