"""The intent of a tool call, by which two calls are recognised as doing the same.

The same intent is the same action on the same object. It is read from the text alone, however
broken that is: nothing here depends on what a shell would do.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import filterfalse, pairwise, product
from typing import NamedTuple

from agenteval.shell.gate import names
from agenteval.trial.call import BASH, ToolCall
from agenteval.trial.text import likeness_of_names

# Commands, and the tests of whether two of them do the same thing.

_ALIKE = 0.75  # Dice's coefficient of pairs of letters, from which on a name is another, misspelt
_SHARED = 1 / 3  # of the words of the shorter command, from which on its object is the same
READS, WRITES, REMOVES = "(read)", "(write)", "(remove)"
OF_FILES = frozenset({READS, WRITES, REMOVES})
Kind = tuple[str, str]  # of a command: its name and subcommand
Kinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a call does. `words` are its object; of what acts on files, their names.

    `ends` are the last parts of these names: files are the same only where one of them is.
    """

    name: str
    subcommand: str = ""
    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    kind: Kind = field(init=False, compare=False)
    ends: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Both are asked for far more often than a command is made.
        object.__setattr__(self, "kind", (self.name, self.subcommand))
        ends: list[str] = []
        if self.name in OF_FILES:
            for file in self.words:
                ends += _parts(file)[-1:] or [""]
        object.__setattr__(self, "ends", frozenset(ends))


@lru_cache(maxsize=1 << 14)  # kinds are few, pairs of a trial's calls are many
def can_meet(first: Kinds, second: Kinds) -> bool:
    """Return True if calls of such commands can share an intent, whatever else they contain."""
    return first == second or any(_test(*pair) is not _never for pair in product(first, second))


def _never(_first: Command, _second: Command) -> bool:
    return False


def _always(_first: Command, _second: Command) -> bool:
    return True


def _same_file(first: Command, second: Command) -> bool:
    if not first.words or not second.words:
        return first.words == second.words
    if first.ends.isdisjoint(second.ends):
        return False
    paths = map(_parts, first.words)
    other_paths = map(_parts, second.words)
    for path, other in product(paths, other_paths):
        if path == other[-len(path) :] or other == path[-len(other) :]:
            return True
    return False


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _same_object(first: Command, second: Command) -> bool:
    if not first.words or not second.words:
        return True
    if first.numbers and second.numbers and not first.numbers & second.numbers:
        return False
    shorter = min(len(first.words), len(second.words))
    return len(first.words & second.words) >= _SHARED * shorter


def _same_word(first: Command, second: Command) -> bool:
    """Compare commands whose names may be misspellings of each other: they must share a word."""
    return not first.words.isdisjoint(second.words) and _same_object(first, second)


@lru_cache(maxsize=1 << 14)  # programs are few, and each pair is asked about again and again
def _test(first: Kind, second: Kind) -> Callable[[Command, Command], bool]:
    """Return the test of whether two commands of these names share an intent."""
    (name, subcommand), (other_name, other_subcommand) = first, second
    if name in OF_FILES or other_name in OF_FILES:
        return _same_file if name == other_name else _never
    if other_subcommand and other_subcommand == name:
        return _always
    if subcommand and other_subcommand and subcommand != other_subcommand:
        return _never
    if name == other_name:
        return _same_object
    is_misspelt = likeness_of_names(name, other_name) >= _ALIKE
    return _same_word if is_misspelt else _never


# The intent of a call, from its words.

_READ = 4_000  # characters of a call
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
_CODE_OPTIONS = frozenset({"-c", "-e"})  # what follows is a program, and no file
# What only prepares; for a chain of nothing else, it is what was wanted.
_PREPARES = names("cd export unset source true false echo printf sleep for while done fi")
_FILTERS = names("head tail grep wc jq sort uniq awk sed cut less more tr column cat")
_PRINTS = frozenset({"echo", "printf", "cat"})
_NAMED = frozenset({"--command", "--action"})  # options whose value is a subcommand
_SIZES = names("-n --limit --max --top --lines --head --tail --count")
_SIZE = re.compile(r"[+-]?[0-9]+[a-zA-Z]*")  # of tail -n +20 too; no word, as in grep -n tea
# One name for all that does the same to files, as programs and as tools.
_ACTIONS = {
    **dict.fromkeys(names("cat head tail less more nl bat sed wc read read_file view open"), READS),
    **dict.fromkeys(names("tee touch write write_file edit create"), WRITES),
    **dict.fromkeys(names("rm rmdir unlink del delete"), REMOVES),
    **dict.fromkeys(names("ls find tree glob list list_directory list_dir"), "(list)"),
    **dict.fromkeys(names("grep egrep fgrep rg ag ack search_file_content"), "(search)"),
    **dict.fromkeys(names("curl wget webfetch web_fetch fetch_url"), "(fetch)"),
}
_NO_OBJECT = names(
    "select from where order by group and or not limit as the a an of to in for with is on please"
)
_IGNORED = names("description timeout timeout_ms timeout_seconds")


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
    command = call.command
    if command is None or len(command) > _READ or len(call.arguments or ()) != 1:
        return _of_call(call)
    return _of_command(command)


@lru_cache(maxsize=1 << 14)  # agents repeat theirs
def _of_command(command: str) -> Intent:
    return _of_call(ToolCall("", BASH, command, {"command": command}))


def _of_call(call: ToolCall) -> Intent:
    text = _text(call)
    commands = _commands(text) if call.name == BASH else [_of_tool(call, text)]
    words = frozenset({call.name, *_WORDS.findall(text)})
    return Intent(_key(call), tuple(commands), words)


def likeness(first: Intent, second: Intent) -> float:
    """Return the share of words that two calls have in common, from 0 to 1."""
    return len(first.words & second.words) / len(first.words | second.words)


def same_intent(first: Intent, second: Intent) -> bool:
    if first.key == second.key:
        return True
    # Plain loops: each denial is compared with each later call, and most pairs fail here.
    for command in first.commands:
        for other in second.commands:
            if _test(command.kind, other.kind)(command, other):
                return True
    return False


def _text(call: ToolCall) -> str:
    if call.command is not None:
        return call.command[:_READ]
    if call.arguments is None:
        return _BROKEN_JSON.sub("", call.raw[:_READ])
    values = [value for name, value in call.arguments.items() if name not in _IGNORED]
    return " ".join(str(value)[:_READ] for value in values)[:_READ]


def _key(call: ToolCall) -> str:
    if call.arguments is None:
        return f"{call.name} unread {call.raw}"
    parts = [call.name]
    for name, value in sorted(call.arguments.items()):
        if name not in _IGNORED:
            tokens = " ".join(_TOKENS.findall(str(value)))
            parts.append(f"{name}={tokens}")
    return " ".join(parts)


def _commands(text: str) -> Sequence[Command]:
    commands = [_command(words) for words in _simple(_TOKENS.findall(text))]
    working = [command for command in commands if command.name not in _PREPARES]
    return working or commands


def _simple(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tokens of each simple command, without the filters that a pipe leads to."""
    words: list[str] = []
    is_piped = False
    for part in (*tokens, "\n"):
        if part in _ENDS or part == "|":
            is_filter = is_piped and words and words[0] in _FILTERS
            if words and not is_filter:
                yield words
            words = []
            is_piped = part == "|"
        elif part.lstrip("0123456789") in {"<<", "<<<"}:
            break  # what follows is the text of a file
        else:
            words.append(part)
    if words:
        yield words


def _command(tokens: Sequence[str]) -> Command:
    words, written = _split_redirections(tokens)
    first, *rest = _unwrap(words) or [""]
    program = _unquoted(first).rpartition("/")[2]
    if written and program in _PRINTS:
        return Command(WRITES, words=frozenset({_unquoted(written)}))
    if first in _CODE_OPTIONS:
        return Command("(code)", words=_content(rest))
    action = _ACTIONS.get(program)
    if program == "sed" and any(word.startswith("-i") for word in rest):
        action = WRITES
    operands = _operands(rest)
    if action in OF_FILES:
        files = map(_unquoted, operands)
        return Command(action, words=frozenset(filterfalse(_RANGE.fullmatch, files)))
    subcommand = "" if action else _subcommand(rest)
    objects = [word for word in operands if word != subcommand]
    objects += [word.partition("=")[2] for word in rest if word[0] == "-"]
    content = _content(objects)
    numbers = frozenset(filter(str.isdecimal, content))
    return Command(action or _name(program), _name(subcommand), content, numbers)


def _operands(words: Sequence[str]) -> list[str]:
    """Return the words that are neither options nor the value of one that says how many."""
    sizes: set[str] = set()
    for option, value in pairwise(words):
        if option in _SIZES and _SIZE.fullmatch(value):
            sizes.add(value)
    return [word for word in words if word[0] != "-" and word not in sizes]


def _subcommand(words: Sequence[str]) -> str:
    # The first word is where a subcommand stands without an option.
    for option, value in pairwise(("--command", *words)):
        if option in _NAMED and _SUBCOMMAND.fullmatch(value):
            return value
    return ""


def _split_redirections(tokens: Sequence[str]) -> tuple[list[str], str]:
    """Return the tokens without redirections, and the file that the last one names."""
    words = []
    file = ""
    is_target = False
    for part in tokens:
        if is_target:
            is_target = False
            if part != "/dev/null":
                file = part
        elif part.lstrip("012").startswith(("<", ">")):
            is_target = not part[-1].isdecimal()  # as in 2>&1, where no file follows
        else:
            words.append(part)
    return words, file


def _unwrap(words: list[str]) -> list[str]:
    """Return the words from the program that does the work, without what starts it."""
    for at, word in enumerate(words[:-1]):
        is_wrapper = word in _WRAPPERS or _ASSIGNMENT.fullmatch(word)
        is_option = at > 0 and (word.startswith("-") or _RANGE.fullmatch(word))
        if word in _CODE_OPTIONS or not (is_wrapper or is_option):
            return words[at:]
    return words[-1:]


def _of_tool(call: ToolCall, text: str) -> Command:
    action = _ACTIONS.get(call.name.lower())
    if action not in OF_FILES:
        words = _content([text])
        return Command(action or _name(call.name), words=words)
    paths = []
    for name, value in (call.arguments or {}).items():
        if "path" in name or "file" in name:
            paths.append(str(value))
    return Command(action, words=frozenset(paths or [text]))


def _unquoted(token: str) -> str:
    return token.strip("\"'")


def _name(word: str) -> str:
    """Return a name as it is compared: `db-query.py` and `db_query` are one."""
    stem = word.rpartition(".")[0] if _SCRIPT.fullmatch(word) else word
    return stem.lower().replace("-", "").replace("_", "")


def _content(tokens: Sequence[str]) -> frozenset[str]:
    text = _VARIABLE.sub(" ", " ".join(tokens)).lower()
    words = {word.strip(".") for word in _WORDS.findall(text)}
    return frozenset(words - _NO_OBJECT - {""})
