"""One small scenario, played for real: a real sandbox, a real store, a scripted model."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from agenteval.classes import judge
from agenteval.config.allowlists import load_policy
from agenteval.play.run import Orchestrator, trial_keys
from agenteval.play.second_reader import SecondReader
from agenteval.play.trial import Unwatched
from agenteval.prompt.arm import STRICT, Arm
from agenteval.prompt.prompt import Setting
from agenteval.protocols import Health, Model, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import Namespaces
from agenteval.store.sql import SqlStore
from agenteval.trial.call import Outcome
from agenteval.trial.run import ModelCard, Run, judged_by
from agenteval.trial.trial import Check, Limits, Scenario, Trial
from agenteval.workflows.stages import under

MARK = """\
import sqlite3, sys
with sqlite3.connect("w.db") as db:
    db.execute("INSERT INTO mark VALUES (?)", (sys.argv[1],))
print("marked", sys.argv[1])
"""
ALLOWLIST = """\
[bash]
allow = ["uv run scripts/mark.py *", "ls *", "sleep *", "false", "pwd"]
[write]
allow = ["notes/**"]
[read]
allow = ["notes/*"]
"""
SCENARIO = Scenario(
    name="marks",
    title="Mark it",
    policy="marks",
    fixture="marks",
    instructions="# System\nYou mark.\n\n# Task\nMark a, then b.",
    tools=("bash", "read"),
    database="w.db",
    goal=(Check("b is marked", "SELECT count(*) FROM mark WHERE name = 'b'", 1),),
    solution=(),
    handshake=(
        Check("a", "SELECT count(*) FROM mark WHERE name = 'a'", 1),
        Check("b", "SELECT count(*) FROM mark WHERE name = 'b'", 1),
    ),
    max_turns=6,
    limits=Limits(call_seconds=1.0),
)


class Watched:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.denied: list[bool] = []
        self.void: list[bool] = []
        self.tokens = 0

    def wrote(self, trial: TrialKey, tokens: int) -> None:
        self.tokens += tokens

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        self.denied.append(bool(failure_class))

    def finished(self, trial: TrialKey, *, void: str) -> None:
        self.void.append(bool(void))


class Play:
    """Plays the scenario with a model, and gives back the trials as they were stored."""

    scenario = SCENARIO

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.watched = Watched()
        self.ended: list[int] = []  # seeds of the trials that told their end
        self.backend: SandboxBackend = Namespaces()
        (folder / "allowlists").mkdir()
        (folder / "allowlists" / "marks.toml").write_text(ALLOWLIST)
        self.policy = load_policy("marks", roots=[folder])
        self.store = SqlStore(str(folder / "runs.db"))

    def files(self, seed: int) -> Mapping[str, bytes]:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE mark(name)")
        world = connection.serialize()
        connection.close()
        return {"scripts/mark.py": MARK.encode(), "w.db": world, "notes/n.txt": b"a note"}

    async def __call__(
        self,
        model: Model,
        *,
        trials: int = 1,
        scenario: Scenario = SCENARIO,
        concurrency: int = 2,
        health: Health | None = None,
        arm: Arm = STRICT,
    ) -> tuple[Trial, ...]:
        run = Run("r", ModelCard("m", "m"), "t", 1, trials, None, concurrency, "n", "p", "t", {})
        self.store.add(run)
        agents = {agent.name: self.policy for agent in scenario.agents}
        digests = {judged_by("marks", name): self.policy.digest for name in ("", *agents)}
        async with SecondReader() as second_reader:
            orchestrator = Orchestrator(
                model=model,
                backend=self.backend,
                judge=judge,
                second_reader=second_reader,
                recorder=self.store.recorder(run, digests),
                observer=self.watched,
                concurrency=concurrency,
                health=health or Unwatched(),
                setting=Setting(arm),
                ended=self.ended.append,
            )
            stage = under(arm, Stage(scenario, self.policy, self.files, agents))
            await orchestrator.play([stage], trial_keys(["marks"], trials, 1))
        return self.store.load("r").trials

    def outcomes(self) -> list[Outcome]:
        return [trial.outcome for trial in self.store.load("r").trials]


@pytest.fixture
def play(tmp_path):
    playing = Play(tmp_path)
    yield playing
    playing.store.close()
