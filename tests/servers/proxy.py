"""A LiteLLM proxy before a server: got once from the package index, into an environment of its own.

`python tests/servers/proxy.py` gets it. It is too heavy for the project's own lock file.
"""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import AbsentError, cache, free_port, running

REQUIRED = "litellm[proxy]==1.106.2"
SECONDS = 300
KEY = f"sk-{secrets.token_hex(24)}"  # it wants a strong one
QUIET = {
    "LITELLM_MASTER_KEY": KEY,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would ask the internet for prices
    "LITELLM_TELEMETRY": "False",
    "DISABLE_ADMIN_UI": "True",
}


def got() -> Path:
    """Its program. Raises AbsentError."""
    program = cache() / "litellm" / "bin" / "litellm"
    if not program.is_file():
        raise AbsentError("no LiteLLM in the cache; `make servers` gets it")
    return program


def get() -> Path:
    """As `got`, installed when it is not there. Raises AbsentError where it cannot be had."""
    home = cache() / "litellm"
    if (home / "bin" / "litellm").is_file():
        return home / "bin" / "litellm"
    try:
        _install(home)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(home, ignore_errors=True)
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AbsentError(f"{REQUIRED} cannot be installed: {last}") from error
    except subprocess.TimeoutExpired as error:
        shutil.rmtree(home, ignore_errors=True)
        raise AbsentError(f"{REQUIRED} is not installed after {SECONDS} s") from error
    return got()


def _install(home: Path) -> None:
    uv = str(Path(sys.executable).parent / "uv")
    python = str(home / "bin" / "python")
    index = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()  # uv does not read pip's settings
    options = ["--default-index", index] if index else []
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
        [uv, "pip", "install", "--quiet", *options, "--python", python, REQUIRED],
    ):
        subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


@contextmanager
def litellm_proxy(program: Path, upstream: str, folder: Path) -> Iterator[str]:
    """Its address, without /v1: it serves `markov` from there, and `gone` from where nobody is."""
    port = free_port()
    models = {"markov": f"{upstream}/v1", "gone": f"http://127.0.0.1:{free_port()}/v1"}
    config = {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {"model": "openai/markov", "api_base": url, "api_key": "none"},
            }
            for name, url in models.items()
        ],
        # A request tried again by the proxy would hide what the first one gave.
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    written = folder / "litellm.yaml"
    written.write_text(json.dumps(config))  # which is YAML too
    with running(
        [str(program), "--config", str(written), "--host", "127.0.0.1", "--port", str(port)],
        QUIET,
        ready=f"http://127.0.0.1:{port}/health/readiness",
        log=folder / "litellm.log",
        wait=120,
    ):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"LiteLLM: {get()}\n")
    except AbsentError as absent:
        sys.exit(f"LiteLLM: not here: {absent}")
