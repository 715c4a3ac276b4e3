"""How a run puts its prompts: under which profile, with which rules, and where they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agenteval.core.prompt.profile import STRICT, Profile
from agenteval.core.prompt.variant import fill

# An edit here changes what every model reads: raise VERSION.
VERSION = 2
UNTIL = "until it stops"  # in earlier releases a trial ended in the turn in which its goal held

PLAIN = """\
## Rules for tool calls

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
{%- endif %}
- There are no other tools than {{ shown | join(" and ") }}.

After a denial, do not try the same thing in another shape: use a listed script instead and go on.\
"""

# The security policy with which compiled agents of OpenCode end, in our words.
SECURITY = """\
## Security policy

You work under a strict allow list. These rules are absolute:

{% if "bash" in tools -%}
1. One bare command per {{ bash }} call, exactly as it is listed: the script's path and its options.
2. Never trim output (`| head`, `| tail`, `| grep`, `| jq`, `| sed`): you need \
all of it.
3. Never suppress errors (`2>/dev/null`, `2>&1`, `|| true`).
4. Never chain commands (`&&`, `||`, `;`), and never change the folder first.
5. Call a script by its path, never by the name of a skill or an agent.
{%- endif %}
6. The tools are {{ shown | join(", ") }}; nothing else exists.

A call that breaks a rule is blocked.\
"""

TERSE = """\
## Rules

{% if "bash" in tools -%}
Only the commands listed above, one a call, as they stand: no pipes, redirects, chains, \
heredocs, substitutions, prefixes or other programs. \
{% endif -%}
Tools: {{ shown | join(", ") }}. Everything else is denied.\
"""

VARIANTS: Mapping[str, str] = {"plain": PLAIN, "security": SECURITY, "terse": TERSE, "none": ""}


Place = Literal["start", "end", "both"]


@dataclass(frozen=True, slots=True)
class Setting:
    """`rules` is a template (see VARIANTS), `place` where it stands in the prompt.

    `start` is in the system message, where the scenario has it; `end` is after the task.
    `rules_name` is what a run records of the rules: their name and version. `context` is how many
    tokens a prompt is filled up to, 0 for none, at `per_token` characters a token.
    """

    profile: Profile = STRICT
    rules: str = PLAIN
    rules_name: str = f"plain/{VERSION}"
    place: Place = "start"
    context: int = 0
    per_token: float = 4.0

    @property
    def protocol(self) -> str:
        """Everything about the words that a model reads, and when a trial ends.

        Two runs are alike when it is equal.
        """
        said = f"{self.profile.protocol}, rules {self.rules_name} at {self.place}, {UNTIL}"
        return f"{said}, context {self.context}" if self.context else said

    def rules_for(self, tools: Sequence[str]) -> str:
        """The rules as the model reads them that is offered these tools of ours."""
        shown = [self.profile.forms[tool].name for tool in tools]
        names = self.profile.names(tuple(self.profile.forms))
        return fill(self.rules, {**names, "tools": tools, "shown": shown})


DEFAULT = Setting()
