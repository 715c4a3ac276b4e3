"""Effects of programs on unchecked words: run others, write, delete, read, reach hosts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agenteval.core.shell.programs import FILTERS, after_runner, base_name, interpreter, names

_RUNS = "it runs whatever its arguments say"
_READS = "it reads any file, outside the workspace too"
_WRITES = "it can write any file"
_DELETES = "it can delete any file"
_HOSTS = "it reaches any host"
_CODE = "it runs code from the files that it is given"
_SHELL = "! in it runs a shell"

# Programs by the reason, and of those with sub-commands what each one does.
_PROGRAMS: tuple[tuple[str, str], ...] = (
    (
        (
            "busybox chroot chronic chrt doas dotenv entr env exec flock gdb ionice ltrace "
            "nice nohup nsenter parallel perf runuser script setarch setpriv setsid ssh "
            "stdbuf strace su sudo systemd-run taskset time timeout tmux screen toybox "
            "unbuffer unshare watch xargs"
        ),
        _RUNS,
    ),
    ("bunx conda npx nix-shell pipx uvx", _RUNS),
    (
        (
            "ant bazel cmake docker-compose gmake gradle just make meson mix mvn ninja nox"
            " pre-commit py.test pytest rake task tox turbo vitest jest"
        ),
        _CODE,
    ),
    ("go cargo dotnet npm pnpm yarn bun deno poetry pdm hatch uv pipenv rye", _RUNS),
    ("docker podman kubectl", "it runs any program, in a container that may hold this machine"),
    ("pip pip3 gem bundle composer apt apt-get brew dnf", "it installs and runs what it is told"),
    (
        (
            "cat head tail grep egrep fgrep zgrep zcat xzcat bzcat od nl diff diff3 sdiff cmp comm"
            " cut wc tac rev paste join fold fmt pr expand unexpand column strings hexdump"
            " base32 base64 basenc cksum sum md5sum sha1sum sha256sum sha512sum b2sum file look"
            " tsort bat batcat jq readelf objdump nm ldd xmllint csvcut csvgrep csvlook"
        ),
        _READS,
    ),
    ("cp mv install ln dd tee split csplit truncate xxd iconv patch gzip bzip2 xz zstd", _WRITES),
    ("touch mkdir chmod chown chgrp unzip 7z", "it can change any file"),
    ("rm rmdir unlink shred", _DELETES),
    ("less more man most", _SHELL),
    ("vi vim nvim view ed ex emacs nano", ":! or a command in it runs a shell"),
    ("scp sftp ftp rclone aria2c http https xh yt-dlp", f"{_HOSTS}, and can write any file"),
    ("nc ncat netcat socat telnet", f"{_HOSTS}, and can run a program"),
    ("ping dig host nslookup whois traceroute", _HOSTS),
    ("find", "-exec and -delete act on what it finds, -fprint writes"),
    ("fd fdfind", "-x runs a program on what it finds"),
    ("rg", "--pre runs a program on each file, and it reads any"),
    ("ag ack", "--pager runs a program, and it reads any file"),
    ("sed gsed", "-i and the command w write files, e runs programs"),
    ("awk gawk mawk nawk", "system() runs programs, > in its text writes files"),
    ("tar bsdtar", "--to-command and --checkpoint-action run programs"),
    ("zip", "-TT runs a program, and it writes any file"),
    ("cpio ar", _WRITES),
    ("rsync", "-e runs a program, and it can write anywhere"),
    ("curl", "it reaches any host, and -o writes any file"),
    ("wget", "it reaches any host, and -O writes any file"),
    ("sort", "-o writes any file, --compress-program runs one"),
    ("shuf", "-o writes any file, and it reads any"),
    ("uniq", "its second file is written"),
    ("yq", "-i writes the file that it reads"),
    ("tree du", "-o and --files0-from reach any file"),
    ("sqlite3", ".shell runs a program, ATTACH opens any file"),
    ("psql mysql", "\\! runs a shell"),
    ("openssl gpg", "it reads and writes any file"),
    ("git", "-c and an alias run any program"),
    ("lua luajit tclsh guile awka java R Rscript julia swift elixir", _CODE),
)
_DIFFS = "--output writes any file, --ext-diff runs a configured program"
_SUB_COMMANDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "git": (
        ("diff log show", _DIFFS),
        ("grep", "-O and --open-files-in-pager run a program"),
        ("config", "an alias or pager set here runs later"),
        ("bisect submodule filter-branch rebase difftool mergetool", _RUNS),
        ("clone fetch pull push ls-remote remote", f"{_HOSTS}, and ext:: runs a program"),
        ("checkout restore reset clean rm stash switch", "it throws changes away"),
        ("archive format-patch bundle", "-o writes any file"),
    ),
    "docker podman": (("run exec build compose create cp start", _RUNS),),
    "kubectl": (("apply cp debug delete exec run edit", _RUNS),),
    "npm pnpm yarn bun": (("add ci create dlx exec i install run start test x", _RUNS),),
    "cargo": (("bench build install run test", _RUNS),),
    "go": (("build generate install run test tool", _RUNS),),
    "dotnet": (("build exec msbuild run test tool", _RUNS),),
    "deno": (("bench eval install run serve task test", _RUNS),),
    "uv": (("add pip sync tool", "it installs and runs what it is told"),),
    "poetry pdm hatch pipenv rye": (("add install run shell", _RUNS),),
    "pip pip3": (("download install wheel", "it installs and runs what it is told"),),
    "gem bundle composer apt apt-get brew dnf": (("exec install require update", _RUNS),),
}
_SCRIPT = "it runs any script or program: name the script, as in `uv run scripts/x.py *`"
_ANY_CODE = "it runs any code, given with -c or in a file: name the script"


def _by_word(rows: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {word: reason for words, reason in rows for word in words.split()}


def _tables() -> Iterator[tuple[str, Mapping[str, str]]]:
    for programs, rows in _SUB_COMMANDS.items():
        for program in programs.split():
            yield program, _by_word(rows)


_OF_PROGRAM = _by_word(_PROGRAMS)
_OF_COMMAND = dict(_tables())
_WRAPPERS = frozenset(_PROGRAMS[0][0].split())


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
    if program in _OF_COMMAND and (command := sub_command(words)):
        return _OF_COMMAND[program].get(command, "")
    if program in _WRAPPERS and (inner := _behind(words)):
        return left_open(inner)
    return _OF_PROGRAM.get(program, "")


class _Shows(NamedTuple):
    """The rule for a program that shows files.

    `operands` is the number of words before the files, and `valued` are the options with a value.
    With an option in `other` it does more than show them.
    """

    operands: int
    valued: frozenset[str]
    other: tuple[str, ...]


_SHOWS: tuple[tuple[str, int, str, str], ...] = (
    ("cat", 0, "", ""),
    ("tac", 0, "-s --separator", ""),
    ("nl", 0, "-b -d -f -h -i -l -n -s -v -w", ""),
    ("less more", 0, "-P -b -h -j -k -p -t -x -y -z", "-o -O"),
    ("bat batcat", 0, "-H -l -m -r --language --line-range --style --theme", ""),
    ("head tail", 0, "-n -c --lines --bytes", "-f -F --follow"),
    ("wc", 0, "", "--files0-from"),
    ("sort", 0, "-k -t -S -T --key --field-separator", "-o --output --files0-from"),
    ("uniq", 0, "-f -s -w", ""),
    ("cut", 0, "-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter", ""),
    ("sed gsed", 1, "-e -f -l --expression --file", "-i --in-place"),
    ("awk gawk", 1, "-F -v -f --assign --field-separator", "-i"),
    ("jq", 1, "--indent", "-f -n --arg --from-file --null-input --rawfile --slurpfile"),
)
_NEAR_LINES = "-A -B -C -m -e -f --after-context --before-context --context --max-count --regexp"
_SHOWS_FOUND = (
    ("grep egrep fgrep", 1, f"{_NEAR_LINES} -d -D --include --exclude", "-r -R --rec --deref"),
    ("rg", 1, f"{_NEAR_LINES} -d -g -j -t -E -M -T --glob --type --type-not", "-r --files --repl"),
)
_SHOWN_BY = {
    program: _Shows(operands, names(valued), tuple(other.split()))
    for programs, operands, valued, other in (*_SHOWS, *_SHOWS_FOUND)
    for program in programs.split()
}
_SEARCHES = names(" ".join(programs for programs, *_ in _SHOWS_FOUND))
_PROGRAM_GIVEN = names("-e -f --expression --file --regexp")
# +5, what find puts in, awk's a=b
_NO_FILE = re.compile(r"\+.*|.*\{\}.*|[A-Za-z_]\w*=.*", re.DOTALL)


def can_show(program: str) -> bool:
    """Return True if such a program shows files."""
    return base_name(program) in _SHOWN_BY


def shown_files(argv: Sequence[str]) -> list[str]:
    """Return the files that such a command only shows, searches or counts; none in doubt."""
    program = base_name(argv[0])
    if (shows := _SHOWN_BY.get(program)) is None:
        return []
    operands, valued, other = shows
    files, words = list[str](), iter(argv)
    next(words)
    for word in words:
        if not word.startswith("-"):
            files.append(word)
        elif any(_is_option(word, each) for each in other):
            return []
        else:
            option, is_behind = _valued_in(word, valued)
            operands -= option in _PROGRAM_GIVEN
            if is_behind:
                next(words, "")
    files = [each for each in files[max(operands, 0) :] if not _NO_FILE.fullmatch(each)]
    is_search = program in _SEARCHES
    return [each for each in files if "." in base_name(each)[1:]] if is_search else files


def wants_input(argv: Sequence[str]) -> bool:
    """Return True if such a command works on piped input: it names no file or code."""
    program = base_name(argv[0])
    if interpreter(program):
        return all(word[:1] == "-" and word[1:2] not in {"c", "e", "m"} for word in argv[1:])
    is_filter = program in FILTERS or program in _SHOWN_BY or program in {"tee", "xargs"}
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


_VALUED_BEFORE_COMMAND = names(
    "-C -c --git-dir --work-tree --prefix -H --host --context -n --namespace"
)


def sub_command(words: Sequence[str]) -> str:
    """The first word behind git, npm and the like that is no option of theirs; "" without one."""
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
