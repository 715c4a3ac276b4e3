"""A LiteLLM proxy before a server: got once from the package index, into an environment of its own.

`python tests/servers/proxy.py` gets it. It is too heavy for the project's own lock file.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import AbsentError, free_port, installed, program, running

REQUIRED = "litellm[proxy]==1.106.2"
KEY = f"sk-{secrets.token_hex(24)}"  # it wants a strong one
QUIET = {
    "LITELLM_MASTER_KEY": KEY,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would ask the internet for prices
    "LITELLM_TELEMETRY": "False",
    "DISABLE_ADMIN_UI": "True",
}


def got() -> Path:
    """Its program. Raises AbsentError."""
    return program("litellm", "litellm")


def get() -> Path:
    """As `got`, installed when it is not there. Raises AbsentError where it cannot be had."""
    return installed("litellm", "litellm", REQUIRED)


@contextmanager
def litellm_proxy(command: Path, upstream: str, folder: Path) -> Iterator[str]:
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
        [str(command), "--config", str(written), "--host", "127.0.0.1", "--port", str(port)],
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
