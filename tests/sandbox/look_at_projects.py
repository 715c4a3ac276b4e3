"""Looks at every hostile project by the command line, as whoever runs this; a line of JSON each.

Arguments: the folders of Python's path, in one word, and a folder that is ours.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = sys.argv[1].split(os.pathsep)

from agenteval.workflows.hostile_projects import (  # noqa: E402 -- found by the line above
    NAME,
    _write_hostile,
    hostile_projects,
    snapshot,
)

# Each by a command that reads what is spoilt.
COMMANDS = {"allow list": ("check",), "arm": ("show", "--arm", "mine")}
MAIN = """\
import resource, sys
sys.path[:0] = sys.argv.pop(1).split(':')
from agenteval.cli.app import main
try:
    main()
finally:
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    peaks = [resource.getrusage(who).ru_maxrss for who in whose]
    print('peak', max(peaks) >> 10, file=sys.stderr)
"""


def look(name: str, number: int) -> dict[str, object]:
    folder = Path(sys.argv[2], str(number))
    (folder / "tmp").mkdir(parents=True)
    project, home = _write_hostile(hostile_projects()[name], folder)
    subject = name.split(" that", maxsplit=1)[0]
    words = next((words for word, words in COMMANDS.items() if word in subject), ("world",))
    before, begun = snapshot(folder), time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", MAIN, sys.argv[1], "scenarios", *words, NAME],
        cwd=project,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(folder / "tmp")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    *said, peak = ran.stderr.splitlines()
    return {
        "name": name,
        "code": ran.returncode,
        "said": said,
        "shown": len(ran.stdout),
        "private": "private words" in ran.stdout or "not-a-real-secret" in ran.stdout,
        "peak": int(peak.split()[1]),
        "seconds": time.monotonic() - begun,
        "same": snapshot(folder) == before,
    }


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        names = list(hostile_projects())
        for seen in pool.map(look, names, range(len(names))):
            print(json.dumps(seen), flush=True)
