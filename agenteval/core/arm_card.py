"""What is kept with a run of who played it, and told beside its rates: an arm, or logs."""

from collections.abc import Sequence
from dataclasses import dataclass

REAL = "real/"  # before the name of a real program that is the agent
NOT_OBSERVABLE = "not observable"  # of what a log cannot show
OURS = "ours"  # whose words an arm has, where no program's were captured


@dataclass(frozen=True, slots=True)
class ArmCard:
    """What is kept of an arm with a run. `named` of the failure `classes` stand in its rules.

    None where nobody knows, the rules being the user's own. A first request has about so many
    `tokens`, what describes the tools among them.
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
    def told(self) -> str:
        """All of it in a sentence."""
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
    """Where a run came from that nobody played: logs of this format. `hidden` is what they lack.

    `basis` names the allow list that its calls were judged by, and is empty where it is what was
    recorded that counts. `judged` says whether errors could be told at all.
    """

    format: str
    basis: str = ""
    hidden: Sequence[str] = ()
    judged: bool = True
