"""Earlier tasks before the task of a long conversation, as they really were played.

`workflows.earlier` plays them. Here a trial takes some of them, by its seed, until its prompt has
the configured length and share of denied calls. Tasks in the same fixture are turns of this
conversation; others are reports of their agents. Nothing reveals how the task at hand is done: it
is never among them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agenteval.core.chance import Chance
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import Earlier, Setting
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Message

NOTED = "Noted."
CUT = "[the beginning of this report was left out]\n"


def lengthened(prompt: Prompt, scenario: Scenario, setting: Setting, chance: Chance) -> Prompt:
    """Return the prompt of an agent of this scenario in the configured length.

    Raises KeyError if nothing was played for it.
    """
    if not setting.context:
        return prompt
    budget = round(setting.context * setting.per_token) - len(prompt.system) - len(prompt.task)
    if budget <= 0:
        return prompt
    past = chance.shuffled(setting.earlier[scenario.name])
    tasks = [*_selected(past, scenario.fixture, budget, setting.denied)]
    return replace(prompt, history=tuple(_numbered(message for one in tasks for message in one)))


def _selected(
    past: Sequence[Earlier], fixture: str, budget: int, share: int
) -> Iterator[tuple[Message, ...]]:
    """Yield the tasks that fit; before them, the end of one more report fills up the length."""
    selected: list[tuple[Message, ...]] = []
    waiting, calls, denied = list(past), 0, 0
    while waiting and budget > 0:
        needs_denials = 100 * denied < share * calls
        fitting = [
            task for task in waiting if sum(map(_length, _as_messages(task, fixture))) <= budget
        ]
        fitting = [task for task in fitting if share or not task.denied] or fitting[:0]
        if not fitting:
            break
        task = next((task for task in fitting if (task.denied > 0) is needs_denials), fitting[0])
        waiting.remove(task)
        calls, denied = calls + task.calls, denied + task.denied
        selected.append(_as_messages(task, fixture))
        budget -= sum(map(_length, selected[-1]))
    rest = next((task for task in waiting if (share or not task.denied)), None)
    space = budget - len(CUT) - len(NOTED)
    if rest and space > 0:
        yield Message("user", CUT + _report(rest)[-space:]), Message("assistant", NOTED)
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


def _length(message: Message) -> int:
    return len(message.content)


def _numbered(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages, each call and its reply with an id of its own in this conversation."""
    number, ids = 0, dict[str, str]()
    for message in messages:
        if message.calls:
            ids = {call.id: f"earlier-{number + at}" for at, call in enumerate(message.calls)}
            number += len(ids)
            calls = tuple(replace(call, id=ids[call.id]) for call in message.calls)
            yield replace(message, calls=calls)
        else:
            yield replace(message, call_id=ids[message.call_id]) if message.call_id else message
