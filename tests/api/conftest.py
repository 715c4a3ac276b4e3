"""What the command says of the same runs, to hold the door against it."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def cli_json(project):
    def said(*arguments: str):
        ended = subprocess.run(
            [sys.executable, "-m", "agenteval", *arguments, "--json"],
            capture_output=True,
            text=True,
            check=False,
            cwd=project,
        )
        return json.loads(ended.stdout)

    return said
