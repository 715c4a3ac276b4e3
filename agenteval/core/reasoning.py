"""What a model thought, sent back to it: by which rule, and which rule is usual for it. Pure.

Within a tool loop the templates of thinking models expect the reasoning of its earlier turns: a
harness sends it back under the name it came in. Behind an answer of the model it is dropped, as
templates drop it there themselves.
"""

import re
from typing import Literal

Rule = Literal["loop", "always", "drop"]
FIELD = "reasoning_content"  # until a reply has shown what the server calls it

# Families whose makers say that reasoning must not come back, or whose templates have no place for
# it. Most others (Qwen3, GLM-4.5, MiniMax M2, Kimi K2 Thinking, DeepSeek V3.2, gpt-oss) want it.
_DROPPED = re.compile(
    r"deepseek-?(?:r1|reasoner|v3(?:[.-]?1)?(?![.\d]))|qwq|gemma|phi-?4|command|granite",
    re.IGNORECASE,
)
TOLD = {
    "loop": "sent back within the tool loop",
    "always": "always sent back",
    "drop": "not sent back",
}


def usual(model: str) -> Rule:
    """The rule for a model by the name it is served under: its family's, or that of most."""
    return "drop" if _DROPPED.search(model) else "loop"


def departs(rule: str, model: str) -> str:
    """The rule where it is not the usual one; "" where no rule was kept."""
    if not rule:
        return ""
    return "as usual for the model" if rule == usual(model) else TOLD.get(rule, rule)
