"""Cards that a run keeps of its player, shown next to its rates: a model, an arm, or logs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

REAL = "real/"  # before the name of a real program that is the agent
NOT_OBSERVABLE = "not observable"  # of what a log cannot show
# What a server was seen to do to its model, by subject, and what of it decides what can occur.
GRAMMAR, INVENTED = "grammar of calls", "a tool that nobody offers"
FITTED = "in force: arguments are made to fit their schema"
STOPPED = "in force: what it does not allow ends as an error"
FREE = "none seen: a call came that breaks its schema"
THROUGH = "its call comes through"
COST = "asked"  # what the questions took
BROKEN_ARGUMENTS, INVENTED_TOOL = "malformed-arguments", "hallucinated-tool"  # failure classes
OURS = "ours"  # whose words an arm has, where no program's were captured


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The served model, as far as it is known. Parameters in billions; "" and None mean unknown.

    `told` holds the facts that the server reports of itself. `seen` holds its behaviour as probes
    before the run observed it. All else comes from the user.

    `tools` is native, or the dialect and its version in which calls were written as text.
    `reasoning` is the rule by which reasoning was sent back.
    """

    name: str
    served_id: str
    base_url: str = ""
    architecture: Literal["dense", "moe", ""] = ""
    total_parameters: float | None = None
    active_parameters: float | None = None
    quantization: str = ""
    kv_cache: str = ""
    server: str = ""
    server_version: str = ""
    tool_parser: str = ""
    tools: str = "native"
    tool_choice: str = ""
    stream: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    told: Mapping[str, str] = field(default_factory=dict)
    reasoning: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)

    @property
    def cannot_occur(self) -> tuple[str, ...] | None:
        """The failure classes that the server keeps its model from; None if that is unknown."""
        grammar = self.seen.get(GRAMMAR, NOT_OBSERVABLE)
        if grammar == FREE:
            return ()
        if grammar not in {FITTED, STOPPED}:
            return None
        if grammar == STOPPED or self.seen.get(INVENTED) == THROUGH:
            return (BROKEN_ARGUMENTS,)
        return INVENTED_TOOL, BROKEN_ARGUMENTS


@dataclass(frozen=True, slots=True)
class ArmCard:
    """A run's record of its arm, whose rules name `named` of the failure `classes`.

    `named` is None if that is unknown, because the rules are the user's own. A first request has
    about `tokens` tokens, descriptions of the tools included.
    """

    name: str
    version: int
    words: str
    rules: str
    named: int | None
    classes: int
    tokens: int
    denials: str
    engine: str
    summary: str

    @property
    def sentence(self) -> str:
        """The whole card in one sentence."""
        named = "the user's own rules"
        if self.named is not None:
            named = f"rules name {self.named} of the {self.classes} classes"
        words = "our words" if self.words == OURS else f"words of {self.words}"
        judge = f"{self.engine}'s rules judge" if self.engine else "our allow lists judge"
        length = f"about {self.tokens / 1000:.1f}k tokens of context at the start; "
        return (
            f"{self.name}/{self.version}: {named}; {length if self.tokens else ''}"
            f"{words}: {self.summary}; denials {self.denials}; {judge}"
        )


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a run that nobody played: logs of this format. `hidden` names what they lack.

    `basis` names the allow list that judged its calls; it is empty if the recorded outcomes count.
    `judged` is False if errors could not be recognised at all.
    """

    format: str
    basis: str = ""
    hidden: Sequence[str] = ()
    judged: bool = True


# What a model thought, sent back to it. Within a tool loop the templates of thinking models expect
# the reasoning of its earlier turns: a harness sends it back under the name it came in. Behind an
# answer of the model it is dropped, as templates drop it there themselves.
Rule = Literal["loop", "always", "drop"]
FIELD = "reasoning_content"  # until a reply has shown what the server calls it

# Families whose makers say that reasoning must not come back, or whose templates have no place for
# it. Most others (Qwen3, GLM-4.5, MiniMax M2, Kimi K2 Thinking, DeepSeek V3.2, gpt-oss) want it.
_DROPPED = re.compile(
    r"deepseek-?(?:r1|reasoner|v3(?:[.-]?1)?(?![.\d]))|qwq|gemma|phi-?4|command|granite",
    re.IGNORECASE,
)
# Services that answer a message with reasoning in it by 422, whatever the model.
_REFUSED = re.compile(r"//api\.mistral\.ai(?:[:/]|$)", re.IGNORECASE)
TOLD = {
    "loop": "sent back within the tool loop",
    "always": "always sent back",
    "drop": "not sent back",
}


def usual(model: str, base_url: str = "") -> Rule:
    """Return the rule for a model by its served name and its server; else the most common rule."""
    return "drop" if _DROPPED.search(model) or _REFUSED.search(base_url) else "loop"


def departs(rule: str, model: str, base_url: str = "") -> str:
    """Return the rule in words, which say if it is the usual one; "" if none was recorded."""
    if not rule:
        return ""
    return "as usual for the model" if rule == usual(model, base_url) else TOLD.get(rule, rule)
