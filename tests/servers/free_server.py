"""Real servers that keep no grammar of calls, and play a chain: mlx-lm, vLLM, transformers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx_place
import pytest
import torch_place
from markov import TEMPLATE, Chain
from places import AbsentError
from weights import write_folder


@contextmanager
def served_by(
    server: str, folder: Path, played: Chain, *options: str, template: str = TEMPLATE
) -> Iterator[dict[str, object]]:
    """What a model's entry says of this server, which plays the chain. Skips one not here."""
    if server != "mlx" and not os.environ.get("AGENTEVAL_ALL_SERVERS"):
        pytest.skip(f"{server} is asked by `make servers-all`")
    try:
        command = mlx_place.got() if server == "mlx" else torch_place.got(server)
    except AbsentError as absent:
        pytest.skip(str(absent))
    write_folder(folder, played, template=template, qwen=server == "transformers")
    sampling: dict[str, object] = {}
    if server == "mlx":
        serving_it = mlx_place.mlx_server(command, folder)
    elif server == "vllm":
        serving_it = torch_place.vllm_server(folder, *options)
    else:
        serving_it = torch_place.transformers_server(folder)
        sampling = {"sampling": {"temperature": 1, "top_p": 1}}  # it answers others with 422
    with serving_it as address:
        model = "m" if server == "vllm" else str(folder.resolve())
        yield {"base_url": f"{address}/v1", "model": model, **sampling}
