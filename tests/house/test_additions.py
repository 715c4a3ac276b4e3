"""The usual additions, made in a copy of the tree: they work, and touch what CONTRIBUTING.md names.

Each test makes one, plays it with the copy's own program, and compares the files that are now
another with those that stand in backticks in its section. A folder there ends in `/`, and speaks of
all in it.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    *("agenteval", "allowlists", "arms", "fixtures", "scenarios", "agenteval.toml", "gate.toml"),
    *("tests/classes", "tests/corpus"),
)


@dataclass(frozen=True)
class Tree:
    """A copy of what an addition could need."""

    folder: Path

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Put text before a line of a file that is there once."""
        file = self.folder / path
        content = file.read_text("utf-8")
        assert content.count(before) == 1
        file.write_text(content.replace(before, text + before), "utf-8")

    def append(self, path: str, text: str) -> None:
        with (self.folder / path).open("a", encoding="utf-8") as file:
            file.write(text)

    def python(self, *words: str, codes: Container[int] = (0,)) -> str:
        """Return what a run of the copy prints, which ends with one of these exit codes."""
        home = self.folder / "home"
        environment = {"PYTHONPATH": str(self.folder), "PATH": "/usr/bin:/bin", "HOME": str(home)}
        ended = subprocess.run(
            [sys.executable, *words],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode in codes, ended.stderr
        return ended.stdout

    def agenteval(self, *words: str, codes: Container[int] = (0,)) -> str:
        return self.python("-m", "agenteval", *words, codes=codes)

    def changed(self) -> set[str]:
        """Return the files of the copied folders that are new, or not as they are here."""
        files = (
            file
            for name in COPIED
            for file in [self.folder / name, *(self.folder / name).rglob("*")]
            if file.is_file() and not file.is_symlink() and file.suffix != ".pyc"
        )
        paths = {file.relative_to(self.folder).as_posix() for file in files}
        return {path for path in paths if not self._is_as_here(path)}

    def unnamed(self, heading: str) -> set[str]:
        """Return the changed files that this section of CONTRIBUTING.md does not name."""
        text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        _, found, rest = text.partition(f"\n## {heading}\n")
        assert found, heading
        section, _, _ = rest.partition("\n## ")
        paths = re.findall(r"`([\w./-]+/[\w./-]*)`", section)
        folders = tuple(path for path in paths if path.endswith("/"))
        changed = self.changed()
        return {path for path in changed if path not in paths and not path.startswith(folders)}

    def _is_as_here(self, path: str) -> bool:
        here = ROOT / path
        return here.is_file() and here.read_bytes() == (self.folder / path).read_bytes()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
    return Tree(tmp_path)


CLASS = '''@failure_class(
    bad=["uv run scripts/notes.py list; sleep 5"],
    good=["uv run scripts/notes.py show 'a; sleep 5'"],
    cure=ALONE + "; the script waits by itself.",
    seen_in=["chains"],
)
def pause(call: DeniedCall) -> Seen | None:
    """A pause behind a command.

    Each listed script returns when it is done: waiting for it takes time and shows nothing.
    """
    for command in call.shell.commands:
        if command.program == "sleep":
            return Seen(command.words[0].span)
    return None


'''


@pytest.mark.slow
def test_a_failure_class_is_one_block_and_what_is_generated_of_it(tree) -> None:
    first = "@failure_class(\n    bad=[\n        'uv run scripts/context_cache.py --command set"
    tree.insert("agenteval/classes/shapes.py", CLASS, before=first)
    tree.python("tests/classes/explained.py")
    tree.python("-m", "agenteval.classes.catalogue")
    tree.python("tests/classes/explained.py", "--check")
    tree.python("-m", "agenteval.classes.catalogue", "--check")
    command = "uv run scripts/notes.py list; sleep 5"
    said = json.loads(tree.agenteval("classify", command, "--allowlist", "demo", "--json"))
    assert (said["verdict"], said["class"]) == ("denied", "pause")
    assert "A pause behind a command." in tree.agenteval("explain", "pause")
    assert (len(tree.changed()), tree.unnamed("Add a failure class")) == (3, set())


CRITERION = """    Criterion(
        "stuck",
        TRIALS,
        "trials that stall or loop, per 100",
        lambda trial: (trial.outcome in {Outcome.STALLED, Outcome.LOOPED}, int(trial.observed)),
        Drawn.OUTCOME,
    ),
"""


@pytest.mark.slow
def test_a_criterion_of_the_gate_is_one_entry(tree) -> None:
    tree.insert(
        "agenteval/stats/criteria.py", CRITERION, before='    Criterion(\n        "errors",'
    )
    rules = tree.folder / "rules.toml"
    rules.write_text("[margin]\npoints = 10\n[budgets]\nstuck = 50\n")
    model, scenario = "sim/qwen3.6-35b", "notes/append"
    for seed, store in (("1", "base.db"), ("2", "next.db")):
        tree.agenteval(
            "run", "-m", model, scenario, "--trials", "2", "--seed", seed, "--store", store
        )
    runs = ("--baseline", "base.db", "--candidate", "last", "--store", "next.db")
    judged = tree.agenteval(
        *("gate", *runs, "--gate", str(rules), "--allow-simulated", "--json"), codes=(0, 1, 3)
    )
    criteria = {criterion["name"]: criterion for criterion in json.loads(judged)["criteria"]}
    assert criteria["budgets.stuck"]["n"] == 2
    assert "trials that stall or loop" in tree.agenteval("gate", "--explain", "--gate", str(rules))
    assert tree.unnamed("Add a gate criterion") == set()


READER = '''"""The log of a notebook: one command a line, and its exit code behind a tab."""

from collections.abc import Iterator
from pathlib import Path

from agenteval.logs.packed import by_place
from agenteval.logs.tool_calls import bash_call
from agenteval.trial.session import LoggedCall, LoggedTurn, Recorded, Session


def read(path: Path) -> Iterator[Session]:
    """Yield the one session of a file."""
    session = Session(by_place(path), path=str(path))
    for line in path.read_text(encoding="utf-8").splitlines():
        command, _, code = line.partition("\\t")
        call = LoggedCall(bash_call(command), Recorded.RAN, exit_code=int(code))
        session.turns.append(LoggedTurn([call]))
    yield session
'''
FORMAT = """
[[format]]
name = "notebook"
title = "a notebook: commands.tsv"
reader = "notebook.read"
files = ["**/commands.tsv"]
hidden = ["denials", "malformed calls"]
"""


def test_a_reader_of_logs_is_a_module_and_its_table(tree) -> None:
    (tree.folder / "agenteval/logs/notebook.py").write_text(READER)
    tree.append("agenteval/logs/formats.toml", FORMAT)
    (tree.folder / "logs").mkdir()
    (tree.folder / "logs/commands.tsv").write_text("ls -l\t0\nrm x\t1\n")
    said = json.loads(tree.agenteval("ingest", "notebook", "logs", "--store", "s.db", "--json"))
    assert [(run["format"], run["recorded"]) for run in said["runs"]] == [("notebook", {"ran": 2})]
    assert tree.unnamed("Add a log reader") == set()


@pytest.mark.slow
def test_a_scenario_is_its_folder_with_an_allow_list_and_a_fixture(tree) -> None:
    written = tree.agenteval("scenarios", "new", "home/shutters").splitlines()
    checked = tree.agenteval("scenarios", "check", "home/shutters")
    assert checked.startswith("home/shutters: solved in 2 calls")
    changed = tree.changed()
    assert len(changed) == len(written) - 1 == 5
    assert tree.unnamed("Add a scenario") == set()


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


def test_an_option_of_requests_is_sent_compared_and_reported_by_its_two_fields(tree) -> None:
    tree.insert(
        "agenteval/trial/run.py",
        '    tool_order: str = _request_option("order of tools", unset="as sent")\n',
        before='    tool_choice: str = _request_option("tool choice", unset="auto")\n',
    )
    tree.insert(
        "agenteval/config/models.py",
        '    tool_order: Literal["fixed", ""] = ""\n',
        before='    tool_choice: Literal["auto", "required", ""] = Field(\n',
    )
    shown = json.loads(tree.python("-c", ASKS))
    assert shown == [["fixed", "fixed", "fixed"], [None, None, "as sent"]]
    assert tree.unnamed("Add a server option") == set()
