"""Programs by name: filters, shells, interpreters, and the code or script that they run.

Effects of programs on unchecked words: run others, write, delete, read, reach hosts.

Possible effects of a bare command, by its program, its sub-command and its options.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from agenteval.shell.facts import Words
from agenteval.shell.gate import Simple
from agenteval.shell.wrappers import is_wrapper, unwrap


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
_SUB_COMMAND_EFFECTS: Mapping[str, tuple[tuple[str, str], ...]] = {
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
    for programs, rows in _SUB_COMMAND_EFFECTS.items():
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


_Facets = tuple[str, ...]
_NETWORK = names(
    "ab apk apt apt-get aptitude aria2c aws axel az brew bunx curl dig dnf doctl flyctl ftp gcloud"
    " gh glab gsutil heroku host http https hub kubectl lftp lynx mosh mtr nc ncat netcat nmap npx"
    " nslookup oc pacman ping pipx rclone rsync s3cmd scp sftp snap socat ssh ssh-copy-id sshfs"
    " telnet traceroute uvx vercel wget whois wrangler xh youtube-dl yt-dlp yum zypper"
)
_DESTRUCTIVE = names(
    "chgrp chmod chown dd doas dropdb fdisk halt iptables kill killall mkfs mv parted passwd pkill"
    " poweroff reboot rename rm rmdir setfacl shred shutdown srm su sudo truncate umount unlink"
    " userdel usermod wipefs"
)
_READ_ONLY = FILTERS | names(
    "[ ack ag arch b2sum basename bzcat cal cd cksum cloc cmp comm date df diff diff3 dir dirname"
    " dirs dmesg du echo env exa expr eza false fd fdfind file find free getconf getent groups help"
    " history hostname id info iostat jobs join last ldd locale locate ls lsblk lscpu lsof lspci"
    " lsusb man md5sum mpstat netstat nm nproc nvidia-smi objdump pgrep plocate printenv printf ps"
    " pstree pwd readelf readlink realpath seq sha1sum sha256sum sha512sum size sleep ss stat test"
    " tokei top tree true tsort type uname uptime vmstat whatis whereis which who whoami xzcat yes"
    " zcat zgrep zless"
)
NO_OPS = names("echo true : false sleep")
# By program, what its sub-commands do; "" is the program without one.
_BY_COMMAND: Mapping[str, str] = {
    "git": "network: clone fetch ls-remote pull push;"
    " destructive: clean filter-branch gc prune reset restore rm;"
    " read-only: '' blame cat-file count-objects describe diff diff-tree for-each-ref grep help log"
    " ls-files ls-tree merge-base name-rev reflog rev-list rev-parse shortlog show show-ref status"
    " version whatchanged",
    "npm pnpm yarn bun": "network: add audit ci create dlx exec i install login outdated publish"
    " search update upgrade view x; destructive: remove rm un uninstall; read-only: list ls why",
    "pip pip3": "network: download index install search wheel; destructive: uninstall;"
    " read-only: check freeze list show",
    "uv poetry pdm": "network: add install lock pip publish sync tool update; destructive: remove",
    "conda mamba": "network: create install search update; destructive: remove; read-only: list",
    "cargo": "network: add fetch install publish search update; destructive: clean uninstall",
    "go": "network: get install; read-only: doc env list version vet",
    "gem bundle composer": "network: install require search update; destructive: uninstall",
    "docker podman": "network: login pull push search; destructive: kill prune rm rmi stop;"
    " read-only: diff events history images info inspect logs port ps stats top version",
    "systemctl": "destructive: disable halt kill mask poweroff reboot restart stop;"
    " read-only: '' cat is-active is-enabled list-unit-files list-units show status",
}
_FIND_WRITES = names("-delete -fls -fprint -fprint0 -fprintf")
_IN_PLACE = re.compile(r"--in-?place|-[Ennrsuz]*i")


def harm(words: Simple | Words) -> _Facets:
    """Return `network`, `destructive`, `read-only` and `no-op`, as far as names show it."""
    program = base_name(words.first)
    look = _LOOKS.get(program)
    return look(words.argv) if look else _KNOWN.get(program, ())


def is_familiar(program: str) -> bool:
    """Return True if the program is well known, so that its name is no misspelt script."""
    return program in _FAMILIAR


def _by_command(argv: Sequence[str]) -> _Facets:
    return _COMMANDS[base_name(argv[0])].get(sub_command(argv), ())


def _git(argv: Sequence[str]) -> _Facets:
    reverts = sub_command(argv) == "checkout" and not {"-b", "-B", "--orphan"}.intersection(argv)
    return ("destructive",) if reverts else _by_command(argv)


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


def _by_name() -> Mapping[str, _Facets]:
    facets: dict[str, _Facets] = {}
    reaching = ("network", _NETWORK), ("destructive", _DESTRUCTIVE)
    for facet, programs in (*reaching, ("read-only", _READ_ONLY), ("no-op", NO_OPS)):
        facets |= {program: (*facets.get(program, ()), facet) for program in programs}
    return facets


def _rows() -> Iterator[tuple[str, Mapping[str, _Facets]]]:
    for programs, rows in _BY_COMMAND.items():
        facets: dict[str, _Facets] = {}
        for row in rows.split(";"):
            facet, _, commands = row.partition(":")
            facets |= {command.strip("'"): (facet.strip(),) for command in commands.split()}
        for program in programs.split():
            yield program, facets


_KNOWN = _by_name()
_COMMANDS = dict(_rows())
_LOOKS: Mapping[str, Callable[[Sequence[str]], _Facets]] = {
    **dict.fromkeys(_COMMANDS, _by_command),
    "git": _git,
    "find": _find,
    **dict.fromkeys(("sed", "gsed", "yq"), _filter),
    "sort": _sort,
}
_FAMILIAR = frozenset((*_KNOWN, *_COMMANDS)) | names(
    "ar bash black bzip2 cc chattr clang cmake code comm cp crontab deno diff docker-compose"
    " dotnet eslint exec exit export ffmpeg firebase gcc go gpg gradle gunzip gzip helm import"
    " install java javac jest just ln local ls make mkdir mktemp mount mvn mypy mysql nginx node"
    " nox openssl perl php pre-commit prettier psql pushd pytest python python3 read redis-cli"
    " rename ruby ruff rustc screen select set sh source sqlite3 swift tar task terraform time"
    " tmux touch tox trap ts tsc unset unzip vi vim wait watch xargs zip zsh"
)
