"""How often a hint helps who follows it to the letter: measure_hints.py CORPUS [COMMANDS].

A corpus is JSON lines with a `command`. Each is judged under every shipped allow list, and what the
hint of a denied one proposes is judged next. Simulated: no model was asked; the follower below
takes the first thing that the hint names and sends just that.
"""

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.policy import Policy
from agenteval.trial.call import BASH, Denied, ToolCall

_TOOL = re.compile(r"(Read|Write) `([^`]+)` with the (?:read|write) tool")
_NEAR = re.compile(r"did you mean ([^`\s?]+)\?")
_QUOTED = re.compile(r"`([^`]+)`")
SEED = 16


def bash(command: str) -> ToolCall:
    return ToolCall("", BASH, command, {"command": command})


def followed(text: str, denied: Denied) -> tuple[str, ToolCall] | None:
    """What a model sends next that does what the first finding's hint says, and of which kind."""
    evidence, hint = denied.primary.evidence, denied.primary.hint
    tool, quoted = _TOOL.search(hint), _QUOTED.search(hint)
    if tool and quoted and tool.start() <= quoted.start():
        arguments = {"path": tool[2], "content": ""} if tool[1] == "Write" else {"path": tool[2]}
        return tool[1].lower(), ToolCall("", tool[1].lower(), json.dumps(arguments), arguments)
    if quoted:
        is_own = quoted[1] in text
        return "own words" if is_own else "listed", bash(quoted[1])
    if near := _NEAR.search(hint):
        return "near", bash(text[: evidence.start] + near[1] + text[evidence.end :])
    return None


def count(texts: list[str], policy: Policy) -> Counter[str]:
    """How many are denied; of those, how many hints lead to an allowed call, and of which kind."""
    found: Counter[str] = Counter()
    for text in texts:
        verdict = judge(bash(text), policy)
        if not isinstance(verdict, Denied):
            continue
        found["denied"] += 1
        found["over two lines"] += len(verdict.primary.hint.splitlines()) > 2
        found["over 200 characters"] += len(verdict.primary.hint) > 200
        way = followed(text, verdict)
        found["allowed next"] += way is not None and judge(way[1], policy).allowed
        found[way[0] if way else "nothing named"] += 1
    return found


def main(arguments: list[str]) -> None:
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["command"] for line in lines]
    random.Random(SEED).shuffle(texts)
    texts = texts[: int(arguments[1])] if len(arguments) > 1 else texts
    total: Counter[str] = Counter()
    for path in sorted((shipped() / "allowlists").glob("*.toml")):
        found = count(texts, load_policy(path.stem, roots=[shipped()]))
        sys.stdout.write(f"{path.stem:16} {share(found)}\n")
        total += found
    sys.stdout.write(f"{'all':16} {share(total)}\n")


def share(found: Counter[str]) -> str:
    helped, denied = found["allowed next"], found["denied"]
    kinds = ", ".join(f"{kind} {found[kind]}" for kind in sorted(found) if kind != "allowed next")
    return f"{helped}/{denied} = {100 * helped / max(denied, 1):.1f} %  ({kinds})"


if __name__ == "__main__":
    main(sys.argv[1:])
