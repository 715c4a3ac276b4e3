"""docs/json.md tells every key that `--json` prints."""

import json
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
RUN = ("run", "-m", "sim/qwen3.5-27b", "--trials", "2", "media/rendered-plot", "--json")
COMMANDS = {
    "run, agenteval show RUN, agenteval compare": ("compare", "last", "counts.csv"),
    "show": ("show",),
    "ingest": ("ingest", "openai", "calls.jsonl"),
    "trend": ("trend", "--simulated"),
    "gate": ("gate", "--baseline", "2", "--candidate", "last", "--allow-simulated"),
    "gate --explain": ("gate", "--explain"),
    "plan": ("plan", "--baseline", "last", "--margin", "20"),
    "classify": ("classify", "ls | head"),
    "speed": ("speed", "last"),
    "transcript": ("transcript", "last", "media/rendered-plot#1"),
    "calls": ("calls", "last"),
    "scenarios": ("scenarios",),
}


def told(heading):
    """The words of a section."""
    section = PAGE.split(f"## agenteval {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"\w+", section))


def keys(document):
    """Those of the document, or of each in a list, and of the objects in its lists."""
    for one in document if isinstance(document, list) else [document]:
        yield from one
        for value in one.values():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                yield from value[0]


@pytest.mark.slow
def test_every_key_is_told(cli, project):
    (project / "counts.csv").write_text("model,calls,class,errors\nm,50,bare-binary,5\n")
    (project / "calls.jsonl").write_text('{"messages": []}\n{half')
    first = json.loads(cli(*RUN).out)["runs"][0]["id"]
    cli(*RUN)
    cli("import", "counts", "counts.csv")
    missing = {}
    for heading, command in COMMANDS.items():
        asked = [first if word == "2" else word for word in command]
        document = json.loads(cli(*asked, "--json").out)
        missing[heading] = sorted(set(keys(document)) - told(heading))
    assert missing == {heading: [] for heading in COMMANDS}
