"""Files that the words of a command name, where Claude Code looks; and what its `sed` may do.

It takes words for paths by their place alone, so some are none; observed by running 2.1.330.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agenteval.dialects.claude_code.engine.word_reader import Command, Word

READERS = frozenset(
    (
        *("ls", "cat", "head", "tail", "wc", "sort", "uniq", "cut", "paste", "column", "stat"),
        *("file", "diff", "strings", "hexdump", "od", "base64", "nl", "tac", "rev", "cmp", "comm"),
        *("sha256sum", "sha1sum", "md5sum", "expand", "unexpand", "fmt", "fold", "pr", "tsort"),
        *("man", "numfmt"),
    )
)
WRITERS = frozenset(("rm", "rmdir", "mv", "cp", "touch", "mkdir", "tee"))
COPIERS = frozenset(("mv", "cp"))
_GREPS = frozenset(("grep", "egrep", "fgrep"))
_AWKS = frozenset(("awk", "gawk", "mawk", "nawk"))
# Options whose value is the next word.
_COUNTS = frozenset(
    (
        *("-A", "-B", "-C", "-m", "--max-count", "--context", "--after-context"),
        "--before-context",
    )
)
_GREP_VALUES = _COUNTS | {"--include", "--exclude", "--exclude-dir"}
_RG_VALUES = _COUNTS | {"-g", "-t", "-T", "-r", "--replace", "--type", "--glob", "--max-depth"}
_JQ_VALUES = frozenset(("--indent", "--arg", "--argjson"))
_CUT_VALUES = frozenset(
    ["-d", "-f", "-c", "-b", "--delimiter", "--fields", "--characters", "--bytes"]
)
_FIND_PATHS = frozenset(
    (
        *("-newer", "-anewer", "-cnewer", "-samefile", "-path", "-wholename", "-ilname"),
        *("-lname", "-ipath"),
    )
)
_FIND_LEADS = frozenset(("-L", "-H", "-P"))
_PRINTS = re.compile(r"(?:[0-9]+(?:,[0-9]+)?)?p(?:; *(?:[0-9]+(?:,[0-9]+)?)?p)*")
_REPLACES = re.compile(
    r"\s*s/(?:[^/{};#\n\\\x80-\U0010ffff]|\\[^/{};#%@|\n])*"
    r"/(?:[^/{};#\n\\\x80-\U0010ffff]|\\[^/{};#%@|\n])*/[gpimIM]*[1-9]?[gpimIM]*\s*"
)
_SED_FILES = re.compile(r"[ \t][wWeE]")
_MARKS = re.compile(r"[wWeE]")
_Y = re.compile(r"y[^\\\n]")
_S = re.compile(r"(?=s([^\\\n]))s")
_QUIET = frozenset(("-n", "--quiet", "--silent", "-nE", "-En", "-nr", "-rn"))
_SED_OPTIONS = _QUIET | {"-E", "-r", "--posix", "--regexp-extended"}
_IN_PLACE = frozenset(("-i", "--in-place"))


@dataclass(frozen=True, slots=True)
class _Touched:
    """The paths of one command; `writes` when it may change them, `read` those that it reads."""

    words: tuple[Word, ...] = ()
    read: tuple[Word, ...] = ()
    writes: bool = False


def touched(command: Command) -> _Touched:
    """Return the files of a command; none if Claude Code does not look at its program's files."""
    if not command.words:
        return _Touched()
    program, words = command.words[0].text, command.words[1:]
    if program in READERS:
        touched_words = tuple(_operands(words, _CUT_VALUES if program == "cut" else frozenset()))
        return _Touched(touched_words, touched_words)
    if program in WRITERS:
        touched_words = tuple(_operands(words))
        return _Touched(
            touched_words, touched_words[:-1] if program in COPIERS else (), writes=True
        )
    if look := _OTHERS.get(program):
        touched_words = tuple(look(words))
        writes = program == "sed" and not _prints_only(command.words)
        return _Touched(touched_words, touched_words, writes=writes)
    return _Touched()


def _operands(words: Sequence[Word], valued: frozenset[str] = frozenset()) -> Iterator[Word]:
    ended = skips = False
    for word in words:
        if skips:
            skips = False
        elif word.text == "--" and not ended:
            ended = True
        elif ended or not word.text.startswith("-") or word.text == "-":
            yield word
        else:
            skips = word.text in valued


def _grep(words: Sequence[Word]) -> Iterator[Word]:
    return _behind_pattern(words, _GREP_VALUES, ["-e", "--regexp"], ["-f", "--file"])


def _rg(words: Sequence[Word]) -> Iterator[Word]:
    return _behind_pattern(words, _RG_VALUES, ["-e", "--regexp"], ["-f", "--file"])


def _sed(words: Sequence[Word]) -> Iterator[Word]:
    return _behind_pattern(words, frozenset(), ["-e", "--expression"], ["-f", "--file"])


def _jq(words: Sequence[Word]) -> Iterator[Word]:
    return _behind_pattern(words, _JQ_VALUES, [], [])


def _awk(words: Sequence[Word]) -> Iterator[Word]:
    return _behind_pattern(words, frozenset(("-F", "-v")), [], [])


def _behind_pattern(
    words: Sequence[Word], valued: frozenset[str], patterns: list[str], files: list[str]
) -> Iterator[Word]:
    """The operands but the first, a pattern unless an option gave one; the files of options."""
    has_pattern = ended = False
    rest = iter(words)
    for word in rest:
        name, joined, value = word.text.partition("=")
        if word.text == "--" and not ended:
            ended = True
        elif not ended and word.text.startswith("-") and word.text != "-":
            if name in patterns or name in files:
                has_pattern = True
                given = Word(value, value) if joined else next(rest, None)
                if name in files and given:
                    yield given
            elif word.text in valued:
                next(rest, None)
                if word.text in {"--arg", "--argjson"}:
                    next(rest, None)
        elif has_pattern:
            yield word
        else:
            has_pattern = True


def _find(words: Sequence[Word]) -> Iterator[Word]:
    starts = True
    rest = iter(words)
    for word in rest:
        if starts and word.text in _FIND_LEADS:
            continue
        if word.text.startswith("-") or word.text in {"(", "!"}:
            starts = False
        if starts:
            yield word
        elif word.text in _FIND_PATHS and (value := next(rest, None)):
            yield value


def _git(words: Sequence[Word]) -> Iterator[Word]:
    return _operands(words[1:]) if words and words[0].text in {"diff", "grep"} else iter(())


def _cd(words: Sequence[Word]) -> Iterator[Word]:
    folders = list(_operands(words))
    return iter(folders or [Word("~", "~")])


_OTHERS: Mapping[str, Callable[[Sequence[Word]], Iterator[Word]]] = {
    **dict.fromkeys(_GREPS, _grep),
    "rg": _rg,
    **dict.fromkeys(_AWKS, _awk),
    "sed": _sed,
    "jq": _jq,
    "find": _find,
    "git": _git,
    "cd": _cd,
}


def replaces_in_place(words: Sequence[Word]) -> bool:
    """Return True if it is a `sed` that only replaces text, in one file at most."""
    options, others = _taken_apart(words)
    return (
        words[0].text == "sed"
        and 1 <= len(others) <= 2
        and options <= (_SED_OPTIONS - _QUIET) | _IN_PLACE
        and _REPLACES.fullmatch(others[0]) is not None
        and not any(map(_may_write, others))
    )


def _taken_apart(words: Sequence[Word]) -> tuple[set[str], list[str]]:
    """Its options, and all other words: the script, then files."""
    texts = [word.text for word in words[1:]]
    options = {text for text in texts if text.startswith("-")}
    return options, [text for text in texts if text not in options]


def _may_write(text: str) -> bool:
    """Return True if a word of a `sed` could be taken for a script that writes or runs.

    The name of its file is such a word too.
    """
    if _SED_FILES.search(text) or (_Y.search(text) and _MARKS.search(text)):
        return True
    for match in _S.finditer(text):
        second = text.find(match[1], match.end() + 1)
        third = text.find(match[1], second + 1)
        if 0 <= second < third:
            return _MARKS.search(text, third + 1) is not None
    return False


def _prints_only(words: Sequence[Word]) -> bool:
    """Return True if it is a `sed` that only prints lines by their numbers."""
    options, scripts = _taken_apart(words)
    return (
        options <= _SED_OPTIONS
        and not options.isdisjoint(_QUIET)
        and bool(scripts)
        and _PRINTS.fullmatch(scripts[0]) is not None
    )


def is_free_sed(words: Sequence[Word]) -> bool:
    """Return True if it needs no rule: it prints lines, or replaces in its standard input."""
    if _prints_only(words):
        return True
    options, scripts = _taken_apart(words)
    return (
        options <= _SED_OPTIONS - _QUIET
        and len(scripts) == 1
        and not any(mark in scripts[0] for mark in "$`")
        and _REPLACES.fullmatch(scripts[0]) is not None
        and not _may_write(scripts[0])
    )
