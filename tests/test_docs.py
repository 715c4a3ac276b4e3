"""README is true: its commands exist, and what it shows is what they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    listed = re.findall(r"^│ (\w+) ", agenteval("--help").split("Commands")[1], re.MULTILINE)
    assert [name for name in listed if f"agenteval {name}" not in README] == []


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"^    make ([a-z-]+)", README, re.MULTILINE)))
)
def test_every_target_of_the_readme_is_in_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (PROJECT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)h][^)]*)\)", README))))
def test_every_link_of_the_readme_leads_somewhere(link: str) -> None:
    assert (PROJECT / link).exists()


def test_the_classified_command_is_what_the_readme_shows() -> None:
    shown = re.search(r"\$ agenteval classify '(.*)'\n(.*?)```", README, re.DOTALL)
    assert trimmed(agenteval("classify", shown[1])) == trimmed(shown[2])


def test_the_published_comparison_says_what_the_readme_shows() -> None:
    shown = re.search(r"```text\n(- Marginal.*?)```", README, re.DOTALL)
    assert trimmed(shown[1]) in trimmed(agenteval("show", "article"))
