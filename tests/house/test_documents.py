"""What ARCHITECTURE.md and pyproject.toml say of the house is what it is."""

import re
import sys
import tomllib

import yaml
from survey import PACKAGE, ROOT

from agenteval import _version

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
LONGEST_ENTRY = 40  # words
UNSAID = {"__main__", "_version"}  # the entry point, and one constant


def kept_layers() -> list[set[str]]:
    """What import-linter keeps, of what there is."""
    (contract,) = (
        one
        for one in PROJECT["tool"]["importlinter"]["contracts"]
        if one.get("containers") == ["agenteval"]
    )
    there = {path.stem for path in PACKAGE.iterdir()} - UNSAID
    layers = [{*re.findall(r"\w+", layer)} & there for layer in contract["layers"]]
    return [layer for layer in layers if layer]


def test_the_layers_that_are_told_are_those_that_are_kept() -> None:
    told = re.search(r"^## Layers\n\n((?:    .*\n)+)", ARCHITECTURE, re.MULTILINE)
    assert told
    parts = [line.strip().split("  ")[0] for line in told[1].splitlines()]
    assert [{*part.split(" | ")} for part in parts] == kept_layers()


def test_each_python_that_is_played_is_one_that_the_package_says_it_runs_on() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    played = {
        step["with"]["python-version"]
        for step in jobs["whole"]["steps"]
        if "with" in step and "python-version" in step["with"]
    }
    played |= {*jobs["pythons"]["strategy"]["matrix"]["python"]}
    said = "\n".join(PROJECT["project"]["classifiers"])
    assert {*re.findall(r"Python :: (3\.\d+)", said)} == played


def test_the_changelog_is_for_users_and_not_longer_than_they_read() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    entries = [line for line in lines if line.startswith("- ")]
    too_long = [entry for entry in entries if len(entry.split()) > LONGEST_ENTRY]
    assert (len(lines) <= 150, too_long, len(entries) - len({*entries})) == (True, [], 0)


def test_the_version_of_the_package_has_its_heading_in_the_changelog() -> None:
    assert f"## [{_version.__version__}] - " in (ROOT / "CHANGELOG.md").read_text()


def test_each_python_that_is_promised_is_tested_and_no_other() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    (own,) = (step["with"] for step in jobs["whole"]["steps"] if "setup-python" in str(step))
    tested = [own["python-version"], *jobs["pythons"]["strategy"]["matrix"]["python"]]
    promised = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["project"]["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", classifier)
    ]
    running = f"3.{sys.version_info.minor}"
    assert (promised, PROJECT["project"]["requires-python"]) == (tested, f">={tested[0]}")
    assert running in promised
