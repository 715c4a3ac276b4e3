"""One rule of Claude Code's settings, and what it fits: commands, paths, other subjects.

`ToolSpecifier` is a rule, `forms` are a command and what it wraps, `touched` the files that the
words of a command name, where Claude Code looks. It takes words for paths by their place alone, so
some are none. At the end: what its `sed` may do. Observed by running 2.1.330.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import islice

from agenteval.dialects.claude_code.reading import Command, Word, Words
from agenteval.dialects.registry import load_table
from agenteval.policy.command_lines import in_order, inside, path_regex, wildcard_regex
from agenteval.shell.wrappers import MAX_WRAPPED, base_name, unwrap

RENAMED = {"agent": "task", "killbash": "killshell"}
_ESCAPED = re.compile(r"\\([()\\])")
_STAR = re.compile(r"(?<!\\)\*")
# Each run is read once, whether it is replaced or not: there may be a hundred thousand blanks.
_CONTINUED = re.compile(r"[ \t]++(?:\\\n[ \t]*+)?|\\\n[ \t]*+")
_BLANKS = re.compile(r"[ \t\n\\]++")
_ENVIRONMENT = re.compile(
    r"(?:(?:LANG|LC_\w+)=(?:C|POSIX|[a-z]{2}_[A-Z]{2})?(?:\.[\w-]+)?"
    r"|(?:LANGUAGE|LC_TIME|CHARSET|TERM|COLORTERM|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE"
    r"|NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|CI|COLUMNS|LINES"
    r"|PYTEST_DISABLE_PLUGIN_AUTOLOAD|GOOS|GOARCH|GOEXPERIMENT|CGO_ENABLED|GO111MODULE|LSCOLORS"
    r"|LS_COLORS|GREP_COLORS?|GCC_COLORS|TIME_STYLE|BLOCK_SIZE|BLOCKSIZE|ANTHROPIC_API_KEY"
    r")=[A-Za-z0-9_./:+-]+)[ \t]+"
)
_CLEAN = re.compile(r"(?:command(?:[ \t]+-p)?|builtin|noglob)[ \t]+(?![ \t-])")
_TIMEOUT = re.compile(
    r"timeout(?:[ \t]+(?:--(?:foreground|preserve-status|verbose)|-v"
    r"|-[ks][ \t]*[\w.]+|--(?:kill-after|signal)=[\w.]+))*"
    r"[ \t]+[0-9]+(?:\.[0-9]+)?[smhd]?[ \t]+(?![ \t-])"
)
_LOOSE = re.compile(
    r"(?:time|nohup|nice(?:[ \t]+-n[ \t]+-?[0-9]+|[ \t]+-[0-9]+)?|stdbuf(?:[ \t]+-[ioe]\w+)+)"
    r"[ \t]+(?![ \t-])"
)
_WRAPPERS = (_CLEAN, _TIMEOUT, _LOOSE)
PROGRAMS = load_table("claude_code/programs.toml", dict[str, frozenset[str]])


@dataclass(frozen=True, slots=True)
class ToolSpecifier:
    """One rule, as `Bash(git diff:*)`: a tool in lower case and what of it; "" means all of it.

    Brackets and backslashes of a command are written with a backslash before them.
    """

    tool: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.what})" if self.what else self.tool

    @classmethod
    def parse(cls, text: str) -> "ToolSpecifier":
        name, _, rest = text.strip().partition("(")
        tool = name.lower()
        what = _ESCAPED.sub(r"\1", rest.removesuffix(")"))
        if what in {"*", ":*"}:
            what = ""
        return cls(RENAMED.get(tool, tool), what)

    def names(self, tool: str) -> bool:
        """Return True if it is about the tool; an MCP server's name stands for all its tools."""
        pattern = wildcard_regex(self.tool)
        return pattern.fullmatch(tool) is not None or tool.startswith(f"{self.tool}__")

    @property
    def is_exact(self) -> bool:
        return not (self.what.endswith(":*") or _STAR.search(self.what))

    def fits_text(self, text: str) -> bool:
        """Return True if it fits a command written so.

        Blanks count as one, except in an exact rule.
        """
        if not self.what:
            return True
        if self.is_exact:
            return self.what in {text, _joined(text)}
        text, what = _spaced(text.strip()), _spaced(self.what)
        if self.what.endswith(":*"):
            what = what.removesuffix(":*")
            return text == what or text.startswith(f"{what} ")
        return _pattern(what).fullmatch(text) is not None


# One text is held against many rules.
@lru_cache(maxsize=64)
def _joined(text: str) -> str:
    """Its lines that a backslash ends, with a blank before the next."""
    return _CONTINUED.sub(lambda run: " " if "\n" in run[0] else run[0], text)


@lru_cache(maxsize=64)
def _spaced(text: str) -> str:
    """Return a text with one blank for many, and for line ends and the backslashes next to them."""
    return _BLANKS.sub(_one_blank, text)


def _one_blank(run: re.Match[str]) -> str:
    has_blank = not {*run[0]} <= {"\n", "\\"}
    return " " if has_blank else run[0]


@cache
def _pattern(what: str) -> re.Pattern[str]:
    """Only `*` stands for anything; ` *` at the end for nothing too, if it is the one star."""
    first, *others = map(re.escape, _STAR.split(what))
    if len(others) == 1 and what.endswith(" *"):
        return re.compile(f"{first.removesuffix(re.escape(' '))}(?: .*)?", re.DOTALL)
    return re.compile(first + in_order(others, "."), re.DOTALL)


def forms(command: Command) -> Iterator[Command]:
    """The command, and what is left of it without what only wraps it, for rules that allow."""
    yield from _layers(command, _WRAPPERS)
    inner = unwrapped(command, loosely=True)
    if inner.argv[:1] == ("xargs",) and len(inner.words) > 1:
        text = inner.text[len(inner.words[0].raw) :].lstrip()
        yield Command(text, inner.words[1:])


def unwrapped(command: Command, *, loosely: bool) -> Command:
    """Without the wrappers that change nothing; `loosely` without all that are looked through."""
    *_, inner = _layers(command, _WRAPPERS if loosely else _WRAPPERS[:-1])
    return inner


def is_wrapped_too_often(command: Command) -> bool:
    """Return True if more wraps it than is looked through.

    Each layer is a copy of all that it wraps.
    """
    layers = _layers(command, _WRAPPERS)
    return next(islice(layers, MAX_WRAPPED + 1, None), None) is not None


def _layers(command: Command, wrappers: Iterable[re.Pattern[str]]) -> Iterator[Command]:
    yield command
    while shorter := _without(command, _ENVIRONMENT) or _without(command, *wrappers):
        command = shorter
        yield command


def _without(command: Command, *patterns: re.Pattern[str]) -> Command | None:
    for pattern in patterns:
        match = pattern.match(command.text)
        if not match:
            continue
        rest = command.text[match.end() :]
        words, assignments = command.words, command.assignments
        count = len(match[0].split())
        if pattern is _ENVIRONMENT:
            if assignments:
                return Command(rest, words, assignments[1:])
        elif count < len(words):
            return Command(rest, words[count:], assignments)
    return None


def allows_command(rule: ToolSpecifier, command: Command) -> bool:
    texts = (text for form in forms(command) for text in _spellings(form))
    return any(map(rule.fits_text, texts))


def _spellings(command: Command) -> Iterator[str]:
    """Yield it as written, and with the program's name without its quotes.

    Of git the subcommand loses its quotes too.
    """
    yield command.text
    if not command.words or command.assignments:
        return
    raws = [word.raw for word in command.words]
    counts = (1, 2) if command.words[0].text == "git" else (1,)
    for count in counts:
        plain = [word.text for word in command.words[:count]]
        if plain != raws[:count]:
            yield " ".join([*plain, *raws[count:]])


def denied_texts(command: Command) -> Iterator[str]:
    """Yield the texts that a rule that denies or asks may fit.

    It sees through quotes, assignments and all that starts programs.
    """
    yield command.text
    for form in forms(command):
        for argv in _started(form.argv, 0):
            yield " ".join(argv)


def _started(argv: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    if not argv:
        return
    yield argv
    program = argv[0]
    if "/" in program:
        yield (base_name(program), *argv[1:])
    is_starter = program in PROGRAMS["starters"]
    if program == "xargs":
        is_starter = argv[1:2] > ("-~",)
    if is_starter and depth < MAX_WRAPPED:
        for part in unwrap(argv):
            yield from _started(argv[part.start : part.stop], depth + 1)


def fits_path(
    what: str,
    whole: str | None,
    root: str,
    *,
    denies: bool,
) -> bool:
    """Return True if `what` fits a path, as .gitignore matches.

    // is absolute, and a pattern without a folder fits at any depth. Whatever lies in a folder that
    fits does so too. For a rule that denies, `x/**` is `x`.
    """
    if not what:
        return True
    if whole is None:
        return what in {"*", "**"}
    if what.startswith("//"):
        base, pattern = "/", what[2:]
    else:
        base, pattern = root, what.removeprefix("./")
        name = pattern.removesuffix("/**") if denies else pattern
        is_anchored = "/" in name.rstrip("/")
        pattern = pattern.removeprefix("/") if is_anchored else f"**/{name}"
    subject = inside(whole, base)
    if subject is None:
        return False
    folder = pattern.rstrip("/").removesuffix("/**") or "**"
    globs = [f"{folder}/**"]
    if not pattern.endswith("/"):
        globs.append(folder)
    return any(path_regex(glob).fullmatch(subject) for glob in globs)


def fits_subject(what: str, subject: str) -> bool:
    """Return True if a rule is about the subject.

    A rule for a skill may end in `:*`, for any arguments; those are not known here.
    """
    pattern = wildcard_regex(what.removesuffix(":*"))
    return not what or pattern.fullmatch(subject) is not None


WRITERS = PROGRAMS["writers"]
COPIERS = PROGRAMS["copiers"]
_NONE: frozenset[str] = frozenset()
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
_QUIET = PROGRAMS["sed_quiet"]
_LOUD_OPTIONS = frozenset(("-E", "-r", "--posix", "--regexp-extended"))
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
    if program in PROGRAMS["readers"]:
        valued = PROGRAMS["cut_values"] if program == "cut" else _NONE
        operands = tuple(_operands(words, valued))
        return _Touched(operands, operands)
    if program in WRITERS:
        operands = tuple(_operands(words))
        sources = operands[:-1] if program in COPIERS else ()
        return _Touched(operands, sources, writes=True)
    if look := _OTHERS.get(program):
        operands = tuple(look(words))
        writes = program == "sed" and not _prints_only(command.words)
        return _Touched(operands, operands, writes=writes)
    return _Touched()


def _operands(words: Words, valued: frozenset[str] = _NONE) -> Iterator[Word]:
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


def _behind_pattern(
    valued: frozenset[str],
    pattern_options: frozenset[str],
    words: Words,
) -> Iterator[Word]:
    """Yield the operands but the first, a pattern unless an option gave one; and -f's files."""
    file_options = {"-f", "--file"} if pattern_options else _NONE
    has_pattern = ended = False
    rest = iter(words)
    for word in rest:
        name, joined, value = word.text.partition("=")
        if word.text == "--" and not ended:
            ended = True
        elif not ended and word.text.startswith("-") and word.text != "-":
            if name in pattern_options or name in file_options:
                has_pattern = True
                file = Word(value, value) if joined else next(rest, None)
                if name in file_options and file:
                    yield file
            elif word.text in valued:
                next(rest, None)
                if word.text in {"--arg", "--argjson"}:
                    next(rest, None)
        elif has_pattern:
            yield word
        else:
            has_pattern = True


def _find(words: Words) -> Iterator[Word]:
    starts = True
    rest = iter(words)
    for word in rest:
        if starts and word.text in _FIND_LEADS:
            continue
        if word.text.startswith("-") or word.text in {"(", "!"}:
            starts = False
        if starts:
            yield word
        elif word.text in PROGRAMS["find_files"] and (value := next(rest, None)):
            yield value


def _git(words: Words) -> Iterator[Word]:
    if words and words[0].text in {"diff", "grep"}:
        yield from _operands(words[1:])


def _cd(words: Words) -> Iterator[Word]:
    yield from [*_operands(words)] or [Word("~", "~")]


_REGEXP = frozenset(("-e", "--regexp"))
_OTHERS: Mapping[str, Callable[[Words], Iterator[Word]]] = {
    **dict.fromkeys(PROGRAMS["greps"], partial(_behind_pattern, PROGRAMS["grep_values"], _REGEXP)),
    **dict.fromkeys(PROGRAMS["awks"], partial(_behind_pattern, PROGRAMS["awk_values"], _NONE)),
    "rg": partial(_behind_pattern, PROGRAMS["rg_values"], _REGEXP),
    "sed": partial(_behind_pattern, _NONE, frozenset(("-e", "--expression"))),
    "jq": partial(_behind_pattern, PROGRAMS["jq_values"], _NONE),
    "find": _find,
    "git": _git,
    "cd": _cd,
}


def replaces_in_place(words: Words) -> bool:
    """Return True if it is a `sed` that only replaces text, in one file at most."""
    options, others = _taken_apart(words)
    if words[0].text != "sed" or not 1 <= len(others) <= 2:
        return False
    is_known = options <= _LOUD_OPTIONS | _IN_PLACE and not any(map(_may_write, others))
    return is_known and _REPLACES.fullmatch(others[0]) is not None


def _taken_apart(words: Words) -> tuple[set[str], list[str]]:
    """Return its options, and all other words: the script, then files."""
    texts = [word.text for word in words[1:]]
    options = {text for text in texts if text.startswith("-")}
    return options, [text for text in texts if text not in options]


def _may_write(text: str) -> bool:
    """Return True if a word of a `sed` could be taken for a script that writes or runs.

    The name of its file is such a word too.
    """
    if _SED_FILES.search(text):
        return True
    if _Y.search(text) and _MARKS.search(text):
        return True
    for match in _S.finditer(text):
        second = text.find(match[1], match.end() + 1)
        third = text.find(match[1], second + 1)
        if 0 <= second < third:
            return _MARKS.search(text, third + 1) is not None
    return False


def _prints_only(words: Words) -> bool:
    """Return True if it is a `sed` that only prints lines by their numbers."""
    options, scripts = _taken_apart(words)
    if not options <= _LOUD_OPTIONS | _QUIET or options.isdisjoint(_QUIET):
        return False
    return bool(scripts) and _PRINTS.fullmatch(scripts[0]) is not None


def is_free_sed(words: Words) -> bool:
    """Return True if it needs no rule: it prints lines, or replaces in its standard input."""
    if _prints_only(words):
        return True
    options, scripts = _taken_apart(words)
    if not options <= _LOUD_OPTIONS or len(scripts) != 1:
        return False
    (script,) = scripts
    if any(mark in script for mark in "$`") or _may_write(script):
        return False
    return _REPLACES.fullmatch(script) is not None
