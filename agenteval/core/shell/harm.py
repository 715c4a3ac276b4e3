"""Possible effects of a bare command, by its program, its sub-command and its options."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agenteval.core.shell.program_specs import sub_command
from agenteval.core.shell.programs import FILTERS, base_name, names
from agenteval.core.shell.simple_command import Simple
from agenteval.core.shell.word_list import Words
from agenteval.core.shell.wrappers import is_wrapper, unwrap

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
