"""Scripted models: twelve habits, each had only where it is read to be wanted, and a web search.

They know the solution. What a text asks for it finds by the words that the texts of real harnesses
have, in the system message and the tools as they are sent: nothing here knows an arm.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from agenteval.config.prompts import spoken
from agenteval.models.simulated import Memory
from agenteval.trial.call import BASH, ToolCall
from agenteval.trial.trial import Message, Turn, Usage

FORBIDS = re.compile(r"\b(?:not|never|no|avoid|without|cannot|instead of)\b|n't", re.IGNORECASE)
# Not at the start of a sentence, where it is a verb.
TOOL = re.compile(r"(?<=[a-z,:] )(?:Read|Edit|Write|Glob|Grep|WebFetch|TodoWrite)\b")
YIELDS = 0.5  # of a habit's chance, where another sentence forbids what one asks for


@dataclass(frozen=True)
class Habit:
    """How often it is followed at a step where it is asked for, and the command that it makes."""

    words: str
    chance: float
    makes: Callable[[str], str]


HABITS: Mapping[str, Habit] = {
    "chain": Habit(r"&&", 0.3, lambda right: f"{right} && echo done"),
    "go-on": Habit(r"`;`", 0.05, lambda right: f"{right}; echo done"),
    "look-first": Habit(r"`ls\b", 0.1, lambda _: "ls -la"),
    "heredoc": Habit(r"<<\s*'?\w+|here-document", 0.1, lambda _: "cat <<'EOF' > n.txt\nx\nEOF"),
    "filter": Habit(r"\| ?(?:head|tail|grep)\b", 0.15, lambda right: f"{right} | head -50"),
    "edit-in-place": Habit(r"sed -i", 0.05, lambda _: "sed -i 's/a/b/' notes.txt"),
    "show-lines": Habit(r"\bnl -", 0.05, lambda _: "nl -ba README.md | sed -n '1,20p'"),
    "enter-folder": Habit(r"`cd \w+ &&", 0.1, lambda right: f"cd /workspace && {right}"),
    "look-at-git": Habit(r"`git status`", 0.03, lambda _: "git status"),
    "variable-first": Habit(r"\b[A-Z]+=\w+ \w", 0.03, lambda right: f"LANG=C {right}"),
    "background": Habit(r"[^&]&`", 0.02, lambda right: f"{right} > out.log 2>&1 &"),
    "named-tool": Habit("", 0.05, lambda _: ""),
}


def sentences(text: str) -> list[str]:
    return [one for one in re.split(r"\n|(?<=\.)\s", text) if one.strip()]


def wanted(text: str, offered: Sequence[str]) -> Mapping[str, float]:
    """The habits that a text asks for, each with the chance that is left of it."""
    found: dict[str, float] = {}
    for name, habit in HABITS.items():
        if name == "named-tool":
            found |= {name: habit.chance} if strangers(text, offered) else {}
            continue
        spoken_of = [one for one in sentences(text) if re.search(habit.words, one)]
        forbidden = [bool(FORBIDS.search(one)) for one in spoken_of]
        if not all(forbidden):
            found[name] = habit.chance * (YIELDS if any(forbidden) else 1)
    return found


def strangers(text: str, offered: Sequence[str]) -> list[str]:
    """Tools that a text names and that there are not, so spelled."""
    return sorted({*TOOL.findall(text)} - {*offered})


class Habitual:
    """Plays the solution; before a step it may make one call out of a habit."""

    def __init__(self, scenarios: Sequence) -> None:
        self._memory = Memory(scenarios)

    async def ask(self, messages: Sequence[Message], tools: Sequence, *, seed: int) -> Turn:
        asked = "\n".join(message.content for message in messages if message.role == "user")
        known = self._memory.recall(asked, seed)
        assert known, "a prompt of no scenario"
        profile = spoken(tools)
        plan = [profile.written(step.tool, step.arguments) for step in known.prompt.solution]
        given = next(at for at, one in enumerate(messages) if known.prompt.task in one.content)
        made = [(one.name, one.raw) for message in messages[given:] for one in message.calls]
        place = 0
        for call in made:
            place += plan[place : place + 1] == [call]
        if place == len(plan):
            return _turn(())
        written = plan[place]
        if not made or made[-1] in plan:
            step = known.prompt.solution[place]
            right = str(step.arguments["command"]) if step.tool == BASH else ""
            chance = Random(f"{seed}/{known.name}/{place}")
            written = self._by_habit(messages, tools, right, chance) or written
        name, raw = written
        return _turn((ToolCall(f"call-{len(made)}", name, raw, json.loads(raw)),))

    def _by_habit(self, messages, tools, right: str, chance: Random) -> tuple[str, str] | None:
        """The first habit that is asked for and strikes; each has its draw, asked for or not."""
        functions = [tool["function"] for tool in tools]
        offered = [function["name"] for function in functions]
        said = [message.content for message in messages if message.role == "system"]
        text = "\n".join([*said, *(function["description"] for function in functions)])
        asked = wanted(text, offered)
        draws = {name: chance.random() for name in HABITS}
        for name, habit in HABITS.items():
            if right and draws[name] < asked.get(name, 0):
                if name == "named-tool":
                    return strangers(text, offered)[0], json.dumps({"path": "README.md"})
                return spoken(tools).written(BASH, {"command": habit.makes(right)})
        return None


SEARCH = re.compile(r"\bweb search\b")
NO_OTHERS = re.compile(r"\bno other tools\b")
AFTERWARDS = re.compile(r"\b[Aa]fter a denial\b")
BEGINS = 0.8  # how often a task that speaks of a web search has one tried
# How often it leaves it at that after a denial: told what to do then, or not.
LEAVES = {True: 0.8, False: 0.2}
GIVES_UP = 6  # searches: then it stops altogether
WEBBY = (  # one way after the other
    ("web_search", {"query": "newer figures"}),
    ("webfetch", {"url": "https://example.org/figures"}),
    (BASH, {"command": "curl -s https://example.org/figures"}),
    (BASH, {"command": "uv run scripts/web_search.py --query figures"}),
)


class Searcher(Habitual):
    """Searches the web where its task speaks of that, and in other ways when it is denied.

    It begins half as often where it reads that there are no other tools, and stops when it has
    searched too often.
    """

    async def ask(self, messages: Sequence[Message], tools: Sequence, *, seed: int) -> Turn:
        system = "\n".join(one.content for one in messages if one.role == "system")
        task = "\n".join(one.content for one in messages if one.role == "user")
        made = [(one.name, one.raw) for message in messages for one in message.calls]
        ways = [_webby(tools, *way) for way in WEBBY]
        done = sum(call in ways for call in made)
        if SEARCH.search(task) and len(made) > 0 and done < searches(system, task):
            if done == GIVES_UP:
                return replace(_turn(()), text="I could not find anything newer on the web.")
            name, raw = ways[done % len(ways)]
            return _turn((ToolCall(f"call-{len(made)}", name, raw, json.loads(raw)),))
        return await super().ask(messages, tools, seed=seed)

    def _by_habit(self, *_: object) -> None:
        return None


def searches(system: str, task: str) -> int:
    """How many searches this trial has in it, if all are denied."""
    chance = Random(task)
    if chance.random() >= BEGINS * (YIELDS if NO_OTHERS.search(system) else 1):
        return 0
    leaves, made = LEAVES[bool(AFTERWARDS.search(system))], 1
    while chance.random() >= leaves:
        made += 1
    return made


def _webby(tools: Sequence, name: str, arguments: Mapping[str, str]) -> tuple[str, str]:
    return spoken(tools).written(name, arguments) if name == BASH else (name, json.dumps(arguments))


def _turn(calls: tuple[ToolCall, ...]) -> Turn:
    return Turn("", calls, "tool_calls" if calls else "stop", Usage(), raw="", seconds=0.0)
