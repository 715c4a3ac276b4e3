"""Programs by name: filters, shells, interpreters, and the code or script that they run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILTERS = names(
    "awk base64 bat cat column cut egrep fgrep fmt fold gawk grep head hexdump jq less more nl od"
    " paste rev rg sed sort strings tac tail tr uniq wc xxd yq"
)
SHELLS = names("ash bash dash fish ksh sh zsh")

# The one-letter options after which an interpreter reads code, or a module, and no script.
_CODE_LETTERS: Mapping[str, str] = {
    **dict.fromkeys(SHELLS, "c"),
    **dict.fromkeys(("python", "pypy"), "cm"),
    **dict.fromkeys(("perl", "ruby"), "eE"),
    **dict.fromkeys(("node", "bun", "deno", "tsx"), "ep"),
    "php": "r",
    "Rscript": "e",
}
_ONLY_CODE_LETTERS = {name: letters.replace("m", "") for name, letters in _CODE_LETTERS.items()}
_MAY_BE_OPTION = ("", "-", "+")
# What stands where their script would stand, and is none.
_SUB_COMMANDS: Mapping[str, frozenset[str]] = {
    "bun": names(
        "add audit build create exec i info init install link list ls outdated patch pm publish"
        " remove rm run test unlink update upgrade why x"
    ),
    "deno": names(
        "add bench bundle cache check compile completions coverage doc fmt info init install"
        " jupyter lint lsp outdated publish remove repl run serve task test types uninstall"
        " upgrade vendor"
    ),
}
_CODE_WORDS = frozenset(("-", "--eval", "--print", "eval"))
_WITH_VALUE = frozenset(("-W", "-X", "--require", "--import", "--loader"))
_SHELL_VALUE = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_RUNNERS = frozenset(("hatch", "pdm", "pipenv", "poetry", "rye", "uv"))
_RUNNER_WITH_VALUE = names(
    "--directory --env-file --extra --group --index --project --python --with --with-editable"
    " --with-requirements -p -w"
)
_SUFFIXES = tuple(names(".bash .cjs .js .mjs .php .pl .py .R .rb .sh .ts .tsx"))


@lru_cache(maxsize=1024)
def base_name(program: str) -> str:
    """The program without its folder: /usr/bin/ls is ls."""
    return program.rpartition("/")[2]


@lru_cache(maxsize=1024)
def interpreter(program: str) -> str:
    """Return the name of an interpreter without its version (python for python3.11).

    Return "" for any other program.
    """
    name = base_name(program)
    if name in _CODE_LETTERS:
        return name
    name = name.rstrip("0123456789.")
    return name if name in _CODE_LETTERS else ""


@lru_cache(maxsize=1024)
def only_itself(program: str) -> bool:
    """Return True if a command that begins with this word can name no script or code to run."""
    is_script = program.endswith(_SUFFIXES) and "/" in program
    return not (is_script or program in _RUNNERS or interpreter(program))


def is_script_name(path: str) -> bool:
    """Return True if a file's name ends as the names of scripts do."""
    return path.endswith(_SUFFIXES)


def after_runner(argv: Sequence[str]) -> int:
    """Return the position of the program that a runner (`uv run`, `poetry run`) starts, or 0."""
    if len(argv) < 2 or argv[0] not in _RUNNERS:
        return 0
    at = 1 if argv[1] == "run" else _past_options(argv, 1, _RUNNER_WITH_VALUE)
    return _past_options(argv, at + 1, _RUNNER_WITH_VALUE) if "run" in argv[at : at + 1] else 0


def is_shell(argv: Sequence[str]) -> bool:
    """Return True if a command starts a shell, itself or through a runner."""
    at = after_runner(argv)
    return at < len(argv) and base_name(argv[at]) in SHELLS


def code_at(argv: Sequence[str]) -> int | None:
    """Return the position of the option that makes an interpreter run code from a word, or None."""
    at = after_runner(argv)
    if at >= len(argv) or not (name := interpreter(argv[at])):
        return None
    letters = _ONLY_CODE_LETTERS[name]
    end = _past_own_options(argv, at, letters)
    return end if end < len(argv) and _is_code(argv[end], letters) else None


def script_at(argv: Sequence[str]) -> int | None:
    """Return the position of the word that names the script that the command runs, or None."""
    at = after_runner(argv)
    if at >= len(argv):
        return None
    if argv[at].endswith(_SUFFIXES) and (at or "/" in argv[at]):
        return at
    name = interpreter(argv[at])
    if not name:
        return None
    letters = _CODE_LETTERS[name]
    end = _past_own_options(argv, at, letters)
    if end < len(argv) and argv[end] in _SUB_COMMANDS.get(name, ()):
        end = _past_options(argv, end + 1, _WITH_VALUE) if argv[end] == "run" else len(argv)
        return end if end < len(argv) and argv[end].endswith(_SUFFIXES) else None
    return end if end < len(argv) and not _is_code(argv[end], letters) else None


def _past_own_options(argv: Sequence[str], at: int, letters: str) -> int:
    """The first word of an interpreter, which stands at `at`, that `_past_options` stops at."""
    start, with_value = at + 1, _WITH_VALUE
    if start < len(argv) and argv[start][:1] not in _MAY_BE_OPTION:
        return start  # most run a script, without options
    if base_name(argv[at]) in SHELLS:
        with_value = frozenset(filter(_SHELL_VALUE.fullmatch, argv[start:]))
    return _past_options(argv, start, with_value, letters)


def _past_options(
    argv: Sequence[str], at: int, with_value: frozenset[str], stop_letters: str = ""
) -> int:
    """The first word from `at` that is no option, or is one with a letter of `stop_letters`."""
    while at < len(argv) and argv[at].startswith(("-", "+")) and argv[at] not in _CODE_WORDS:
        if _is_cluster(argv[at], stop_letters):
            return at
        at += 2 if argv[at] in with_value else 1
    return min(at, len(argv))


def _is_code(word: str, letters: str) -> bool:
    """Return True if code, or the name of a module, follows this word."""
    return word in _CODE_WORDS or _is_cluster(word, letters)


def _is_cluster(word: str, letters: str) -> bool:
    """Return True if a word is one-letter options, the last that is no value being in `letters`."""
    return (
        len(word) > 1
        and word[0] == "-"
        and word[1] != "-"
        and any(letter in word[1:4] for letter in letters)
        and word[1] not in "WX"
    )


# How xargs is told in place of what: the mark may be the next word.
_MARKS = re.compile(r"-[0rtxpo]*(I|i)(.*)|--rep[a-z]*(?:=(.*))?", re.DOTALL)


def filled(argv: Sequence[str], start: int) -> Iterator[str]:
    """The words, with a star in place of what xargs or parallel puts there behind `start`."""
    marks = {"{}", ":::"} if base_name(argv[start - 1]) == "parallel" else set[str]()
    for word, behind in pairwise((*argv[start:], "")):
        if found := _MARKS.fullmatch(word):
            marks.add(found[2] or found[3] or (behind if found[1] == "I" else "{}"))
    put = re.compile("|".join(map(re.escape, marks - {""})) or r"(?!)")
    for number, word in enumerate(argv):
        yield put.sub("*", word) if number >= start else word
