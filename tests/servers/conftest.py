"""The real server that these tests ask, and a project whose one model it serves."""

import shutil
from pathlib import Path

import proxy
import pytest
from caller import chain
from llama import got, llama_server
from markov import write_weights
from places import AbsentError

from agenteval.config.roots import shipped

SCENARIO = """\
title = "Look at every note"
policy = "notes"
fixture = "notes"
tools = ["bash"]
database = "data/notes.db"
max_turns = 8

[draw]
session = { from = 1000, to = 98000 }

[[goal]]
name = "more than looking can reach"
query = "SELECT state FROM sessions"
expect = "done"

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/notes.py finish --session {{ session }}" }
"""
INSTRUCTIONS = "# System\n\nYou keep notes.\n\n{{ rules }}\n\n# Task\n\nLook at every note.\n"


@pytest.fixture(scope="session")
def llama(tmp_path_factory) -> str:
    """The address, without /v1, of a llama.cpp server that plays the caller of `caller.py`."""
    try:
        root = got()
    except AbsentError as absent:
        pytest.skip(str(absent))
    weights = tmp_path_factory.mktemp("weights") / "markov.gguf"
    write_weights(weights, chain())
    with llama_server(root, weights, slots=4) as address:
        yield address


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The current folder: the shipped parts, and the scenario `known/rates`."""
    for name in ("allowlists", "fixtures"):
        shutil.copytree(shipped() / name, tmp_path / name)
    folder = tmp_path / "scenarios" / "known" / "rates"
    folder.mkdir(parents=True)
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "instructions.md").write_text(INSTRUCTIONS)
    monkeypatch.chdir(tmp_path)
    for name in ("AGENTEVAL_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def proxied(llama, tmp_path_factory) -> str:
    """The address, without /v1, of a LiteLLM proxy before that server."""
    try:
        program = proxy.got()
    except AbsentError as absent:
        pytest.skip(str(absent))
    with proxy.litellm_proxy(program, llama, tmp_path_factory.mktemp("proxy")) as address:
        yield address
