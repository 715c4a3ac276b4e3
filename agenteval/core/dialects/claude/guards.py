"""Commands that Claude Code asks about although a rule allows them."""

import re
from collections.abc import Sequence

from agenteval.core.dialects.claude.files import FileRules
from agenteval.core.dialects.claude.paths import touched
from agenteval.core.dialects.claude.words import Command, Word

# They run their words as shell text, start what can't be told, or change how bash reads.
_NEVER = frozenset(
    (
        *("eval", "exec", "source", ".", "trap", "coproc", "let", "alias", "hash", "watch"),
        *("script", "setsid", "ionice", "chrt", "taskset", "flock", "strace", "nsenter"),
        *("unshare", "shopt", "enable", "zmodload", "emulate", "select"),
    )
)
_FIND = frozenset(
    [
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-delete",
        "-fprint",
        "-fprint0",
        "-fprintf",
        "-fls",
        "-files0-from",
    ]
)
_AWK_PROGRAM = re.compile(
    r"\bsystem\s*\(|\|\s*(?:getline|\"|&)|@(?:load|include)|\"\s*\|\s*getline"
)
_AWK_OPTION = re.compile(r"-(?![Fv])\S+")
_JQ_OPTION = re.compile(r"-[a-zA-Z]*[fL]\S*|--(?:from-file|library-path|slurpfile|rawfile)")
_JQ_PROGRAM = re.compile(r"\bsystem\s*\(|\b(?:include|import)\s+\"")
_NAME = re.compile(r"[A-Za-z_]\w*(?:=.*)?", re.DOTALL)
_REMOVERS = frozenset(("rm", "rmdir"))
_TOP = re.compile(r"/+[^/]*/*(?:\*)?|/\.")


def is_guarded(command: Command) -> bool:
    """Whether only a rule for its very text, or for all commands, lets it pass."""
    name, *words = command.words
    if name.globs or not name.text or name.text in _NEVER:
        return True
    guard = _GUARDS.get(name.text)
    return guard is not None and guard(words)


def _any_word(words: Sequence[Word]) -> bool:
    return bool(words)


def _any_option(words: Sequence[Word]) -> bool:
    return any(word.text.startswith("-") for word in words)


def _first_option(words: Sequence[Word]) -> bool:
    return _any_option(words[:1])


def _find(words: Sequence[Word]) -> bool:
    return any(word.globs or word.text in _FIND for word in words)


def _awk(words: Sequence[Word]) -> bool:
    return any(
        word.globs or _AWK_PROGRAM.search(word.text) or _AWK_OPTION.fullmatch(word.text)
        for word in words
    )


def _jq(words: Sequence[Word]) -> bool:
    return any(_JQ_OPTION.fullmatch(word.text) or _JQ_PROGRAM.search(word.text) for word in words)


def _declare(words: Sequence[Word]) -> bool:
    return not all(_NAME.fullmatch(word.text) or word.text.startswith("-") for word in words)


_GUARDS = {
    "find": _find,
    "jq": _jq,
    "command": _first_option,
    **dict.fromkeys(("timeout", "time", "nice", "nohup"), _any_word),  # nothing was unwrapped
    **dict.fromkeys(("mv", "cp"), _any_option),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly", "unset"), _declare),
}


def removes_too_much(command: Command, wholes: list[str], files: FileRules) -> bool:
    """Whether it removes the project, what holds it, a top folder or a home."""
    if not command.words or command.argv[0] not in _REMOVERS:
        return False
    return any(
        _TOP.fullmatch(whole)
        or (folder := whole.removesuffix("/*").rstrip("/") or "/") == files.home
        or f"{files.root}/".startswith(f"{folder}/")
        for whole in wholes
    )


def keeps_its_place(commands: tuple[Command, ...], files: FileRules) -> bool:
    """Whether no command is about another folder than the one that it seems to be about."""
    moves = [command for command in commands if command.argv[:1] == ("cd",)]
    if not moves:
        return True
    folders = [word for move in moves for word in touched(move).words]
    if len(moves) > 1 or len(folders) > 1:
        return False
    return files.whole(folders[0]) == files.root or not any(
        touched(command).writes
        or command.argv[:1] == ("git",)
        or any(
            redirect.writes and redirect.target.text != "/dev/null"
            for redirect in command.redirects
        )
        for command in commands
    )
