"""The intent of a tool call, by which two calls are recognised as doing the same.

The same intent is the same action on the same object. It is read from the text alone, however
broken that is: nothing here depends on what a shell would do.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from agenteval.core.alike import OF_FILES, READS, REMOVES, WRITES, Command, Kinds, same_command
from agenteval.core.call import BASH, ToolCall
from agenteval.core.shell.programs import names

READ = 4_000  # characters of a call

_WORDS = re.compile(r"[^\s'\"`|&;<>(){}\[\]$,:=/\\]+")
_TOKENS = re.compile(
    r"""
      "(?:[^"\\]|\\.)*\\?(?:"|\Z) | '[^']*(?:'|\Z)
    | \d?[<>]+(?:&\d?)? | &&|\|\|?|;|&|\n
    | [^\s"'|;&<>]+
    """,
    re.DOTALL | re.VERBOSE,
)
_VARIABLE = re.compile(r"\$\{?\w+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SCRIPT = re.compile(r".+\.(?:py|sh|js|ts|rb|pl)")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_RANGE = re.compile(r"[\d,]+[ps]?")  # of lines, as for sed, or a time
_BROKEN_JSON = re.compile(r"^\W*(?:command|cmd)\W+")


_ENDS = frozenset({"&&", "||", ";", "&", "\n"})
_WRAPPERS = names(
    "sudo env time nohup command exec nice stdbuf timeout uv uvx npx run python python3 node "
    "bash sh if do then"
)
_CODE = frozenset({"-c", "-e"})  # what follows is a program, and no file
# What only prepares; for a chain of nothing else, it is what was wanted.
_PREPARES = names("cd export unset source true false echo printf sleep for while done fi")
_FILTERS = names("head tail grep wc jq sort uniq awk sed cut less more tr column cat")
_PRINTS = frozenset({"echo", "printf", "cat"})
_NAMED = frozenset({"--command", "--action"})  # options whose value is a subcommand
_SIZES = names("-n --limit --max --top --lines --head --tail --count")
_SIZE = re.compile(r"[+-]?[0-9]+[a-zA-Z]*")  # of tail -n +20 too; no word, as in grep -n tea

# One name for all that does the same to files, as programs and as tools.
_ACTIONS = {
    name: action
    for action, programs in {
        READS: "cat head tail less more nl bat sed wc read read_file view open",
        WRITES: "tee touch write write_file edit create",
        REMOVES: "rm rmdir unlink del delete",
        "(list)": "ls find tree glob list list_directory list_dir",
        "(search)": "grep egrep fgrep rg ag ack search_file_content",
        "(fetch)": "curl wget webfetch web_fetch fetch_url",
    }.items()
    for name in programs.split()
}
_NO_OBJECT = names(
    "select from where order by group and or not limit as the a an of to in for with is on please"
)
_UNTOLD = names("description timeout timeout_ms timeout_seconds")


class Intent(NamedTuple):
    """The intent of a call.

    `key` is equal for calls that differ in nothing but white space, description and timeout.
    """

    key: str
    commands: tuple[Command, ...]
    words: frozenset[str]

    @property
    def kinds(self) -> Kinds:
        return tuple(command.kind for command in self.commands)


def intent_of(call: ToolCall) -> Intent:
    only = call.command if call.arguments is not None and len(call.arguments) == 1 else None
    return _of_call(call) if only is None or len(only) > READ else _of_command(only)


@lru_cache(maxsize=1 << 14)  # agents repeat theirs
def _of_command(command: str) -> Intent:
    return _of_call(ToolCall("", BASH, command, {"command": command}))


def _of_call(call: ToolCall) -> Intent:
    text = _text(call)
    commands = _commands(text) if call.name == BASH else (_of_tool(call, text),)
    return Intent(_key(call), tuple(commands), frozenset({call.name, *_WORDS.findall(text)}))


def likeness(one: Intent, other: Intent) -> float:
    """The share of words that two calls have in common: 1.0 when all are, 0.0 when none is."""
    return len(one.words & other.words) / len(one.words | other.words)


def same_intent(one: Intent, other: Intent) -> bool:
    if one.key == other.key:
        return True
    for command in one.commands:
        for other_command in other.commands:
            if same_command(command, other_command):
                return True
    return False


def _text(call: ToolCall) -> str:
    if call.command is not None:
        return call.command[:READ]
    if call.arguments is None:
        return _BROKEN_JSON.sub("", call.raw[:READ])
    told = (value for name, value in call.arguments.items() if name not in _UNTOLD)
    return " ".join(str(value)[:READ] for value in told)[:READ]


def _key(call: ToolCall) -> str:
    if call.arguments is None:
        return f"{call.name} unread {call.raw}"
    named = [
        f"{name}={' '.join(_TOKENS.findall(str(value)))}"
        for name, value in sorted(call.arguments.items())
        if name not in _UNTOLD
    ]
    return " ".join((call.name, *named))


def _commands(text: str) -> Sequence[Command]:
    found = [_command(words) for words in _simple(_TOKENS.findall(text))]
    meant = [one for one in found if one.name not in _PREPARES]
    return meant or found


def _simple(tokens: Sequence[str]) -> Iterator[list[str]]:
    """The tokens of each simple command, without the filters that a pipe leads to."""
    words: list[str] = []
    piped = False
    for part in (*tokens, "\n"):
        if part not in _ENDS and part != "|":
            if part.lstrip("0123456789") in {"<<", "<<<"}:
                break  # what follows is the text of a file
            words.append(part)
            continue
        if words and not (piped and words[0] in _FILTERS):
            yield words
        words, piped = [], part == "|"
    if words:
        yield words


def _command(tokens: Sequence[str]) -> Command:
    words, written = _redirected(tokens)
    words = _unwrapped(words)
    first, rest = (words[0], words[1:]) if words else ("", [])
    base = _bare(first).rpartition("/")[2]
    if written and base in _PRINTS:
        return Command(WRITES, words=frozenset({_bare(written)}))
    if first in _CODE:
        return Command("(code)", words=_content(rest))
    action = _ACTIONS.get(base)
    if base == "sed" and any(word.startswith("-i") for word in rest):
        action = WRITES
    sizes = {
        value for option, value in pairwise(rest) if option in _SIZES and _SIZE.fullmatch(value)
    }
    operands = [word for word in rest if word[0] != "-" and word not in sizes]
    if action in OF_FILES:
        files = (_bare(word) for word in operands)
        return Command(action, words=frozenset(one for one in files if not _RANGE.fullmatch(one)))
    subcommand = "" if action else _subcommand(rest)
    values = (word.partition("=")[2] for word in rest if word[0] == "-")
    content = _content([*(word for word in operands if word != subcommand), *values])
    numbers = frozenset(word for word in content if word.isdecimal())
    return Command(action or _name(base), _name(subcommand), content, numbers)


def _subcommand(words: Sequence[str]) -> str:
    named = (value for option, value in pairwise(("--command", *words)) if option in _NAMED)
    return next((word for word in named if _SUBCOMMAND.fullmatch(word)), "")


def _redirected(tokens: Sequence[str]) -> tuple[list[str], str]:
    """The tokens without redirections, and the file that is written by one."""
    words, written, target = [], "", False
    for part in tokens:
        if target:
            written, target = (written if part == "/dev/null" else part), False
        elif part.lstrip("012")[:1] in {"<", ">"}:
            target = not part[-1].isdecimal()
        else:
            words.append(part)
    return words, written


def _unwrapped(words: list[str]) -> list[str]:
    """Return the words from the program that does the work, without what starts it."""
    wrapped = False
    while len(words) > 1:
        first = words[0]
        if first in _CODE or not (
            _ASSIGNMENT.fullmatch(first)
            or first in _WRAPPERS
            or (wrapped and (first[0] == "-" or _RANGE.fullmatch(first)))
        ):
            break
        wrapped, words = True, words[1:]
    return words


def _of_tool(call: ToolCall, text: str) -> Command:
    action = _ACTIONS.get(call.name.lower())
    if action not in OF_FILES:
        words = _content([text])
        return Command(action or _name(call.name), words=words)
    told = call.arguments or {}
    paths = [str(value) for name, value in told.items() if "path" in name or "file" in name]
    return Command(action, words=frozenset(paths or [text]))


def _bare(token: str) -> str:
    return token.strip("\"'")


def _name(word: str) -> str:
    """A name as it is compared: `db-query.py` and `db_query` are one."""
    stem = word.rpartition(".")[0] if _SCRIPT.fullmatch(word) else word
    return stem.lower().replace("-", "").replace("_", "")


def _content(tokens: Sequence[str]) -> frozenset[str]:
    told = _VARIABLE.sub(" ", " ".join(tokens)).lower()
    words = (word.strip(".") for word in _WORDS.findall(told))
    return frozenset(word for word in words if word and word not in _NO_OBJECT)
