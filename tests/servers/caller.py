"""The Markov model of the tests: an agent in a household's notes, whose mistakes are set."""

from itertools import pairwise

from markov import ASSISTANT, Chain

PIPED, FLAG, SILENT = 0.06, 0.03, 0.01  # of all calls, of all calls, of all turns

_HEAD = '<tool_call>\n{"name": "TOOL", "arguments": {"command": "'
_TAIL = '"}}\n</tool_call>'
_SAID = "I have looked at every note."
_COMMANDS = (
    "uv run scripts/notes.py list",
    "uv run scripts/notes.py notebooks",
    *(f"uv run scripts/notes.py show {number}" for number in range(1, 9)),
)


_CLOSING = "uv run scripts/notes.py finish --session 1000"


def chain(*, piped: float = PIPED, closes: float = 0.0, tool: str = "bash") -> Chain:
    """`closes` is the share of calls that close session 1000."""
    head = _HEAD.replace("TOOL", tool)
    mistakes = {" | head -5": piped, " --verbose": FLAG}
    commands = dict.fromkeys(_COMMANDS, (1 - closes) / len(_COMMANDS)) | {_CLOSING: closes}
    commands = {command: share for command, share in commands.items() if share}
    return {
        ASSISTANT: {head: 1 - SILENT, _SAID: SILENT},
        head: commands,
        **{command: {_TAIL: 1 - piped - FLAG} | mistakes for command in commands},
        **{mistake: {_TAIL: 1.0} for mistake in mistakes},
    }


INVENTED, BROKEN = 0.08, 0.05  # of all calls: a tool that nobody offers, an object left open


def split_chain() -> Chain:
    """The same agent in tokens as a model's vocabulary has them: a call is 19 or 20 of them.

    So a grammar can step between them, and a stream brings a call in as many pieces.
    """
    opening = ("<tool_call>", '\n{"', "name", '": "')
    between = ('", "', "arguments", '": {"', "command", '":', ' "', "uv", " run", " scripts")
    tools, numbers = ("bash", "shell"), [f" {number}" for number in range(1, 9)]
    ended = {'"}}\n': 1 - BROKEN, '"}\n': BROKEN}
    return {
        ASSISTANT: {opening[0]: 1 - SILENT, _SAID: SILENT},
        **_row(*opening),
        opening[-1]: {"bash": 1 - INVENTED, "shell": INVENTED},
        **{tool: {between[0]: 1.0} for tool in tools},
        **_row(*between, "/notes", ".py"),
        ".py": {" list": 0.1, " notebooks": 0.1, " show": 0.8},
        " show": dict.fromkeys(numbers, 1 / len(numbers)),
        **dict.fromkeys((" list", " notebooks", *numbers), ended),
        **{end: {"</tool_call>": 1.0} for end in ended},
    }


def _row(*pieces: str) -> Chain:
    """Each of these leads to the next."""
    return {piece: {following: 1.0} for piece, following in pairwise(pieces)}
