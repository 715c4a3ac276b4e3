"""A real mlx-lm server on Linux: got once from the package index, into an environment of its own.

`python tests/servers/mlx_place.py` gets it (350 MB). It runs the Markov chain as safetensors.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import AbsentError, free_port, installed, program, running

REQUIRED = ("mlx[cpu]==0.32.4", "mlx-lm==0.32.2")


def got() -> Path:
    """Its program. Raises AbsentError."""
    return program("mlx", "mlx_lm.server")


def get() -> Path:
    """As `got`, installed when it is not there. Raises AbsentError where it cannot be had."""
    return installed("mlx", "mlx_lm.server", *REQUIRED)


@contextmanager
def mlx_server(command: Path, weights: Path) -> Iterator[str]:
    """Its address, without /v1, while it serves this folder, whose path is the model's id."""
    port = free_port()
    home = weights.parent / "hub-home"
    (home / "hub").mkdir(parents=True)  # without one its list of models is an empty page
    with running(
        [str(command), "--model", str(weights), "--host", "127.0.0.1", "--port", str(port)],
        {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home)},
        ready=f"http://127.0.0.1:{port}/health",
        log=weights.with_suffix(".log"),
        wait=60,
    ):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"mlx-lm: {get()}\n")
    except AbsentError as absent:
        sys.exit(f"mlx-lm: not here: {absent}")
