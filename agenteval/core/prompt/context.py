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
    left = round(setting.context * setting.per_token) - len(prompt.system) - len(prompt.task)
    if left <= 0:
        return prompt
    past = chance.shuffled(setting.earlier[scenario.name])
    told = [*_told(past, scenario.fixture, left, setting.denied)]
    return replace(prompt, history=tuple(_numbered(message for one in told for message in one)))


def _told(
    past: Sequence[Earlier], fixture: str, left: int, share: int
) -> Iterator[tuple[Message, ...]]:
    """Yield the tasks that fit; before them, the end of one more report fills up the length."""
    taken: list[tuple[Message, ...]] = []
    waiting, calls, denied = list(past), 0, 0
    while waiting and left > 0:
        wanted = 100 * denied < share * calls
        fitting = [one for one in waiting if sum(map(_length, _shown(one, fixture))) <= left]
        fitting = [one for one in fitting if share or not one.denied] or fitting[:0]
        if not fitting:
            break
        one = next((one for one in fitting if (one.denied > 0) is wanted), fitting[0])
        waiting.remove(one)
        calls, denied = calls + one.calls, denied + one.denied
        taken.append(_shown(one, fixture))
        left -= sum(map(_length, taken[-1]))
    rest = next((one for one in waiting if (share or not one.denied)), None)
    room = left - len(CUT) - len(NOTED)
    if rest and room > 0:
        yield Message("user", CUT + _report(rest)[-room:]), Message("assistant", NOTED)
    yield from taken


def _shown(one: Earlier, fixture: str) -> tuple[Message, ...]:
    if one.fixture == fixture and not one.agent:
        return one.messages
    return Message("user", _report(one)), Message("assistant", NOTED)


def _report(one: Earlier) -> str:
    """Return the report of an agent on another task, with all that it saw."""
    task, *done = one.messages
    name = one.agent or one.scenario.replace("/", "-")
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
