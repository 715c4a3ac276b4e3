"""Material that fills a prompt to a length: what stands around a task in production.

A catalogue of sub-agents, what other agents run, notes of a scratchpad, and a chat with earlier
tool calls. All of it follows from the trial's seed. Nothing in it tells how the task is done: the
earlier calls are asks for `--help` of listed scripts, their output cleared as harnesses do.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agenteval.core.call import BASH, ToolCall
from agenteval.core.chance import Chance
from agenteval.core.prompt.profile import Profile
from agenteval.core.prompt.prompt import Prompt, render
from agenteval.core.prompt.setting import Setting
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Message

AREAS = (
    "archive", "audio", "budget", "calendar", "contacts", "digest", "energy", "feeds", "garden",
    "health", "house", "images", "inbox", "invoices", "library", "maps", "meals", "metrics",
    "news", "notes", "papers", "photos", "podcasts", "reading", "recipes", "research", "shopping",
    "sports", "stocks", "strategy", "tasks", "travel", "video", "weather", "writing",
)  # fmt: skip
KINDS = (
    "auditor", "clerk", "collector", "critic", "editor", "finder", "keeper", "linker", "planner",
    "reader", "reporter", "reviewer", "scheduler", "sorter", "summariser", "tagger", "tracker",
    "watcher", "writer",
)  # fmt: skip
DOING = (
    "collects", "compares", "checks", "describes", "draws up", "explains", "files", "finds",
    "keeps", "lists", "marks", "merges", "orders", "plans", "ranks", "reads", "reports on",
    "reviews", "sorts", "summarises", "tags", "translates", "watches", "writes up",
)  # fmt: skip
THINGS = (
    "the monthly figures", "open questions of the last review", "letters that wait for an answer",
    "receipts above the limit", "the reading list of this quarter", "drafts nobody has approved",
    "sources with a date", "rooms that are used at night", "readings of the meters",
    "appointments that clash", "the plan for the weekend", "parts that were ordered twice",
    "warnings of the last run", "pictures without a caption", "the decisions of the last meeting",
    "chapters that were summarised", "subscriptions that end soon", "the weather of the week",
    "stages that were passed", "comments of the evaluator", "the inventory of the cellar",
    "names that are written in two ways", "tickets that were closed", "the route with a stop",
)  # fmt: skip
PLACES = (
    "for the morning digest", "in the family folder", "of the research loop", "before noon",
    "with their sources", "for the next stage", "once a week", "in plain sentences",
    "and says what is missing", "by date", "by the person concerned", "for the archive",
    "without repeating what is known", "with a figure and its unit", "in the order of urgency",
    "for whoever asks next", "as they stood at midnight", "in one table",
)  # fmt: skip
ASKED = (
    "What became of", "Who looks after", "Can you tell me more about", "Is there news about",
    "How do we keep", "When did we last go through", "Which agent owns", "What is still open in",
)  # fmt: skip
FOUND = (
    "The last report mentions", "Nothing has changed in", "Two entries were added to",
    "The owner asked to keep", "It was agreed to review", "There is a note about",
    "The newest version has", "Somebody still has to confirm", "The digest of Monday covered",
)  # fmt: skip
NOTED = (
    "look again at", "done with", "waiting for", "asked about", "moved", "half of", "no news of",
    "remember", "compare with last year:",
)  # fmt: skip


CLEARED = "[old tool output cleared]"
# Shares of what is filled, as in the prompts of such orchestrators: lists first, then the chat.
SECTIONS: Sequence[tuple[str, float]] = (("agents", 0.35), ("scripts", 0.15), ("notes", 0.1))
_SCRIPT = re.compile(r"uv run (scripts/[\w/]+\.py)")


def posed(scenario: Scenario, seed: int, setting: Setting) -> Prompt:
    """The scenario as the trial with this seed reads it, in the length that was asked for."""
    prompt = render(scenario, seed, setting)
    return lengthened(prompt, setting, Chance(f"{scenario.name}/{seed}//context"))


def lengthened(prompt: Prompt, setting: Setting, chance: Chance) -> Prompt:
    """The prompt in the length that was asked for."""
    if not setting.context:
        return prompt
    characters = round(setting.context * setting.per_token)
    return filled(prompt, characters, setting.profile, chance)


def filled(prompt: Prompt, characters: int, profile: Profile, chance: Chance) -> Prompt:
    """The prompt with so many characters in its messages, or as it is when it has more."""
    missing = characters - len(prompt.system) - len(prompt.task)
    if missing <= 0:
        return prompt
    parts = [prompt.system]
    for name, share in SECTIONS:
        title, line = _SECTIONS[name]
        parts.append(f"{title}\n\n{_lines(line, round(missing * share), chance)}")
    system = "\n\n".join(parts)
    chat = _chat(prompt, profile, chance)
    left = characters - len(system) - len(prompt.task)
    return replace(prompt, system=system, history=tuple(_taken(chat, left)))


def _lines(line: Callable[[Chance], str], characters: int, chance: Chance) -> str:
    lines: list[str] = []
    while characters > 0:
        lines.append(line(chance))
        characters -= len(lines[-1]) + 1
    return "\n".join(lines)


def _agent(chance: Chance) -> str:
    area, kind = chance.choice(AREAS), chance.choice(KINDS)
    return (
        f"- {area}-{kind}-{chance.integer(1, 9)}: {chance.choice(DOING)} "
        f"{chance.choice(THINGS)} {chance.choice(PLACES)}."
    )


def _script(chance: Chance) -> str:
    name = f"{chance.choice(AREAS)}_{chance.choice(KINDS)}"
    owners = chance.choice(AREAS)
    return f"- {name} (agents of {owners}): {chance.choice(DOING)} {chance.choice(THINGS)}."


def _note(chance: Chance) -> str:
    day = chance.day("2026-01-01", "2026-06-30")
    return f"- {day}: {chance.choice(NOTED)} {chance.choice(THINGS)} {chance.choice(PLACES)}."


_SECTIONS: dict[str, tuple[str, Callable[[Chance], str]]] = {
    "agents": ("## Other agents of this system, each with its own tools", _agent),
    "scripts": ("## What other agents run, none of it on your list", _script),
    "notes": ("## Scratchpad", _note),
}


def _chat(prompt: Prompt, profile: Profile, chance: Chance) -> Iterator[tuple[Message, ...]]:
    """Exchanges without end: a question, now and then a look at a script's help, an answer."""
    scripts = sorted(
        {
            found.group(1)
            for step in prompt.solution
            if step.tool == BASH and (found := _SCRIPT.search(str(step.arguments["command"])))
        }
    )
    number = 0
    while True:
        number += 1
        thing = chance.choice(THINGS)
        question = Message("user", f"{chance.choice(ASKED)} {thing}?")
        looked: tuple[Message, ...] = ()
        if scripts and chance.integer(1, 4) == 1:
            looked = _looked(number, chance.choice(scripts), profile)
        findings = " ".join(
            f"{chance.choice(FOUND)} {chance.choice(THINGS)} {chance.choice(PLACES)}."
            for _ in range(chance.integer(2, 9))
        )
        yield (question, *looked, Message("assistant", f"About {thing}: {findings}"))


def _looked(number: int, script: str, profile: Profile) -> tuple[Message, ...]:
    name, raw = profile.written(BASH, {"command": f"uv run {script} --help"})
    call = ToolCall(f"earlier-{number}", name, raw)
    return Message("assistant", "", (call,)), Message("tool", CLEARED, call_id=call.id)


def _taken(chat: Iterator[tuple[Message, ...]], characters: int) -> Iterator[Message]:
    while characters > 0:
        exchange = next(chat)
        characters -= sum(len(message.content) for message in exchange)
        yield from exchange
