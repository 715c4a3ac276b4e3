"""README is true: its commands exist, and what it shows is what they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agenteval.config.models import Timeouts
from agenteval.core.outcome import Outcome
from agenteval.core.pace import LONGEST, MEASURED, REFERENCE
from agenteval.core.scenario import Limits
from agenteval.engine.asking import LONGEST_PAUSE, PAUSES
from agenteval.errors import Cause
from agenteval.models.transport import LARGEST_BODY

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()


def agenteval(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "agenteval", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        env={"COLUMNS": "100", "PATH": "/usr/bin:/bin"},
    ).stdout


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_every_command_of_the_program_is_in_the_readme() -> None:
    listed = re.findall(r"^  (\w+)  ", agenteval("--help").split("Commands")[1], re.MULTILINE)
    assert [name for name in listed if f"agenteval {name}" not in README] == []


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"^    make ([a-z-]+)", README, re.MULTILINE)))
)
def test_every_target_of_the_readme_is_in_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (PROJECT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)h][^)]*)\)", README))))
def test_every_link_of_the_readme_leads_somewhere(link: str) -> None:
    assert (PROJECT / link).exists()


def test_every_cause_of_a_void_and_every_limit_is_told() -> None:
    told = (PROJECT / "docs" / "runs.md").read_text()
    pauses = ", ".join(f"{pause:g}" for pause in PAUSES[:-1]) + f" and {PAUSES[-1]:g} seconds"
    said = [
        *(f"`{cause}`" for cause in Cause),
        *(f"`{end}`" for end in (Outcome.TIMED_OUT, Outcome.OUT_OF_TURNS, Outcome.GAVE_UP)),
        pauses,
        f"at most {LONGEST_PAUSE:g}",
        f"more than {LARGEST_BODY >> 20} MiB",
        f"gives {REFERENCE:g} tokens a second",
        f"From {MEASURED} tokens on",
        f"({Limits().trial_seconds:g} unless",
        f"of a model ({Timeouts().request:g})",
        "up to eight times" if LONGEST == 8 else "another bound",
    ]
    flat = " ".join(told.split())
    assert [one for one in said if one not in flat] == []


def test_the_classified_command_is_what_the_readme_shows() -> None:
    shown = re.search(r"\$ agenteval classify '(.*)'\n(.*?)```", README, re.DOTALL)
    assert trimmed(agenteval("classify", shown[1])) == trimmed(shown[2])


def test_the_published_comparison_says_what_the_readme_shows() -> None:
    shown = re.search(r"```text\n(- Marginal.*?)```", README, re.DOTALL)
    assert trimmed(shown[1]) in trimmed(agenteval("show", "article"))
