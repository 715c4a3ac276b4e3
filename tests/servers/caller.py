"""The Markov model of the tests: an agent in a household's notes, whose mistakes are set."""

from markov import ASSISTANT, Chain

PIPED, FLAG, SILENT = 0.06, 0.03, 0.01  # of all calls, of all calls, of all turns

_HEAD = '<tool_call>\n{"name": "bash", "arguments": {"command": "'
_TAIL = '"}}\n</tool_call>'
_SAID = "I have looked at every note."
_COMMANDS = (
    "uv run scripts/notes.py list",
    "uv run scripts/notes.py notebooks",
    *(f"uv run scripts/notes.py show {number}" for number in range(1, 9)),
)


def chain() -> Chain:
    mistakes = {" | head -5": PIPED, " --verbose": FLAG}
    return {
        ASSISTANT: {_HEAD: 1 - SILENT, _SAID: SILENT},
        _HEAD: dict.fromkeys(_COMMANDS, 1 / len(_COMMANDS)),
        **{command: {_TAIL: 1 - PIPED - FLAG} | mistakes for command in _COMMANDS},
        **{mistake: {_TAIL: 1.0} for mistake in mistakes},
    }
