"""A run of which nothing counts, on a terminal."""

import io

import pytest
from rich.console import Console

from agenteval.report import console
from agenteval.report.build import build_view
from agenteval.testing import run


@pytest.mark.parametrize("brief", [True, False])
def test_a_run_without_trials_is_one_line(brief) -> None:
    out = Console(file=io.StringIO(), width=100, color_system=None)
    console.render(build_view([run()]), out, brief=brief)
    said = out.file.getvalue()
    assert said.strip().startswith("No trial of ")
    assert said.strip().count("\n") == 0
