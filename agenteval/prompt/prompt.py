"""The prompt and goal of one trial: its scenario rendered for a seed; and its sub-agents.

In order: templates, which a stranger may have written, so only the confined child of
`sandbox.maker` fills one; the variables that a seed draws; the rules that a prompt may name; the
setting of a run's prompts; the prompt itself; earlier tasks before the task of a long
conversation, as they really were played (`workflows.earlier` plays them). Here a trial takes
some of them, by its seed, until its prompt has the configured length and share of denied calls.
Tasks in the same fixture are turns of this conversation; others are reports of their agents.
Nothing reveals how the task at hand is done: it is never among them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from types import MethodType
from typing import Any, Literal

from jinja2 import DictLoader, StrictUndefined, Template, TemplateError, TemplateRuntimeError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agenteval.prompt.arm import STRICT, Arm, Profile
from agenteval.trial.run import OURS, ArmCard
from agenteval.trial.text import DRAWS, Chance, Value
from agenteval.trial.trial import Agent, Check, Message, Scenario, Step, Trace


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a short cut for what fixtures use in every line: draws and texts."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is Chance and attribute in DRAWS:
            return getattr(obj, attribute)
        if type(obj) is Namespace and attribute.isalpha():
            value = getattr(obj, attribute, None)
            if type(value) is str:
                return value
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if type(obj) is Chance:
            return attr in DRAWS
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(obj) is MethodType and type(obj.__self__) is Chance:
            kwargs.pop("_loop_vars", None)  # a template adds both, for functions that ask for them
            kwargs.pop("_block_vars", None)
            return obj(*args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


_TEMPLATES = _Sandbox(
    loader=DictLoader({}),  # no file is ever included
    undefined=StrictUndefined,
    autoescape=False,  # the reader is a model and no browser
    keep_trailing_newline=True,
)


@lru_cache(maxsize=4096)
def _template(text: str) -> Template:
    return _TEMPLATES.from_string(text)


# What an author's expression may raise, from a division by zero to macros without end.
_SLIPS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """Fill `text` as a template; raises jinja2.TemplateError for whatever is wrong with it."""
    if "{" not in text:
        return text  # most queries and words hold nothing to fill
    try:
        return _template(text).render(variables)
    except _SLIPS as error:
        raise TemplateRuntimeError(f"{type(error).__name__}: {error}") from error


# Variables.

Variables = Mapping[str, Value]


def drawn(scenario: Scenario, seed: int) -> dict[str, Value]:
    """Return the variables of this seed, without the answers to an `[ask]`.

    A `[[variant]]` comes by turns, so neighbouring seeds use all equally; each `[draw]` has a
    stream of its own, so that one more changes no other.
    """
    variables: dict[str, Value] = dict(scenario.variants[seed % len(scenario.variants)])
    for name, draw in scenario.draws.items():
        variables[name] = draw.drawn(Chance(f"{scenario.name}/{seed}/{name}"))
    return variables


def script(scenario: Scenario, seed: int) -> str:
    """Return the SQL that fills the database for this seed. Its draws come from the seed too.

    Raises jinja2.TemplateError.
    """
    chance = Chance(f"{scenario.name}/{seed}//world")
    variables = {**drawn(scenario, seed), "words": scenario.words, "chance": chance}
    return fill(scenario.world, variables)


def one_line(query: str) -> str:
    return " ".join(query.split())


# Rules.

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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# The failure classes that a set of rules names by word or form, or what is told beside it.
NAMED: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "five": _words(
        "pipe-to-filter stderr-redirect shell-chain file-redirect heredoc-to-file wrong-runner"
    ),
    "all": _words(
        "pipe-to-filter pipe stderr-redirect file-redirect shell-chain heredoc heredoc-to-file"
        " command-substitution env-assignment background wrapper-prefix bare-binary inline-code"
        " unlisted-script hallucinated-flag blocked-path"
    ),
    "tools": ("hallucinated-tool",),
    "after": (),
}


def _variants() -> Iterator[tuple[str, str]]:
    """Yield each set of rules with none, one or both of the sentences that may be added to it."""
    for name, rules in RULES.items():
        for extras in ((), ("tools",), ("after",), ("tools", "after")):
            parts = [rules] if rules else []
            parts += [TOLD[extra] for extra in extras]
            text = "\n\n".join([HEADING, *parts])
            yield "+".join((name, *extras)), text if parts else ""


VARIANTS: Mapping[str, str] = dict(_variants())

# The setting.

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

# The prompt.

SYSTEM_HEADING = "# System\n"
TASK_HEADING = "# Task\n"
_GAP = re.compile(r"\n{3,}")  # where the rules would stand


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first messages of an agent; of a trial's first agent also the checks that judge it.

    Its first messages are `system`, the `history` of a chat that went before, and `task`. The last
    `closing` steps of the solution close the work, and of `another`, a second way to the goal.
    `requests` are the queries whose rows request sub-agents, one for each that the scenario has.
    """

    system: str
    task: str
    variables: Variables
    goal: tuple[Check, ...]
    handshake: tuple[Check, ...]
    solution: tuple[Step, ...]
    history: tuple[Message, ...] = ()
    closing: int = 1
    traces: tuple[Trace, ...] = ()
    another: tuple[Step, ...] = ()
    requests: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return (Message("system", self.system), *self.history, Message("user", self.task))


def render(
    scenario: Scenario,
    chosen: Variables,
    setting: Setting = DEFAULT,
) -> Prompt:
    """Return the scenario as the trial sees it that has these variables.

    Raises jinja2.TemplateError, and ValueError when a heading is missing.
    """
    system, task = texts(scenario.instructions, scenario.tools, chosen, setting)
    return Prompt(
        system=system,
        task=task,
        variables=chosen,
        goal=_checks(scenario.goal, chosen),
        handshake=_checks(scenario.handshake, chosen),
        solution=_steps(scenario.solution, chosen),
        closing=scenario.closing or max(1, len(scenario.handshake)),
        traces=_traces(scenario.traces, chosen),
        another=_steps(scenario.another, chosen),
        requests=_requests(scenario.agents, chosen),
    )


def render_agent(
    agent: Agent,
    variables: Variables,
    setting: Setting = DEFAULT,
) -> Prompt:
    """Return a sub-agent's prompt, by the variables of the trial and of the requesting row."""
    system, task = texts(agent.instructions, agent.tools, variables, setting)
    return Prompt(
        system=system,
        task=task,
        variables=variables,
        goal=(),
        handshake=(),
        solution=_steps(agent.solution, variables),
        closing=agent.closing,
    )


def texts(
    instructions: str,
    tools: Sequence[str],
    chosen: Variables,
    setting: Setting,
) -> tuple[str, str]:
    """Return the system message and the task."""
    system, task = _split_instructions(instructions)
    rules = rules_for(setting, tools)
    variables = {**setting.profile.names(tuple(setting.profile.forms)), **chosen}
    task = fill(task, {**variables, "rules": rules}).strip()
    if setting.place != "start":
        task = f"{task}\n\n{rules}"
    rules_above = rules if setting.place != "end" else ""
    system = fill(system, {**variables, "rules": rules_above}).strip()
    frame = fill(setting.arm.frame, variables)
    if setting.arm.words == OURS:
        frame = _GAP.sub("\n\n", frame)
    system = _GAP.sub("\n\n", system)
    return f"{frame}\n\n{system}".lstrip(), task


def rules_for(setting: Setting, tools: Sequence[str]) -> str:
    """Return the rules as a model reads them whose scenario offers these tools of ours."""
    profile = setting.profile
    offered = setting.arm.offered(tools)
    shown = [profile.forms[tool].name for tool in offered]
    names = profile.names(tuple(profile.forms))
    return fill(setting.rules, {**names, "tools": offered, "shown": shown})


def _split_instructions(instructions: str) -> tuple[str, str]:
    """Return the system part and the task part, without their headings."""
    before, found_system, rest = instructions.partition(SYSTEM_HEADING)
    system, found_task, task = rest.partition("\n" + TASK_HEADING)
    if before.strip() or not found_system or not found_task:
        raise ValueError("it must begin with `# System` and go on with `# Task`, each on its line")
    return system, task


def _requests(agents: Sequence[Agent], chosen: Variables) -> tuple[str, ...]:
    queries = []
    for number, agent in enumerate(agents):
        try:
            queries.append(fill(agent.spawned, chosen))
        except TemplateError as error:
            raise TemplateRuntimeError(f"agent.{number}.spawned: {error}") from error
    return tuple(queries)


def _checks(checks: Sequence[Check], chosen: Variables) -> tuple[Check, ...]:
    filled = []
    for check in checks:
        query = fill(check.query, chosen)
        filled.append(replace(check, query=query, expect=_fill_text(check.expect, chosen)))
    return tuple(filled)


def _traces(traces: Sequence[Trace], chosen: Variables) -> tuple[Trace, ...]:
    filled = []
    for trace in traces:
        calls = tuple(fill(call, chosen) for call in trace.calls)
        filled.append(replace(trace, calls=calls))
    return tuple(filled)


def _steps(steps: Sequence[Step], chosen: Variables) -> tuple[Step, ...]:
    filled = []
    for step in steps:
        arguments = {name: _fill_text(value, chosen) for name, value in step.arguments.items()}
        filled.append(replace(step, arguments=arguments))
    return tuple(filled)


def _fill_text(value: Any, chosen: Variables) -> Any:
    return fill(value, chosen) if isinstance(value, str) else value


_COLUMN = re.compile("\0(\\w+)\0")  # a place in a task where a column of the request stands


def outline(
    agent: Agent,
    columns: Sequence[str],
    variables: Variables,
    setting: Setting = DEFAULT,
) -> Prompt:
    """Return what such an agent reads, with `<column>` where a value of its request will stand."""
    marks = {name: f"<{name}>" for name in columns}
    return render_agent(agent, {**variables, **marks}, setting)


def recognised(
    agent: Agent,
    columns: Sequence[str],
    variables: Variables,
    transcript: str,
) -> Prompt | None:
    """Return the prompt of the agent whose task comes last in the transcript; None without one.

    The columns of its request are read from that task. A column that the task does not show is
    unknown to every reader, and to the solution.
    """
    marked = {name: f"\0{name}\0" for name in columns}
    _, task = texts(agent.instructions, agent.tools, {**variables, **marked}, DEFAULT)
    tasks = list(re.finditer(_pattern(task), transcript, re.DOTALL))
    if not tasks:
        return None
    return render_agent(agent, {**variables, **tasks[-1].groupdict()})


def _pattern(task: str) -> str:
    """Return a pattern of the task, with a named group for each column, to its message's end."""
    parts, named_columns = [], set[str]()
    for at, part in enumerate(_COLUMN.split(task)):
        if at % 2 == 0:
            parts.append(re.escape(part))
        else:
            parts.append(f"(?P={part})" if part in named_columns else f"(?P<{part}>.*?)")
            named_columns.add(part)
    return "".join(parts) + r"(?=\n\n|\Z)"


# Earlier tasks.

NOTED = "Noted."
CUT = "[the beginning of this report was left out]\n"


def lengthened(
    prompt: Prompt,
    scenario: Scenario,
    setting: Setting,
    chance: Chance,
) -> Prompt:
    """Return the prompt of an agent of this scenario in the configured length.

    Raises KeyError if nothing was played for it.
    """
    if not setting.context:
        return prompt
    budget = round(setting.context * setting.per_token)
    budget -= len(prompt.system) + len(prompt.task)
    if budget <= 0:
        return prompt
    past = chance.shuffled(setting.earlier[scenario.name])
    tasks = _selected(past, scenario.fixture, budget, setting.denied)
    messages = chain.from_iterable(tasks)
    return replace(prompt, history=tuple(_numbered(messages)))


def _selected(
    past: Sequence[Earlier],
    fixture: str,
    budget: int,
    share: int,
) -> Iterator[tuple[Message, ...]]:
    """Yield the tasks that fit; before them, the end of one more report fills up the length."""
    selected: list[tuple[Message, ...]] = []
    waiting, calls, denied = list(past), 0, 0
    while waiting and budget > 0:
        needs_denials = 100 * denied < share * calls
        usable = [task for task in waiting if share or not task.denied]
        fitting = [task for task in usable if _length_of(_as_messages(task, fixture)) <= budget]
        if not fitting:
            break
        wanted = (task for task in fitting if (task.denied > 0) is needs_denials)
        task = next(wanted, fitting[0])
        waiting.remove(task)
        calls += task.calls
        denied += task.denied
        messages = _as_messages(task, fixture)
        selected.append(messages)
        budget -= _length_of(messages)
    rest = next((task for task in waiting if share or not task.denied), None)
    space = budget - len(CUT) - len(NOTED)
    if rest and space > 0:
        report = CUT + _report(rest)[-space:]
        yield Message("user", report), Message("assistant", NOTED)
    yield from selected


def _as_messages(task: Earlier, fixture: str) -> tuple[Message, ...]:
    if task.fixture == fixture and not task.agent:
        return task.messages
    return Message("user", _report(task)), Message("assistant", NOTED)


def _report(earlier: Earlier) -> str:
    """Return the report of an agent on another task, with all that it saw."""
    task, *done = earlier.messages
    name = earlier.agent or earlier.scenario.replace("/", "-")
    lines = [f"The agent {name} has ended. Its task was:", "", task.content, "", "What it did:"]
    for message in done:
        lines += [f"> {call.name} {call.raw}" for call in message.calls]
        lines += [message.content] if message.content else []
    return "\n".join(lines)


def _length_of(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _numbered(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages, each call and its reply with an id of its own in this conversation."""
    number = 0
    ids: dict[str, str] = {}
    for message in messages:
        if message.calls:
            ids = {call.id: f"earlier-{at}" for at, call in enumerate(message.calls, number)}
            number += len(ids)
            calls = tuple(replace(call, id=ids[call.id]) for call in message.calls)
            yield replace(message, calls=calls)
        elif message.call_id:
            yield replace(message, call_id=ids[message.call_id])
        else:
            yield message
