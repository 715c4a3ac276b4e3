"""The usual additions, made in a scratch copy: they touch the files that CONTRIBUTING.md names."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CARD = '    tool_choice: str = _request_option("tool choice", unset="auto")\n'
ENTRY = '    tool_choice: Literal["auto", "required", ""] = Field(\n'
ADDED_TO = {  # a line of each file, and the option that is put before it
    "agenteval/trial/run.py": (
        CARD,
        '    tool_order: str = _request_option("order of tools", unset="as sent")\n',
    ),
    "agenteval/config/models.py": (
        ENTRY,
        '    tool_order: Literal["fixed", ""] = ""\n',
    ),
}
ASKS = """
import json
from types import SimpleNamespace
from agenteval.config.models import ModelEntry
from agenteval.models.request import request_body
from agenteval.report.provenance import model_facts
from agenteval.trial.run import _other
from agenteval.trial.trial import Message
tool = {"type": "function", "function": {"name": "bash"}}
shown = []
for options in ({"tool_order": "fixed"}, {}):
    entry = ModelEntry(base_url="http://h/v1", model="m", **options)
    card = entry.card("m")
    run = SimpleNamespace(model=card, concurrency=1, sandbox="", prefork=False)
    sent = json.loads(request_body(entry, [Message("user", "u")], [tool], 1))
    facts = dict(model_facts(card))
    name = "order of tools"
    shown.append([sent.get("tool_order"), facts.get(name), _other(run)[name]])
print(json.dumps(shown))
"""


def test_an_option_of_requests_is_sent_compared_and_reported_by_its_two_fields(tmp_path) -> None:
    shutil.copytree(
        ROOT / "agenteval", tmp_path / "agenteval", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path, (line, option) in ADDED_TO.items():
        text = (tmp_path / path).read_text("utf-8")
        assert text.count(line) == 1
        (tmp_path / path).write_text(text.replace(line, option + line), "utf-8")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-c", ASKS]
    shown = subprocess.check_output(words, env=environment, cwd=tmp_path)
    assert json.loads(shown) == [["fixed", "fixed", "fixed"], [None, None, "as sent"]]


def test_contributing_names_the_files_of_an_option() -> None:
    _, _, section = (
        (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Add a server option")
    )
    section, _, _ = section.partition("\n## ")
    assert [path for path in ADDED_TO if f"`{path}`" in section] == list(ADDED_TO)
