"""Effects of a harness's tool call: read from its input, and from its name only where known.

A tool is a shell when its input carries a command, whoever offers it: `Bash`, `Monitor`, a tool of
an MCP server. Names and keys are compared as `canonical` and `_letters` fold them; tool_names.toml
has those that are known. `describe` is the report of `hook install` on an allow list: which tools
it judges, and which pass.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from agenteval.config.allowlists import load_any, policy_warnings
from agenteval.config.trust import roots
from agenteval.policy.command_lines import normalise
from agenteval.policy.policy import READ, WRITE, Policy
from agenteval.shell.gate import quoted
from agenteval.shell.wrappers import base_name
from agenteval.trial.call import BASH, ToolCall

# Tables within tables in which a command is looked for
DEPTH: Final = 8


class Effect(StrEnum):
    """The effect of a call, as far as it is known before a policy judges it."""

    # It runs commands, reads or writes files
    JUDGED = "judged"
    # A known tool that changes nothing on this machine
    NONE = "no effect"
    # It runs what no reader here can read
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """A call as it was read. `calls` are what it does in our names: all have to be allowed.

    `own` is the call under the harness's name of the tool, for a policy that lists it; None for
    a tool whose effect is known by its name, which no such listing changes.
    """

    id: str
    tool: str
    effect: Effect
    calls: tuple[ToolCall, ...] = ()
    own: ToolCall | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return canonical(self.tool)


def _sets(kind: str) -> Mapping[str, frozenset[str]]:
    return {name: frozenset(words) for name, words in _NAMES[kind].items()}


# By kind: tools, the keys of their input, and words; tool_names.toml explains each of them.
_NAMES: Final = msgspec.toml.decode(
    Path(__file__).with_name("tool_names.toml").read_bytes(),
    type=dict[str, dict[str, tuple[str, ...]]],
)
_TOOLS: Final = _sets("tools")
_KEYS: Final = _sets("keys")
_SETTINGS: Final = _sets("settings")
_WORDS: Final = _sets("words")
_HARMLESS: Final = frozenset(chain.from_iterable(_NAMES["harmless"].values()))
_RIGHTS: Final = {right.replace("_", "").lower(): right for right in _WORDS["rights"]}
# The texts under these keys are no file's, so that one may be the JSON of a call.
_OF_CALLS: Final = _SETTINGS["more_words"] | {"input", "payload"}
_READ_KEYS: Final = _RIGHTS.keys() | chain.from_iterable(_SETTINGS.values())
_VIEW: Final = "view"
# Words of a tool's name behind which a text is typed into a shell.
_OF_SHELLS: Final = re.compile(
    "bash|shell|terminal|console|stdin|process|exec|command|tmux|ssh|tty|session"
)
_TEXT_BEHIND: Final = ("-c", "-lc", "-cl")
_ENCODED: Final = re.compile("base64|b64|hex|encoded|gzip")
# Codex takes a header with blanks before it too.
_PATCHED: Final = re.compile(
    r"^\s*\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE
)


def canonical(name: str) -> str:
    """Return a name as it is compared: NFKC, without case, outer blanks, signs without a width."""
    if name.isascii():
        return name.strip().lower()
    folded = unicodedata.normalize("NFKC", name).casefold()
    visible = (sign for sign in folded if unicodedata.category(sign) != "Cf")
    return "".join(visible).strip()


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, canonical(name)))


def _is_legible(name: str) -> bool:
    """Return True if a name holds a letter, and nothing that two programs may read differently."""
    odd = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    return bool(_letters(name)) and odd.isdisjoint(map(unicodedata.category, name))


class _UnreadableError(ValueError):
    """The reason why no reader here can read what a call runs; never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that a call carries: a command, or with `is_patch` the patch of an editing tool."""

    text: str
    folder: object = None
    is_patch: bool = False


@dataclass(frozen=True, slots=True)
class _Around:
    """The settings of a command in the tables around it: where it starts, by whom, with what."""

    folder: object = None
    language: str = ""
    variables: tuple[str, ...] = ()
    typed: str = ""
    more: tuple[str, ...] = ()


def command_of(words: Sequence[str]) -> str | None:
    """Return the command that a shell with these words runs; None if it is not one behind -c."""
    rest = list(words)
    while rest and rest[0] in _WORDS["quiet"]:
        rest.pop(0)
    return rest[1] if len(rest) == 2 and rest[0] in _TEXT_BEHIND else None


def read_call(
    identifier: str, tool: str, arguments: Mapping[str, Any], cwd: str, root: str
) -> Reading:
    """Read a call of any harness. `cwd` is where the session stands, `root` where it began."""
    if not _is_legible(tool):
        return Reading(identifier, tool, Effect.UNREADABLE, reason=f"{tool!r} is no tool's name")
    letters = _letters(tool)
    is_shell = letters in _TOOLS["shells"]
    is_typist = letters in _TOOLS["typists"]
    is_file_tool = letters in _TOOLS["writers"] | _TOOLS["readers"] | _TOOLS["editors"]
    has_no_effect = canonical(tool) in _HARMLESS
    reading = Reading(identifier, tool, Effect.JUDGED)
    if not (is_shell or is_typist or is_file_tool):
        own = ToolCall(identifier, tool, json.dumps(arguments), arguments)
        reading = replace(reading, own=own)
    search = _Search(letters, is_known=is_file_tool or has_no_effect or is_typist)
    try:
        texts = list(search.texts(arguments, _Around(), DEPTH))
        _check_language(letters, texts)
    except _UnreadableError as error:
        return replace(reading, effect=Effect.UNREADABLE, reason=str(error))
    calls = list(_bash_calls(identifier, texts, arguments, cwd, root))
    calls += _file_calls(identifier, letters, arguments, texts)
    if is_shell and not calls:
        calls.append(_call_without_command(identifier, arguments))
    reading = replace(reading, calls=tuple(calls))
    if search.unread and not (is_file_tool or has_no_effect or is_shell):
        why = f"its key {search.unread[:40]!r} may hold a command too" if calls else ""
        return replace(reading, effect=Effect.UNKNOWN, reason=why)
    if calls:
        return reading
    effect = Effect.NONE if has_no_effect or is_typist else Effect.UNKNOWN
    return replace(reading, effect=effect)


def _call_without_command(identifier: str, arguments: Mapping[str, Any]) -> ToolCall:
    """Return the call of a shell with arguments of which none is to be taken for a command."""
    others = {key: value for key, value in arguments.items() if key != "command"}
    return ToolCall(
        identifier,
        BASH,
        json.dumps(arguments),
        others,
    )


def _check_language(letters: str, texts: Sequence[_Text]) -> None:
    is_other = "powershell" in letters or "pwsh" in letters
    if is_other and not all(text.is_patch for text in texts):
        raise _UnreadableError("a command of PowerShell cannot be read by a reader of bash")


def _bash_calls(
    identifier: str,
    texts: Sequence[_Text],
    arguments: Mapping[str, Any],
    cwd: str,
    root: str,
) -> Iterator[ToolCall]:
    """Yield the calls of bash; one that starts in another folder than the session names it."""
    letters = {key: _letters(key) for key in arguments}
    settings = {
        _RIGHTS[letters[key]]: value for key, value in arguments.items() if letters[key] in _RIGHTS
    }
    if normalise(cwd, root) != ".":
        settings["cwd"] = cwd
    for command in texts:
        if command.is_patch:
            continue
        own = {"command": command.text, **settings}
        if command.folder is not None:
            own["workdir"] = command.folder
        yield ToolCall(identifier, BASH, command.text, own)


def _file_calls(
    identifier: str, letters: str, arguments: Mapping[str, Any], texts: Sequence[_Text]
) -> Iterator[ToolCall]:
    is_editor = letters in _TOOLS["editors"]
    is_reader = letters in _TOOLS["readers"] or (is_editor and {_VIEW} == _actions(arguments))
    if not (is_reader or is_editor or letters in _TOOLS["writers"]):
        return
    paths: list[str | None] = [*_paths(arguments)]
    raw = json.dumps(arguments)
    if is_reader:
        others = {key: value for key, value in arguments.items() if not _is_path_key(_letters(key))}
        for path in paths:
            yield ToolCall(
                identifier,
                READ,
                raw,
                {**others, "path": path},
            )
        if not paths:
            yield ToolCall(identifier, READ, raw, others)
        return
    for text in texts:
        if text.is_patch:
            paths += map(str.strip, _PATCHED.findall(text.text))
    for path in dict.fromkeys(paths or [None]):
        # An edit opens what a write opens
        yield ToolCall(
            identifier,
            WRITE,
            raw,
            {"path": path, "content": ""},
        )


def _actions(arguments: Mapping[str, Any]) -> set[str]:
    """Return the actions of an editor's call, of which it takes one."""
    return {str(value) for key, value in arguments.items() if _letters(key) == "command"}


def _paths(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield each path in a table and in the tables within it."""
    for key, value in table.items():
        values = _listed(value)
        is_path = _is_path_key(_letters(key))
        for inner in values:
            if is_path and isinstance(inner, str):
                yield inner
            elif isinstance(inner, Mapping):
                yield from _paths(inner)


def _is_path_key(key: str) -> bool:
    return key in _KEYS["paths"] or key.endswith(("path", "paths", "filename"))


def _has_text(value: object) -> bool:
    return any(isinstance(item, str) and item for item in _listed(value))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _Search:
    """A search for what the input of one tool carries.

    `letters` are those of the tool's name; of a tool that `is_known` no text but that of arguments
    is searched for JSON: a file's is no call.
    """

    def __init__(
        self,
        letters: str,
        *,
        is_known: bool,
    ) -> None:
        self.letters = letters
        self.is_known = is_known
        # A key whose texts are neither a command nor known to be harmless
        self.unread = ""
        self.is_shell = letters in _TOOLS["shells"] or _OF_SHELLS.search(letters) is not None

    def texts(
        self,
        table: Mapping[str, Any],
        around: _Around,
        depth: int,
    ) -> Iterator[_Text]:
        """Yield every command and patch in a table and in the tables within it."""
        if depth == 0:
            raise _UnreadableError("its input nests too deeply")
        keys = [(_letters(key), value) for key, value in table.items()]
        around = _around(keys, around)
        for key, value in keys:
            texts = [*self._own_texts(key, value, around)]
            yield from texts
            if not texts and key not in _READ_KEYS and _has_text(value):
                self.unread = key
            may_be_file = self.is_known and key not in _OF_CALLS
            is_plain = isinstance(value, str) and (bool(texts) or may_be_file)
            if key not in _SETTINGS["variables"] and not is_plain:
                yield from self._texts_within(key, value, around, depth)

    def _texts_within(
        self, key: str, value: object, around: _Around, depth: int
    ) -> Iterator[_Text]:
        """Yield the commands in the tables of a value.

        The tables of a command have to carry one.
        """
        tables = [*_tables(value, depth)]
        texts: list[_Text] = []
        for table in tables:
            texts += self.texts(table, around, depth - 1)
        if (
            tables
            and not texts
            and self._is_command(
                key,
                [],
                around.language,
            )
        ):
            raise _UnreadableError("its command is no text")
        yield from texts

    def _own_texts(
        self,
        key: str,
        value: object,
        around: _Around,
    ) -> Iterator[_Text]:
        if self.letters in _TOOLS["patchers"] and isinstance(value, str) and _is_patch(value):
            yield _Text(value, is_patch=True)
            return
        if not isinstance(value, str | list) or not self._is_command(
            key,
            value,
            around.language,
        ):
            return
        for text in _commands(key, value, around.more):
            if text.strip():
                yield _Text(_complete(text, around), around.folder)

    def _is_command(
        self,
        key: str,
        value: str | list[Any],
        language: str,
    ) -> bool:
        if key in _SETTINGS["variables"]:
            return False
        if key == "command" and self.letters in _TOOLS["without_shell"]:
            return False
        if key == "command" and self.letters in _TOOLS["editors"] and str(value) in _WORDS["edits"]:
            return False
        if key == "shell" and _is_word(value):
            # It names the shell
            return False
        if _is_encoded(key) and value:
            raise _UnreadableError("its command is encoded")
        is_shell = self.is_shell or bool(language)
        if key == "code" and not is_shell:
            raise _UnreadableError("code of a language that is not named cannot be read")
        is_typed = key in _KEYS["typed"] and is_shell and _has_text(value)
        return is_typed or key in _KEYS["commands"] or _names_command(key)


def _names_command(key: str) -> bool:
    return "command" in key or "cmd" in key


def _is_encoded(key: str) -> bool:
    return _ENCODED.search(key) is not None and _names_command(key)


def _around(keys: Sequence[tuple[str, object]], outer: _Around) -> _Around:
    """Return what a table states of the commands in it, or else what the table around it does."""
    around = outer
    words: tuple[str, ...] = ()
    for key, value in keys:
        if key in _SETTINGS["folders"] and value not in (None, ""):
            around = replace(around, folder=value)
        elif key in _SETTINGS["languages"] and _is_word(value):
            around = replace(around, language=str(value).strip())
        elif key in _SETTINGS["variables"] and value:
            variables = (*around.variables, *_assignments(value))
            around = replace(around, variables=variables)
        elif key in _SETTINGS["inputs"] and isinstance(value, str):
            around = replace(around, typed=value)
        elif key in _SETTINGS["more_words"]:
            words += tuple(_words(value))
    return replace(around, more=words)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and not re.search(r"\s", value.strip())


def _assignments(value: object) -> Iterator[str]:
    """Yield the variables in a table or in a list, as bash writes them."""
    if isinstance(value, Mapping):
        for name, text in value.items():
            yield f"{name}={quoted(str(text))}"
    elif isinstance(value, list):
        for item in value:
            name, _, text = str(item).partition("=")
            yield f"{name}={quoted(text)}"
    else:
        yield str(value)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        yield value
    elif isinstance(value, list):
        yield from map(quoted, _scalars(value))


def _scalars(values: Sequence[object]) -> list[str]:
    return [str(value) for value in values if isinstance(value, str | int | float)]


def _commands(
    key: str,
    value: str | list[Any],
    more: Sequence[str],
) -> Iterator[str]:
    """Yield the commands that a value may be: a text, the words of one, a list of some."""
    if key == "argv":
        more = ()
    if isinstance(value, str):
        yield " ".join((value, *more))
        return
    for inner in value:
        if isinstance(inner, list):
            yield from _commands(key, inner, ())
    words = _scalars(value)
    if not words:
        return
    is_list = key.endswith("s")
    # Where a word looks like a command the value is taken for both
    if is_list or not _is_word(words[0]):
        yield from words
    if not is_list:
        yield _shell_text(words) or " ".join((*map(quoted, words), *more))


def _shell_text(words: Sequence[str]) -> str | None:
    """Return the text of `bash -c TEXT`, where that is what the words are."""
    return command_of(words[1:]) if _is_shell_program(words[0]) else None


def _is_shell_program(program: str) -> bool:
    folder = program.rpartition("/")[0]
    return folder in _WORDS["folders"] and base_name(program) in _WORDS["programs"]


def _complete(text: str, around: _Around) -> str:
    """Return the command with the variables and the input that its call gives it, for bash."""
    if around.language and not _is_shell_program(around.language.lower()):
        language = around.language[:40]
        raise _UnreadableError(f"a command of {language!r} cannot be read by a reader of bash")
    text = " ".join((*around.variables, text))
    return f"{text} <<< {quoted(around.typed)}" if around.typed else text


def _is_patch(text: str) -> bool:
    inner = text.strip()
    return inner.startswith("*** Begin Patch") and inner.endswith("*** End Patch")


def _tables(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the tables in a value: it may be one, a list of some, or the JSON text of one."""
    if isinstance(value, Mapping):
        yield value
    elif isinstance(value, list):
        if depth == 0:
            raise _UnreadableError("its input nests too deeply")
        for item in value:
            yield from _tables(item, depth - 1)
    elif isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            inner = json.loads(value)
        except ValueError:
            return
        except RecursionError as error:
            raise _UnreadableError("its input nests too deeply") from error
        yield from _tables(inner, depth - 1)


def describe(
    harness: str,
    allowlist: str,
    *,
    observe: bool,
) -> Iterator[str]:
    """Yield what a user should know before the hook is installed, a line each.

    Raises UsageError.
    """
    policy = load_any(allowlist, roots=roots())
    yield from (f"warning: {line}" for line in policy_warnings(allowlist, policy))
    yield "judged as commands: every tool whose input carries one, whatever its name"
    yield f"judged as files: reading {_files(policy, READ)}, writing {_files(policy, WRITE)}"
    own = [name for name in policy.tools if name not in {BASH, READ, WRITE}]
    if own:
        yield f"judged by a rule of their own: {', '.join(own)}"
    listed = set(map(canonical, policy.tools))
    free = [name for name in _NAMES["harmless"].get(harness, ()) if name not in listed]
    yield f"pass, as they change nothing on this machine: {', '.join(free) or 'none'}"
    yield f"any other tool, and PowerShell: {_others(policy, observe=observe)}"


def _files(policy: Policy, tool: str) -> str:
    if policy.tool(tool) is not None:
        return f"by [{tool}]" if policy.engine is None else "by its rules"
    if tool == READ or policy.other_tools == "pass":
        return "passes"
    return "is denied: the list has no [write]"


def _others(policy: Policy, *, observe: bool) -> str:
    if observe:
        return "counted as not judged, and let pass (--observe)"
    if policy.other_tools == "pass":
        return 'let pass (other_tools = "pass"); what cannot be read is denied'
    return "denied until the list names it"
