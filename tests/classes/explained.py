"""Records which version of the taxonomy says what: `make format` runs it, or with --check.

One more than the version of the last commit, when what is said of any example or of any command of
the corpus is not what that commit said; else the version of that commit.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

from agenteval.classes import catalogue
from agenteval.classes.catalogue import SHIPPED
from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.policy import World
from agenteval.trial.call import ToolCall

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "agenteval" / "classes" / "catalogue.py"
COMMANDS = ROOT / "tests" / "corpus" / "commands.txt"
_VERSION = re.compile(r'(?<=SHIPPED_VERSION = ")\d+')
_DIGEST = re.compile(r'(?<=EXPLAINED = ")[0-9a-f]+')


def digest() -> str:
    """What the classes say of all examples and of the corpus, under the demo policy."""
    demo = load_policy("demo", roots=[shipped()])
    commands = COMMANDS.read_text(encoding="utf-8").split("\n%%\n")
    calls = [(call, each.after) for each in SHIPPED for call in (*each.bad, *each.good)]
    calls += [(ToolCall("", "bash", "", {"command": command}), ()) for command in commands]
    verdicts = [judge(call, demo, World(written=frozenset(after))) for call, after in calls]
    found = [[each.failure_class for each in verdict.findings] for verdict in verdicts]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def renewed(text: str, committed: str, found: str) -> str:
    """The module's text for a digest, after that of the last commit."""
    number, said = _VERSION.search(committed), _DIGEST.search(committed)
    if number is None or said is None:  # not a text of this module
        return renewed(text, text, found)
    now = int(number[0]) + (said[0] != found)
    return _DIGEST.sub(found, _VERSION.sub(str(now), text))


def _committed() -> str:
    """The module in the last commit; empty where there is none to be had."""
    name = MODULE.relative_to(ROOT).as_posix()
    asked = ["git", "-C", str(ROOT), "show", f"HEAD:{name}"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def main(arguments: list[str]) -> int:
    """0, or 1 when --check found that another version is to be recorded."""
    found = digest()
    if found == catalogue.EXPLAINED:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{MODULE}: calls get other classes than it records; run make format\n")
        return 1
    text = MODULE.read_text(encoding="utf-8")
    MODULE.write_text(renewed(text, _committed(), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
