"""The taxonomy has another version whenever it explains a call in another way."""

import hashlib
from pathlib import Path

from agenteval.config.allowlists import load_policy
from agenteval.config.paths import shipped
from agenteval.core.call import ToolCall
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION, failure_classes
from agenteval.taxonomy.judge import judge

COMMANDS = Path(__file__).parents[1] / "corpus" / "commands.txt"
# One line for each version: never change one that was released, add the next.
EXPLAINED = {
    "3": "d8b51b6abdb18ba0",
    "4": "c463b3b7f6b5ceac",
    "5": "c463b3b7f6b5ceac",
    "6": "cbb9beaa63642a15",
}


def test_a_change_of_what_is_explained_how_raises_the_version() -> None:
    demo = load_policy("demo", roots=[shipped()])
    commands = COMMANDS.read_text(encoding="utf-8").split("\n%%\n")
    calls = [call for each in failure_classes() for call in (*each.bad, *each.good)]
    calls += [ToolCall("", "bash", "", {"command": command}) for command in commands]
    found = [[each.failure_class for each in judge(call, demo).findings] for call in calls]
    digest = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    told = f"raise TAXONOMY_VERSION, and record {digest} for it in EXPLAINED"
    assert EXPLAINED.get(TAXONOMY_VERSION) == digest, told
