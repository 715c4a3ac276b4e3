"""The command line as a user meets it: arguments in, exit code and both streams out."""

from dataclasses import dataclass

import pytest

from agenteval.cli.app import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
