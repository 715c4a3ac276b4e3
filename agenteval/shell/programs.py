"""Programs by name: their scripts and code, what they may do on unchecked words, what they show.

The first part decides: a policy compares the script or code that a command runs. The rest
explains denials and warns of wide rules, by the table in `programs.toml`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from agenteval.lazily import read_table
from agenteval.shell.facts import Words
from agenteval.shell.gate import Simple, names
from agenteval.shell.wrappers import is_wrapper, unwrap

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


# What xargs puts into a command.

# How xargs is told in place of what: the mark may be the next word.
_MARKS = re.compile(r"-[0rtxpo]*(I|i)(.*)|--rep[a-z]*(?:=(.*))?", re.DOTALL)


def filled(argv: Sequence[str], start: int) -> Iterator[str]:
    """The words, with a star in place of what xargs or parallel puts there behind `start`."""
    marks: set[str] = set()
    if base_name(argv[start - 1]) == "parallel":
        marks = {"{}", ":::"}
    for word, behind in pairwise((*argv[start:], "")):
        if option := _MARKS.fullmatch(word):
            next_word = behind if option[1] == "I" else "{}"
            marks.add(option[2] or option[3] or next_word)
    any_mark = "|".join(map(re.escape, marks - {""}))
    filled_in = re.compile(any_mark or r"(?!)")
    yield from argv[:start]
    for word in argv[start:]:
        yield filled_in.sub("*", word)


_SCRIPT = "it runs any script or program: name the script, as in `uv run scripts/x.py *`"
_ANY_CODE = "it runs any code, given with -c or in a file: name the script"


# The table of programs. No verdict depends on it: it explains denials and warns of wide rules.


@cache
def _table() -> Mapping[str, Any]:
    return read_table("agenteval.shell", "programs.toml")


def _by_word(row: Mapping[str, str]) -> dict[str, str]:
    """Return each word of a row with the key that it stands behind."""
    return {word: key for key, words in row.items() for word in words.split()}


@cache
def _by_command(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return a table of sub-commands: for each program, its sub-commands with their keys."""
    by_program: dict[str, Mapping[str, str]] = {}
    for programs, row in _table()[name].items():
        by_program |= dict.fromkeys(programs.split(), _by_word(row))
    return by_program


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
        return "" if any(not word.startswith("-") for word in words[1:]) else _ANY_CODE
    reason = _reason(program, _sub_command(words))
    if program in names(_table()["words"]["wrappers"]):
        if inner := _behind(words):
            return left_open(inner)
        reason = "runs"
    sentences: Mapping[str, str] = _table()["reasons"]
    return sentences.get(reason, reason)


def _reason(program: str, command: str) -> str:
    """Return the key of what a program, with this sub-command if it has one, leaves open."""
    commands = _by_command("left_open_by_command").get(program)
    if commands and command:
        return commands.get(command, "")
    return _left_open_by_program().get(program, "")


@cache
def _left_open_by_program() -> Mapping[str, str]:
    return _by_word(_table()["left_open"])


class _Shows(NamedTuple):
    """One row of programs that show files; `programs.toml` says what its fields mean."""

    operands: int = 0
    valued: str = ""
    other: str = ""
    finds: bool = False


@cache
def _shows_by_program() -> Mapping[str, _Shows]:
    by_program: dict[str, _Shows] = {}
    for programs, row in _table()["shows"].items():
        by_program |= dict.fromkeys(programs.split(), _Shows(**row))
    return by_program


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
    operands, valued = shows.operands, names(shows.valued)
    files: list[str] = []
    rest = iter(argv[1:])
    for word in rest:
        if not word.startswith("-"):
            files.append(word)
        elif any(_is_option(word, option) for option in shows.other.split()):
            return []
        else:
            option, is_behind = _valued_in(word, valued)
            operands -= option in _PROGRAM_GIVEN
            if is_behind:
                next(rest, "")
    files = [file for file in files[max(operands, 0) :] if not _NO_FILE.fullmatch(file)]
    return [file for file in files if "." in base_name(file)[1:]] if shows.finds else files


def wants_input(argv: Sequence[str]) -> bool:
    """Return True if such a command works on piped input: it names no file or code."""
    program = base_name(argv[0])
    if interpreter(program):
        return all(word[:1] == "-" and word[1:2] not in {"c", "e", "m"} for word in argv[1:])
    is_filter = program in FILTERS or can_show(program) or program in {"tee", "xargs"}
    return is_filter and not shown_files(argv)


def _valued_in(word: str, valued: frozenset[str]) -> tuple[str, bool]:
    """The option with a value that stands in a word, and whether the value stands behind it."""
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
    operand = words[0] == "timeout" and words[1:2] != [] and words[1][:1].isdigit()
    inner = words[1 + operand :]
    return inner if inner and inner[0][:1].isalpha() else ()


_Facets = tuple[str, ...]
_FIND_WRITES = names("-delete -fls -fprint -fprint0 -fprintf")
_IN_PLACE = re.compile(r"--in-?place|-[Ennrsuz]*i")


def harm(words: Simple | Words) -> _Facets:
    """Return `network`, `destructive`, `read-only` and `no-op`, as far as names show it."""
    program = base_name(words.first)
    look = _LOOKS.get(program)
    if look:
        return look(words.argv)
    if program in _by_command("harm_by_command"):
        return _harm_of_command(words.argv)
    return _harms_by_program().get(program, ())


@cache
def _harms_by_program() -> Mapping[str, _Facets]:
    facets: dict[str, _Facets] = {}
    for facet, programs in _table()["harm"].items():
        for program in programs.split():
            facets[program] = (*facets.get(program, ()), facet)
    return facets


def is_familiar(program: str) -> bool:
    """Return True if the program is well known, so that its name is no misspelt script."""
    return program in _familiar_programs()


@cache
def _familiar_programs() -> frozenset[str]:
    familiar = names(_table()["words"]["familiar"])
    return familiar.union(_harms_by_program(), _by_command("harm_by_command"))


def _harm_of_command(argv: Sequence[str]) -> _Facets:
    """Return the harm of a program by its sub-command; '' is the program without one."""
    commands = _by_command("harm_by_command")[base_name(argv[0])]
    facet = commands.get(_sub_command(argv) or "''")
    return (facet,) if facet else ()


def _git(argv: Sequence[str]) -> _Facets:
    reverts = _sub_command(argv) == "checkout" and not {"-b", "-B", "--orphan"}.intersection(argv)
    return ("destructive",) if reverts else _harm_of_command(argv)


def _find(argv: Sequence[str]) -> _Facets:
    """Return the facets of `find`: those of the commands that it runs, unless it writes itself."""
    if not _FIND_WRITES.isdisjoint(argv):
        return ("destructive",)
    facets = [_run_by(tuple(argv[start:stop])) for start, stop, _ in unwrap(argv)]
    if all("read-only" in each for each in facets):
        return ("read-only",)
    reaching = ("network", "destructive")
    return tuple(each for each in reaching if any(each in of for of in facets))


def _run_by(argv: Sequence[str], depth: int = 4) -> _Facets:
    """The harm of a command that others may wrap; nothing where that is not known."""
    inner = [tuple(argv[start:stop]) for start, stop, is_text in unwrap(argv) if not is_text]
    if inner and depth:
        return _run_by(inner[-1], depth - 1)
    return () if inner or is_wrapper(argv[0]) else harm(Simple("", tuple(argv)))


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
