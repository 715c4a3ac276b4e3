"""What the command says of the same runs, to hold the door against it."""

import json

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app


@pytest.fixture
def cli_json(project):
    return lambda *arguments: json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
