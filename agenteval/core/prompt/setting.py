"""The setting of a run's prompts: the arm, the rules, and the place of the rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agenteval.core.cards import ArmCard
from agenteval.core.prompt.arm import STRICT, Arm
from agenteval.core.prompt.profile import Profile
from agenteval.core.trial import Message

# An edit here changes what every model reads: raise VERSION.
VERSION = 3
UNTIL = "until it stops"  # in earlier releases a trial ended in the turn in which its goal held

# What the policy with which the article's agents end names, in our words: five things, and no more.
FIVE = """\
Every tool call is compared with an allow list before it runs. What is not on the list is denied, \
and nothing runs.
{% if "bash" in tools %}
- One listed command per {{ bash }} call, called by the path of its script.
- Do not trim output (`| head`, `| tail`, `| grep`, `| jq`, `| sed`).
- Do not suppress errors (`2>/dev/null`, `2>&1`, `|| true`).
- Do not chain commands (`&&`, `||`, `;`).
- Do not make files by {{ bash }}.
{%- endif %}\
"""

# Every form that is denied, by name: whoever reads it is told more than any harness tells.
ALL = """\
Every tool call is compared with an allow list before it runs. What is not on the list is denied, \
and nothing runs.
{% if "bash" in tools %}
- One bare command per {{ bash }} call: a listed script and its arguments, nothing before it and \
nothing after it.
- Do not cut output down: no pipe into head, tail, grep, sed, jq or anything else. Every script \
returns what you need; its own options narrow it.
- No redirects. Errors are part of the output, so neither `2>&1` nor `2>/dev/null`.
- No chaining with `&&`, `||` or `;`, no `cd`, and no `|| true`: a failed command is reported as \
such.
- No heredocs, no command substitution, no variables, no background commands. A long value is one \
quoted argument.
- No prefixes such as `timeout`, `env` or `sudo`. Time limits are kept for you.
- No other programs (ls, cat, find, curl, python ...), no inline code, and no scripts or options \
that are not listed above.
{%- endif %}
{%- if "read" in tools %}
- The {{ read }} tool opens files of this workspace only. A path outside it is denied.
{%- endif %}
{%- if "write" in tools %}
- The {{ write }} tool writes whole files of this workspace, and only where the task asks for it.
{%- endif %}\
"""

HEADING = "## Rules for tool calls"
# What may be told beside the rules: that there is no such tool, and what to do once denied.
TOLD: Mapping[str, str] = {
    "tools": 'There are no other tools than {{ shown | join(" and ") }}.',
    "after": "After a denial, do not try the same thing in another shape: use a listed script "
    "instead and go on.",
}
RULES: Mapping[str, str] = {"none": "", "five": FIVE, "all": ALL}
# The failure classes that a set of rules names by word or form, or what is told beside it.
_FIVE = (
    *("pipe-to-filter", "stderr-redirect", "shell-chain", "file-redirect", "heredoc-to-file"),
    "wrong-runner",
)
NAMED: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "five": _FIVE,
    "all": (
        *("pipe-to-filter", "pipe", "stderr-redirect", "file-redirect", "shell-chain", "heredoc"),
        "heredoc-to-file",
        *("command-substitution", "env-assignment", "background", "wrapper-prefix", "bare-binary"),
        *("inline-code", "unlisted-script", "hallucinated-flag", "blocked-path"),
    ),
    "tools": ("hallucinated-tool",),
    "after": (),
}


def _variants() -> Iterator[tuple[str, str]]:
    """Yield each set of rules with none, one or both of the sentences that may be added to it."""
    for name, rules in RULES.items():
        for extras in ((), ("tools",), ("after",), ("tools", "after")):
            parts = [*filter(None, [rules]), *(TOLD[extra] for extra in extras)]
            yield "+".join((name, *extras)), "\n\n".join([HEADING, *parts]) if parts else ""


VARIANTS: Mapping[str, str] = dict(_variants())


Place = Literal["start", "end", "both"]
USUAL = 10  # of 100 calls that went before, those that were denied
PLAYED = 1  # how what goes before is chosen and told; an edit there raises it


@dataclass(frozen=True, slots=True)
class Earlier:
    """A task that was played before: the user's message, calls with their replies, last words.

    `agent` is the name of the sub-agent whose task it was.
    """

    scenario: str
    fixture: str
    messages: tuple[Message, ...]
    calls: int
    denied: int
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """`rules` is a template (see VARIANTS) in place of the arm's own, `place` where it stands.

    `start` is in the system message, where the scenario has it; `end` is after the task.
    `rules_name` is what a run records of the rules: their name and version. `context` is how many
    tokens a prompt is filled up to, 0 for none, at `per_token` characters a token, by tasks that
    were played before (`earlier`, by scenario), with so many calls `denied` of 100.
    `harness` is the real program that is the agent, with its version; its words are not ours.
    """

    arm: Arm = STRICT
    rules: str = VARIANTS[STRICT.rules]
    rules_name: str = f"{STRICT.rules}/{VERSION}"
    place: Place = "start"
    context: int = 0
    per_token: float = 4.0
    harness: str = ""
    denied: int = USUAL
    earlier: Mapping[str, Sequence[Earlier]] = field(default_factory=dict, compare=False)

    @property
    def profile(self) -> Profile:
        return self.arm.profile

    @property
    def named(self) -> tuple[str, ...] | None:
        """The failure classes that the rules name; None where they are the user's own."""
        parts = self.rules_name.partition("/")[0].split("+")
        if not all(part in NAMED for part in parts):
            return None
        return tuple(dict.fromkeys(name for part in parts for name in NAMED[part]))

    def card(self, *, classes: int, tokens: int) -> ArmCard:
        """Return the card that a run keeps; `tokens` is the length of a first request."""
        return ArmCard(
            name=self.arm.name,
            version=self.arm.version,
            words=self.arm.words,
            rules=self.rules_name.partition("/")[0],
            named=None if self.named is None else len(self.named),
            classes=classes,
            tokens=tokens,
            denials=self.arm.denials,
            engine=self.arm.engine,
            summary=self.arm.summary,
        )

    @property
    def protocol(self) -> str:
        """The identity of the words that a model reads, and of when a trial ends.

        Two runs are alike if it is equal.
        """
        text = f"{self.arm.protocol}, rules {self.rules_name} at {self.place}, {UNTIL}"
        if self.context:
            text += f", context {self.context} of tasks played before/{PLAYED}"
            text += f", {self.denied} of 100 calls denied"
        return f"{text}, played by {self.harness}" if self.harness else text


DEFAULT = Setting()
