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


_CLOSING = "uv run scripts/notes.py finish --session 1000"


def chain(*, piped: float = PIPED, closes: float = 0.0) -> Chain:
    """`closes` is the share of calls that close session 1000."""
    mistakes = {" | head -5": piped, " --verbose": FLAG}
    commands = dict.fromkeys(_COMMANDS, (1 - closes) / len(_COMMANDS)) | {_CLOSING: closes}
    commands = {command: share for command, share in commands.items() if share}
    return {
        ASSISTANT: {_HEAD: 1 - SILENT, _SAID: SILENT},
        _HEAD: commands,
        **{command: {_TAIL: 1 - piped - FLAG} | mistakes for command in commands},
        **{mistake: {_TAIL: 1.0} for mistake in mistakes},
    }


INVENTED, BROKEN = 0.08, 0.05  # of all calls: a tool that nobody offers, an object left open


def split_chain() -> Chain:
    """The same agent in tokens as small as a model's, so that a grammar can step between them."""
    name, arguments = '\n{"name": "', '", "arguments": {"command": "'
    commands = dict.fromkeys(_COMMANDS, 1 / len(_COMMANDS))
    return {
        ASSISTANT: {"<tool_call>": 1 - SILENT, _SAID: SILENT},
        "<tool_call>": {name: 1.0},
        name: {"bash": 1 - INVENTED, "shell": INVENTED},
        "bash": {arguments: 1.0},
        "shell": {arguments: 1.0},
        arguments: commands,
        **{command: {'"}}': 1 - BROKEN, '"}': BROKEN} for command in commands},
        '"}}': {"\n</tool_call>": 1.0},
        '"}': {"\n</tool_call>": 1.0},
    }
