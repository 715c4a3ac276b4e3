"""The command line as a user meets it: arguments in, exit code and both streams out."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from agenteval.__main__ import main
from agenteval.config.paths import shipped


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project of the user's own, and the current folder: the shipped parts, to be changed."""
    for name in ("allowlists", "fixtures", "scenarios"):
        shutil.copytree(shipped() / name, tmp_path / name)
    (tmp_path / "agenteval.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    for name in ("AGENTEVAL_BASE_URL", "OPENAI_BASE_URL", "AGENTEVAL_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def cli(project, monkeypatch, capsys):
    def call(*arguments: str) -> Said:
        monkeypatch.setattr("sys.argv", ["agenteval", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        out, err = capsys.readouterr()
        return Said(code if isinstance(code, int) else 0, out, err)

    return call
