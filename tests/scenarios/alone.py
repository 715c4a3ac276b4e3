"""A scenario's program, run in a folder of this machine: without sandbox, secret or word."""

import json
import subprocess
import sys
from inspect import getsource
from pathlib import Path

from agenteval.sandbox.inside import program_help, subject

START = """
import json, sys
order = json.load(sys.stdin)
made = sys.modules["agenteval_test"] = type(sys)("agenteval_test")
exec(compile(order["help"], "agenteval_test", "exec"), made.__dict__)
sys.argv = ["-c", order["argument"]]
sys.exit(0 if made.begin(order) else 1)
"""


def holds(source: str, argument: str, place: Path) -> bool:
    """Whether the program comes to its end there."""
    texts = {"help": getsource(program_help), "subject": getsource(subject)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", START],
        input=json.dumps(texts | {"source": source, "argument": argument}),
        cwd=place,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode == 0
