"""The real server that these tests ask, and a project whose one model it serves."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import proxy
import pytest
from caller import chain, split_chain
from free_server import served_by
from llama import got, llama_server
from markov import Chain, write_weights
from places import AbsentError

from agenteval.config.files import shipped

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


@contextmanager
def serving(folder: Path, played: Chain, *, window: int = 16384) -> Iterator[str]:
    try:
        root = got()
    except AbsentError as absent:
        pytest.skip(str(absent))
    write_weights(folder / "markov.gguf", played)
    with llama_server(root, folder / "markov.gguf", slots=4, window=window) as address:
        yield address


@pytest.fixture(scope="session")
def llama(tmp_path_factory) -> str:
    """The address, without /v1, of a llama.cpp server that plays the caller of `caller.py`."""
    with serving(tmp_path_factory.mktemp("weights"), chain()) as address:
        yield address


@pytest.fixture(scope="module")
def split(tmp_path_factory) -> str:
    """The same of the caller in small tokens, which invents a tool and leaves objects open."""
    with serving(tmp_path_factory.mktemp("weights"), split_chain()) as address:
        yield address


@pytest.fixture(scope="module", params=["mlx", "vllm", "transformers"])
def free(request, tmp_path_factory) -> Iterator[tuple[str, dict[str, object]]]:
    """A server without a grammar of calls that plays that caller: its name, and such an entry."""
    folder = tmp_path_factory.mktemp("weights") / "split"
    with served_by(request.param, folder, split_chain()) as entry:
        yield request.param, entry


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
    monkeypatch.setenv("AGENTEVAL_TRUST", str(tmp_path))
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
