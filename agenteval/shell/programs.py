"""Programs by name: their scripts and code, what they may do on unchecked words, what they show.

The first part decides: a policy compares the script or code that a command runs. The rest
explains denials and warns of wide rules, by the table in `programs.toml`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from agenteval.shell.facts import Words
from agenteval.shell.gate import Simple, names
from agenteval.shell.wrappers import (
    base_name,
    is_wrapper,
    program_table,
    rows_by_program,
    unwrap,
)

FILTERS = names(
    "awk base64 bat cat column cut egrep fgrep fmt fold gawk grep head hexdump jq less more nl od"
    " paste rev rg sed sort strings tac tail tr uniq wc xxd yq"
)
NO_OPS = names("echo true : false sleep")
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
_CODE_WORDS = names("- --eval --print eval")
_WITH_VALUE = names("-W -X --require --import --loader")
_SHELL_VALUE = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_RUNNERS = names("hatch pdm pipenv poetry rye uv")
_RUNNER_WITH_VALUE = names(
    "--directory --env-file --extra --group --index --project --python --with --with-editable"
    " --with-requirements -p -w"
)
_SUFFIXES = tuple(names(".bash .cjs .js .mjs .php .pl .py .R .rb .sh .ts .tsx"))


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
    at = _past_options(argv, 1, _RUNNER_WITH_VALUE)
    if at == len(argv) or argv[at] != "run":
        return 0
    return _past_options(argv, at + 1, _RUNNER_WITH_VALUE)


def is_shell(argv: Sequence[str]) -> bool:
    """Return True if a command starts a shell, itself or through a runner."""
    at = after_runner(argv)
    return at < len(argv) and base_name(argv[at]) in SHELLS


def code_at(argv: Sequence[str]) -> int | None:
    """Return the position of the option that makes an interpreter run code from a word, or None."""
    at = after_runner(argv)
    name = interpreter(argv[at]) if at < len(argv) else ""
    if not name:
        return None
    letters = _ONLY_CODE_LETTERS[name]
    end = _past_own_options(argv, at, letters)
    has_code = end < len(argv) and _is_code(argv[end], letters)
    return end if has_code else None


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
    if end == len(argv):
        return None
    if argv[end] in _SUB_COMMANDS.get(name, ()):
        return _script_behind_run(argv, end) if argv[end] == "run" else None
    return None if _is_code(argv[end], letters) else end


def _script_behind_run(argv: Sequence[str], at: int) -> int | None:
    """Return the place of the script behind the sub-command of bun or deno that stands at `at`."""
    end = _past_options(argv, at + 1, _WITH_VALUE)
    is_script = end < len(argv) and argv[end].endswith(_SUFFIXES)
    return end if is_script else None


def _past_own_options(argv: Sequence[str], at: int, letters: str) -> int:
    """Return where `_past_options` stops behind the interpreter that stands at `at`."""
    start = at + 1
    if start < len(argv) and argv[start][:1] not in _MAY_BE_OPTION:
        return start  # most run a script, without options
    with_value = _WITH_VALUE
    if base_name(argv[at]) in SHELLS:
        with_value = frozenset(filter(_SHELL_VALUE.fullmatch, argv[start:]))
    return _past_options(argv, start, with_value, letters)


def _past_options(
    argv: Sequence[str],
    at: int,
    with_value: frozenset[str],
    stop_letters: str = "",
) -> int:
    """Return where the first word stands that is no option, or has a letter of `stop_letters`."""
    while at < len(argv):
        word = argv[at]
        if not word.startswith(("-", "+")) or _is_code(word, stop_letters):
            return at
        at += 2 if word in with_value else 1
    return len(argv)


def _is_code(word: str, letters: str) -> bool:
    """Return True if code, or the name of a module, follows this word."""
    return word in _CODE_WORDS or _is_cluster(word, letters)


def _is_cluster(word: str, letters: str) -> bool:
    """Return True if a word is one-letter options, the last that is no value being in `letters`."""
    if word[:1] != "-" or word[1:2] in ("", "-", "W", "X"):
        return False
    return any(letter in word[1:4] for letter in letters)


# What xargs puts into a command.

# The options of xargs for the mark that it replaces, which may be the next word.
_MARKS = re.compile(r"-[0rtxpo]*(I|i)(.*)|--rep[a-z]*(?:=(.*))?", re.DOTALL)


def filled(argv: Sequence[str], start: int) -> Iterator[str]:
    """The words, with a star in place of what xargs or parallel puts there behind `start`."""
    marks: set[str] = set()
    if base_name(argv[start - 1]) == "parallel":
        marks = {"{}", ":::"}
    for word, next_word in pairwise((*argv[start:], "")):
        if option := _MARKS.fullmatch(word):
            unnamed = next_word if option[1] == "I" else "{}"
            marks.add(option[2] or option[3] or unnamed)
    any_mark = "|".join(map(re.escape, marks - {""})) or "(?!)"
    yield from argv[:start]
    for word in argv[start:]:
        yield re.sub(any_mark, "*", word)


_SCRIPT = "it runs any script or program: name the script, as in `uv run scripts/x.py *`"
_ANY_CODE = "it runs any code, given with -c or in a file: name the script"


# The table of programs. No verdict depends on these parts of it: they explain denials and warn of
# wide rules.


def _keys_by_word(row: Mapping[str, str]) -> dict[str, str]:
    """Return each word of a row with the key that it stands behind."""
    keys: dict[str, str] = {}
    for key, words in row.items():
        keys |= dict.fromkeys(words.split(), key)
    return keys


@cache
def _keys_by_command(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return a table of sub-commands: for each program, its sub-commands with their keys."""
    return {program: _keys_by_word(row) for program, row in rows_by_program(name).items()}


@cache
def _keys_by_program(name: str) -> Mapping[str, str]:
    return _keys_by_word(program_table()[name])


def left_open(words: Sequence[str]) -> str:
    """Return what a command that begins with these words may do; "" for little.

    Any words may follow.
    """
    at = after_runner(words)
    if at == len(words) and at:
        return _SCRIPT
    words = words[at:]
    program = base_name(words[0])
    if interpreter(program):
        has_operand = any(not word.startswith("-") for word in words[1:])
        return "" if has_operand else _ANY_CODE
    reason = _reason(program, _sub_command(words))
    if program in names(program_table()["words"]["wrappers"]):
        if inner := _behind(words):
            return left_open(inner)
        reason = "runs"
    sentences: Mapping[str, str] = program_table()["reasons"]
    return sentences.get(reason, reason)


def _reason(program: str, command: str) -> str:
    """Return the key of what a program, with this sub-command if it has one, leaves open."""
    commands = _keys_by_command("left_open_by_command").get(program)
    if commands and command:
        return commands.get(command, "")
    return _keys_by_program("left_open").get(program, "")


class _Shows(NamedTuple):
    """One row of programs that show files; `programs.toml` says what its fields mean."""

    operands: int = 0
    valued: str = ""
    other: str = ""
    finds: bool = False


@cache
def _shows_by_program() -> Mapping[str, _Shows]:
    return {program: _Shows(**row) for program, row in rows_by_program("shows").items()}


_PROGRAM_GIVEN = names("-e -f --expression --file --regexp")
# +5, what find puts in, awk's a=b
_NO_FILE = re.compile(r"\+.*|.*\{\}.*|[A-Za-z_]\w*=.*", re.DOTALL)


def can_show(program: str) -> bool:
    """Return True if such a program shows files."""
    return base_name(program) in _shows_by_program()


def shown_files(argv: Sequence[str]) -> list[str]:
    """Return the files that such a command only shows, searches or counts; none in doubt."""
    shows = _shows_by_program().get(base_name(argv[0]))
    if shows is None:
        return []
    operands = shows.operands
    words: list[str] = []
    rest = iter(argv[1:])
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        if any(_is_option(word, option) for option in shows.other.split()):
            return []
        option, is_behind = _valued_in(word, names(shows.valued))
        operands -= option in _PROGRAM_GIVEN
        if is_behind:
            next(rest, "")
    files = [word for word in words[max(operands, 0) :] if not _NO_FILE.fullmatch(word)]
    if shows.finds:
        return [file for file in files if "." in base_name(file)[1:]]
    return files


def wants_input(argv: Sequence[str]) -> bool:
    """Return True if such a command works on piped input: it names no file or code."""
    program = base_name(argv[0])
    if interpreter(program):
        has_code = any(word.startswith(("-c", "-e", "-m")) for word in argv[1:])
        return not has_code and all(word.startswith("-") for word in argv[1:])
    is_filter = program in FILTERS or can_show(program) or program in {"tee", "xargs"}
    return is_filter and not shown_files(argv)


def _valued_in(word: str, valued: frozenset[str]) -> tuple[str, bool]:
    """Return the option with a value in a word, and whether the value is the next word."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        return (name, not equals) if name in valued else ("", False)
    for at, letter in enumerate(word):
        if f"-{letter}" in valued:
            return f"-{letter}", at == len(word) - 1
    return "", False


def _is_option(word: str, option: str) -> bool:
    """Return True if a word is the option, also with a value or in a cluster of letters."""
    if word[:1] != "-" or option.startswith("--") or word.startswith("--"):
        return word.startswith(option)
    return option[1] in word


# Sub-commands, and the harm that a command may do.

_VALUED_BEFORE_COMMAND = names(
    "-C -c --git-dir --work-tree --prefix -H --host --context -n --namespace"
)


def _sub_command(words: Sequence[str]) -> str:
    """Return the sub-command of git, npm and the like: their first word that is no option."""
    rest = iter(words[1:])
    for word in rest:
        if word in _VALUED_BEFORE_COMMAND:
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return ""


def _behind(words: Sequence[str]) -> Sequence[str]:
    """Return the program that a wrapper runs, if the words leave no doubt."""
    has_time = words[0] == "timeout" and len(words) > 1 and words[1][:1].isdigit()
    inner = words[1 + has_time :]
    return inner if inner and inner[0][:1].isalpha() else ()


_Facets = tuple[str, ...]
_FIND_WRITES = names("-delete -fls -fprint -fprint0 -fprintf")
_IN_PLACE = re.compile(r"--in-?place|-[Ennrsuz]*i")


def harm(words: Simple | Words) -> _Facets:
    """Return `network`, `destructive`, `read-only` and `no-op`, as far as names show it."""
    program = base_name(words.first)
    if look := _LOOKS.get(program):
        return look(words.argv)
    if program in _keys_by_command("harm_by_command"):
        return _harm_of_command(words.argv)
    return _harms_by_program().get(program, ())


@cache
def _harms_by_program() -> Mapping[str, _Facets]:
    facets: dict[str, _Facets] = {}
    for facet, programs in program_table()["harm"].items():
        for program in programs.split():
            facets[program] = (*facets.get(program, ()), facet)
    return facets


def is_familiar(program: str) -> bool:
    """Return True if the program is well known, so that its name is no misspelt script."""
    return program in _familiar_programs()


@cache
def _familiar_programs() -> frozenset[str]:
    familiar = names(program_table()["words"]["familiar"])
    return familiar.union(_harms_by_program(), _keys_by_command("harm_by_command"))


def _harm_of_command(argv: Sequence[str]) -> _Facets:
    """Return the harm of a program by its sub-command; '' is the program without one."""
    commands = _keys_by_command("harm_by_command")[base_name(argv[0])]
    facet = commands.get(_sub_command(argv) or "''")
    return (facet,) if facet else ()


def _git(argv: Sequence[str]) -> _Facets:
    makes_branch = not names("-b -B --orphan").isdisjoint(argv)
    if _sub_command(argv) == "checkout" and not makes_branch:
        return ("destructive",)
    return _harm_of_command(argv)


def _find(argv: Sequence[str]) -> _Facets:
    """Return the facets of `find`: those of the commands that it runs, unless it writes itself."""
    if not _FIND_WRITES.isdisjoint(argv):
        return ("destructive",)
    harms = [_harm_inside(argv[start:stop]) for start, stop, _ in unwrap(argv)]
    if all("read-only" in facets for facets in harms):
        return ("read-only",)
    reached = {facet for facets in harms for facet in facets}
    return tuple(facet for facet in ("network", "destructive") if facet in reached)


def _harm_inside(argv: Sequence[str], depth: int = 4) -> _Facets:
    """Return the harm of a command that others may wrap; nothing where that is not known."""
    inner = [argv[start:stop] for start, stop, is_text in unwrap(argv) if not is_text]
    if inner and depth:
        return _harm_inside(inner[-1], depth - 1)
    if inner or is_wrapper(argv[0]):
        return ()
    return harm(Simple("", tuple(argv)))


def _filter(argv: Sequence[str]) -> _Facets:
    """Sed and yq, which with -i write what they read."""
    in_place = any(map(_IN_PLACE.match, argv[1:]))
    return ("destructive",) if in_place else ("read-only",)


def _sort(argv: Sequence[str]) -> _Facets:
    writes = any(word.startswith(("-o", "--output")) for word in argv[1:])
    return ("destructive",) if writes else ("read-only",)


_LOOKS: Mapping[str, Callable[[Sequence[str]], _Facets]] = {
    "git": _git,
    "find": _find,
    **dict.fromkeys(("sed", "gsed", "yq"), _filter),
    "sort": _sort,
}
