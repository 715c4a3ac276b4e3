"""A gate's verdict as JUnit XML: one test for each criterion, for a CI's list of tests.

An inconclusive criterion is an error and not a skipped test: nothing may look green that was not
proven.
"""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from agenteval.core.plain import as_name
from agenteval.report.gate_view import GateView, Line, goals_told
from agenteval.report.tables import MARK
from agenteval.stats.promotion import GateVerdict

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {GateVerdict.FAIL: "failure", GateVerdict.INCONCLUSIVE: "error"}


def dumps(view: GateView) -> str:
    name = f"agenteval gate{f' {MARK}' if view.simulated else ''}"
    verdicts = [line.verdict for line in view.lines]
    counts: dict[str, str] = {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count(GateVerdict.FAIL)),
        "errors": str(verdicts.count(GateVerdict.INCONCLUSIVE)),
    }
    suites = Element("testsuites", {"name": name, **counts})
    suite = SubElement(suites, "testsuite", {"name": name, **counts})
    properties = SubElement(suite, "properties")
    for key, value in (
        ("verdict", view.verdict),
        ("simulated", str(view.simulated).lower()),
        ("baseline", view.baseline.id),
        ("baseline model", view.baseline.model),
        ("candidate", view.candidate.id),
        ("candidate model", view.candidate.model),
        ("goals", goals_told(view)),
    ):
        SubElement(properties, "property", name=key, value=_cleaned(value))
    for line in view.lines:
        _case(suite, line, view)
    texts = map(_cleaned, (goals_told(view), *view.remarks))
    SubElement(suite, "system-out").text = "\n".join(texts)
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Element, line: Line, view: GateView) -> None:
    """Add a criterion as a test, with the same class and name for every candidate.

    So a CI can show a criterion's history.
    """
    mark = f" {MARK}" if view.simulated else ""
    case = SubElement(
        suite,
        "testcase",
        classname=f"agenteval.gate{mark}",
        name=_cleaned(line.name),
        time="0",
    )
    figure = " ".join(filter(None, (line.estimate, line.unit, line.bounds, line.n)))
    message = f"{figure}, limit {line.limit}"
    if tag := _TAGS.get(line.verdict):
        message = f"{message}; {line.needed}" if line.needed else message
        both = f"{view.candidate.model} over {view.baseline.model}"
        failed = SubElement(case, tag, type=line.verdict, message=_cleaned(message))
        failed.text = _cleaned(f"{line.name} of {both}: {message}")
    else:
        SubElement(case, "system-out").text = _cleaned(message)


def _cleaned(text: str) -> str:
    """Return one line without what XML cannot hold, and what a terminal would obey."""
    return _NOT_IN_XML.sub("\ufffd", as_name(text))
