"""Words that would hide, move or fill the page, in every place where a model's words stand."""

import pytest

from agenteval.errors import Cause
from agenteval.report import html
from agenteval.report.build import build_view
from agenteval.report.details import CALLS
from agenteval.report.tables import void_lines
from agenteval.testing import denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome

HIDING = "a\0b\x1b[31mc\u202egpj.exe\u200b\x7f\x9b"
SEEN = "a\u2400b\u241b[31mc⟨U+202E⟩gpj.exe⟨U+200B⟩\u2421⟨U+009B⟩"


def page(*trials) -> str:
    return html.page(build_view([run(*trials)]))


PLACES = {
    "a command": trial(denied(HIDING)),
    "the evidence": trial(denied(f"ls {HIDING}", evidence=HIDING)),
    "the name of a tool": trial(tool(HIDING, failure_class="hallucinated-tool")),
    "what it said": trial(says(HIDING)),
    "the reason of an end": trial(outcome=Outcome.LOOPED, reason=HIDING),
    "the reason of a void": trial(outcome=Outcome.VOID, cause=Cause.TIMEOUT, reason=HIDING),
    "the reason of a sub-agent": trial(agents=(sub_agent("one", reason=HIDING),)),
}


@pytest.mark.parametrize("shown", PLACES.values(), ids=PLACES)
def test_what_hides_is_a_sign_wherever_it_stands(shown) -> None:
    made = page(shown)
    hiding = [hex(ord(one)) for one in made if not one.isprintable() and one not in "\n\t"]
    assert (SEEN in made, hiding) == (True, [])


MEGABYTE = "x" * (1 << 20)
LONG = {
    "a command": trial(denied(f"ls {MEGABYTE}")),
    "the evidence": trial(denied(f"ls {MEGABYTE} -z", evidence=MEGABYTE)),
    "before the evidence": trial(denied(f"{MEGABYTE} | head", evidence="|")),
    "behind the evidence": trial(denied(f"ls | {MEGABYTE}", evidence="|")),
    "the name of a tool": trial(tool(MEGABYTE, failure_class="hallucinated-tool")),
    "what it said": trial(says(MEGABYTE)),
    "the reason of an end": trial(outcome=Outcome.LOOPED, reason=f"it wrote\n{MEGABYTE}"),
}


@pytest.mark.parametrize("shown", LONG.values(), ids=LONG)
def test_a_megabyte_is_cut_and_the_page_says_how_much_is_left_out(shown) -> None:
    made = page(shown)
    assert ("more characters)" in made, len(made) < len(page(trial("ls"))) + 30_000) == (True, True)


def test_what_is_nearest_to_the_evidence_is_kept() -> None:
    made = page(trial(denied(f"{'y' * 9000}here | head", evidence="|")))
    assert "y" * 100 + "here <mark>|</mark> head" in made


def test_a_traceback_stands_in_the_trial_and_not_in_a_line() -> None:
    reason = "KeyError: 'x'\nTraceback (most recent call last):\n  File one"
    broken = trial(outcome=Outcome.VOID, cause=Cause.AGENTEVAL, reason=reason)
    view = build_view([run(trial("ls"), broken)])
    made = html.page(view)
    assert (void_lines(view), made.count("Traceback (most recent call last)")) == (
        ["test-model: notes #1: agenteval: KeyError: 'x'"],
        1,
    )


def test_the_page_may_fetch_and_run_nothing() -> None:
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page(trial("ls"))


@pytest.mark.parametrize("name", ["../../../struck", "/tmp/struck", "a/b", "-rf", "x\n::error::"])
def test_a_page_beside_the_report_lies_in_its_folder_whatever_a_class_is_called(
    name, tmp_path
) -> None:
    calls = [denied(f"ls {at}", name) for at in range(CALLS + 1)]
    path = tmp_path / "a" / "b" / "r.html"
    html.write(build_view([run(trial(*calls))]), path)
    files = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.html"))
    assert files == ["a/b/r.html", "a/b/r.trials/calls-1-class-1-1.html"]
