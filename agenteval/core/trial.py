"""A trial as it happened: messages, turns, calls and how it ended."""

from dataclasses import dataclass
from typing import Literal

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.garble import Garble, Repair
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.timing import Timing


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a transcript, in the shape every chat server understands."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; 0 when it did not say.

    Reasoning is a part of the completion, and cached tokens are a part of the prompt.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model. `raw` is the reply as received, before any parsing.

    `timing` is None where the reply came in one piece. `repairs` says what the conversation that is
    sent back has in the place of what a server would not take.
    """

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    raw: str
    seconds: float
    timing: Timing | None = None
    garbles: tuple[Garble, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class Execution:
    """What running an allowed call gave.

    `exit_code` is None when a limit ended the command; `limit` then names it (`wall-time`,
    `memory`, `output`, ...). `output` is stdout and stderr as they came, cut at the output limit;
    `cut` says that it was.
    """

    exit_code: int | None
    output: str
    seconds: float
    limit: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call with all that followed from it. `turn` and `position` count from 0."""

    turn: int
    position: int
    call: ToolCall
    verdict: Verdict
    reply: str
    execution: Execution | None = None
    objection: str = ""  # what the second reader said, when it was asked and did not agree


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """One ordered step of a handshake, and whether the world shows it done."""

    name: str
    reached: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at one scenario, finished. `number` counts from 1 within its run and scenario."""

    scenario: str
    number: int
    seed: int
    turns: tuple[Turn, ...]
    calls: tuple[CallRecord, ...]
    ending: Ending
    outcome: Outcome
    reason: str = ""
    handshake: tuple[HandshakeStep, ...] = ()
    seconds: float = 0.0
