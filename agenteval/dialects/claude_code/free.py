"""Commands that Claude Code runs without any rule, because they can only read.

The options with which Claude Code takes programs for harmless, each a string of them.

`-ab` are letters without a value, `-n#` ones with a number, `-k=` with any value, and so are long
names; `=%` takes a format. Asked of 2.1.330 option by option.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from agenteval.dialects.claude_code.reading import Command, Word
from agenteval.dialects.claude_code.rules import is_free_sed

# Harmless whatever follows, where no file outside is touched.
ANYTHING = frozenset(
    (
        *("basename", "cal", "cat", "cmp", "column", "comm", "cut", "df", "diff", "dirname", "du"),
        *("echo", "expand", "expr", "false", "find", "fmt", "fold", "free", "groups", "head"),
        *("hexdump", "id", "locale", "ls", "nl", "nproc", "numfmt", "od", "paste", "pr"),
        *("readlink", "realpath", "rev", "seq", "sleep", "stat", "strings", "tac", "tail", "tr"),
        *("true", "tsort", "type", "uname", "unexpand", "uptime", "wc"),
    )
)
# Harmless with these words only.
EXACTLY = frozenset(
    (
        *("arch", "arch -h", "arch --help", "whoami", "pwd", "history", "ifconfig", "xargs"),
        *("node -v", "node --version", "python --version", "python3 --version"),
        *("claude -h", "claude --help", "tput"),
    )
)
PROGRAMS: Mapping[str, str] = {
    "base64": "-dhD -bw# -i= decode help ignore-garbage version wrap#",
    "date": (
        "-uIR -dr= date= debug help iso-8601= reference= rfc-3339= rfc-email universal utc version"
    ),
    "fd": (
        "-aghipqsFHILV -dj# -ceotES= absolute-path and= base-directory= batch-size# "
        "case-sensitive changed-before= changed-within= color= exact-depth# exclude= extension= "
        "fixed-strings follow format= full-path glob hidden ignore-case ignore-file= "
        "max-buffer-time= max-depth# max-results# min-depth# no-ignore no-ignore-vcs "
        "no-require-git one-file-system owner= path-separator= print0 prune quiet regex "
        "search-path= show-errors size= strip-cwd-prefix threads# type="
    ),
    "file": (
        "-bchiklnprsvL -F= apple brief dereference exclude= exclude-quiet= help keep-going list "
        "mime mime-encoding mime-type no-buffer no-dereference preserve-date print0 raw "
        "separator= special-files version"
    ),
    "grep": (
        "-abchilnoqrsvwxzEFGHILPRTUVZ -efmABCdD= after-context= basic-regexp before-context= "
        "binary binary-files= byte-offset color= colour= context= count dereference-recursive "
        "devices= directories= exclude= exclude-dir= exclude-from= extended-regexp file= "
        "files-with-matches files-without-match fixed-strings group-separator= help ignore-case "
        "include= initial-tab invert-match label= line-buffered line-number line-regexp "
        "max-count= no-filename no-group-separator no-ignore-case no-messages null null-data "
        "only-matching perl-regexp quiet recursive regexp= silent text version with-filename "
        "word-regexp"
    ),
    "hostname": (
        "-adfhisvAIV alias all-fqdns all-ip-addresses domain fqdn help ip-address long short "
        "version"
    ),
    "lsof": "-abghilnorstvxCEFHKLNOPQRSTUVX -cdekpuA=",
    "man": "-adfhkw -sS= all apropos whatis",
    "md5sum": (
        "-bctwz? binary check help ignore-missing quiet status strict tag text version warn zero"
    ),
    "netstat": "-agilmnrsvL -fI=",
    "pgrep": (
        "-acfilnovwxLV -dgrstuFGOPU= count delimiter= euid= exact full group= help ignore-case "
        "inverse lightweight list-full list-name logpidfile newest ns= nslist= older= oldest "
        "parent= pgroup= pidfile= runstates= session= terminal= uid= version"
    ),
    "ps": "-acdefjlmwyAFHLNTV -gnpqstuCGU= help",
    "rg": (
        "-achilnoquvwFHLS -dmABC# -efgtT= after-context# before-context# color= column context# "
        "count debug files-with-matches files-without-match fixed-strings follow glob= heading "
        "hidden ignore-case invert-match json line-number max-count# max-depth# no-heading "
        "no-ignore only-matching quiet regexp= smart-case stats text type= type-list type-not= "
        "word-regexp"
    ),
    "sort": (
        "-bcdfghimnrsuzCMRV -ktS= batch-size# buffer-size= check dictionary-order "
        "field-separator= general-numeric-sort help human-numeric-sort ignore-case "
        "ignore-leading-blanks ignore-nonprinting key= merge month-sort numeric-sort parallel# "
        "random-sort reverse sort= stable unique version version-sort zero-terminated"
    ),
    "ss": (
        "-abdehilmnopstuwxzEHMOSVZ -fA= all bpf cgroup context contexts dccp events extended "
        "family= help inet-sockopt info ipv4 ipv6 listening memory mptcp no-header numeric "
        "oneline options packet processes query= raw sctp socket= summary tcp tipc tipcinfo tos "
        "udp unix version vsock"
    ),
    "tput": "-xV -T=",
    "help": "-d",
    "ifconfig": "",
    "tree": (
        "help version -acdfghilnpqrstuvxACDFJNQSUX -L# -HIPT= charset= device dirsfirst du "
        "filelimit# fromfile gitignore ignore-case info inodes matchdirs metafirst noreport prune "
        "si sort= timefmt="
    ),
    "uniq": (
        "-abcdeghijklmnopqrtuvxyzABCDEFGHIJKLMNOPQRSTUVWXYZ -fsw# all-repeated check-chars count "
        "group help ignore-case repeated skip-chars skip-fields unique version zero-terminated"
    ),
    "which": "-apsvwV",
    "xargs": "-rtx0 -nsLP# -d=",
}
GIT: Mapping[str, str] = {
    "blame": (
        "-eflnpstwCM -L= abbrev# ignore-rev= ignore-revs-file= incremental line-porcelain "
        "porcelain root score-debug show-email show-name show-number show-stats date="
    ),
    "branch": (
        "-avril abbrev# all color column contains= ignore-case list merged no-abbrev no-color "
        "no-column no-contains= no-merged points-at= remotes show-current sort= verbose"
    ),
    "cat-file": "-pest batch-check",
    "config": "get global",
    "describe": (
        "abbrev# always broken candidates# contains dirty exact-match exclude= long match= tags"
    ),
    "diff": (
        "-BCDMRlpsu -GOS= abbrev# binary break-rewrites cached check color color-words "
        "diff-algorithm= diff-filter= dirstat exit-code find-copies find-copies-harder "
        "find-renames full-index function-context histogram ignore-all-space ignore-blank-lines "
        "ignore-space-at-eol ignore-space-change inter-hunk-context# irreversible-delete minimal "
        "name-only name-status no-color no-ext-diff no-index no-renames numstat patch-with-stat "
        "patience pickaxe-all pickaxe-regex quiet relative= shortstat staged stat summary "
        "word-diff word-diff-regex= ws-error-highlight="
    ),
    "for-each-ref": "contains= count# format=% merged= no-contains= no-merged= points-at= sort=",
    "grep": (
        "-chilnoqvwEFGHLP -ABC# -e= after-context# and basic-regexp before-context# break cached "
        "color context# count extended-regexp files-with-matches files-without-match "
        "fixed-strings full-name heading ignore-case invert-match line-number max-depth# no-color "
        "no-index not only-matching or perl-regexp quiet recurse-submodules threads# untracked "
        "word-regexp"
    ),
    "log": (
        "-ps -n# -SG= abbrev-commit after= all ancestry-path author-date-order author= before= "
        "boundary branches cherry-mark cherry-pick color committer= date-order date= decorate "
        "dense diff-filter= first-parent follow format=% full-history graph grep= left-right "
        "max-count# merges name-only name-status no-color no-decorate no-ext-diff no-merges "
        "no-patch no-walk numstat oneline patch pickaxe-all pickaxe-regex pretty=% relative-date "
        "remotes reverse shortstat since= skip# source sparse stat tags topo-order until= "
        "walk-reflogs"
    ),
    "ls-files": (
        "-mcdfikostuvz -xX= abbrev# cached debug deleted directory eol error-unmatch exclude= "
        "exclude-from= exclude-per-directory= exclude-standard full-name ignored killed modified "
        "no-empty-directory others recurse-submodules stage unmerged"
    ),
    "ls-remote": "-bhqt exit-code get-url heads quiet refs sort= symref tags",
    "merge-base": "all fork-point independent is-ancestor octopus",
    "reflog": (
        "-n# after= all author= before= branches committer= date= decorate graph grep= max-count# "
        "no-decorate oneline relative-date remotes since= tags until="
    ),
    "reflog show": (
        "-n# after= all author= before= branches committer= date= decorate graph grep= max-count# "
        "no-decorate oneline relative-date remotes since= tags until="
    ),
    "remote": "-v verbose",
    "remote show": "-n",
    "rev-list": (
        "-n# abbrev# abbrev-commit after= all ancestry-path author= before= branches committer= "
        "count dense first-parent full-history graph grep= max-age# max-count# max-parents# "
        "merges min-age# min-parents# no-max-parents no-merges no-min-parents oneline remotes "
        "reverse since= skip# source sparse tags until= walk-reflogs"
    ),
    "rev-parse": (
        "abbrev-ref absolute-git-dir git-common-dir git-dir is-bare-repository is-inside-git-dir "
        "is-inside-work-tree is-shallow-repository short# show-cdup show-prefix show-toplevel "
        "symbolic symbolic-full-name verify"
    ),
    "shortlog": (
        "-cnse after= all author= before= branches committer email group= no-merges numbered "
        "remotes since= summary tags until="
    ),
    "show": (
        "-mps abbrev-commit color color-words date= decorate diff-filter= first-parent format=% "
        "graph name-only name-status no-color no-decorate no-ext-diff no-patch numstat oneline "
        "patch pretty=% quiet raw relative-date shortstat stat word-diff word-diff-regex="
    ),
    "stash list": "-n# oneline date= all graph since= until= max-count#",
    "stash show": "-p stat name-only name-status numstat patch",
    "status": (
        "-sbv -uM= ahead-behind branch column find-renames= ignore-submodules= ignored long "
        "no-ahead-behind no-column no-renames porcelain renames short untracked-files= verbose"
    ),
    "tag": (
        "-li -n# column contains= ignore-case list merged= no-column no-contains= no-merged= "
        "points-at= sort="
    ),
    "worktree list": "-v porcelain verbose",
}

_SAME = {"egrep": "grep", "fgrep": "grep", "fdfind": "fd", "sha1sum": "md5sum"}
_SAME |= {"sha256sum": "md5sum"}
_GIT_PARTS = frozenset(("stash", "worktree", "remote", "reflog"))
# Git lists with an operand only where one of these is among the words.
_LISTING = frozenset(
    ["-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"]
)
_NO_OPERANDS = frozenset(("uniq", "hostname", "ss", "ls-remote", "remote"))
_XARGS = frozenset(("echo", "printf", "wc", "grep", "egrep", "fgrep", "head", "tail"))
_GLOBBERS = frozenset(("grep", "egrep", "fgrep", "md5sum", "sha1sum", "sha256sum"))
_NUMBER = re.compile(r"[0-9]+")
_JOINERS = frozenset(("grep", "egrep", "fgrep", "rg"))
# How a number may stand as an option: not at all, alone (-5), behind a letter (-A5).
_Numbers = Literal["no", "alone", "joined"]
_COUNT = re.compile(r"-[0-9]+")
# In a word of a program whose options are looked at; even in quotes.
_EXPANDS = re.compile(r".*[$`]|.*\{[^}]*(?:,|\.\.)|~[\w+-]", re.DOTALL)
_JQ_NEVER = re.compile(r"\benv\b|\$ENV")
_JQ_OPTION = re.compile(r"-(?:-[a-z]+(?:-[a-z]+)*|[a-zA-Z]+)")
_TEST_OPTION = re.compile(r"-[bcdefghknprsuwxztGLNOS]|!|\(|\)|-[lg][te]|-eq|-ne")
_INTERFACE = re.compile(r"[a-z][a-z0-9]*")
_SOMEBODY = re.compile(r"~[\w+-]")
_PS = re.compile(r"[a-df-z]+|[0-9,]+")


@dataclass(frozen=True, slots=True)
class _Options:
    """The options that may follow a program: names, each with the kind of its value."""

    kinds: dict[str, str]

    @classmethod
    @cache
    def parse(cls, text: str) -> "_Options":
        kinds = {}
        for token in text.split():
            name = token.rstrip("#=%")
            kind = token[len(name) :][-1:]
            names = [f"-{c}" for c in name[1:]] if name.startswith("-") else [f"--{name}"]
            kinds.update(dict.fromkeys(names, kind))
        return cls(kinds)

    def operands(self, words: Sequence[str], *, numbers: _Numbers) -> list[str] | None:
        """Return the words besides known options; None if an option is not known."""
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                return [*operands, *rest]
            if not word.startswith("-") or word == "-":
                operands.append(word)
            elif not self._takes(word, rest, numbers=numbers):
                return None
        return operands

    def _takes(self, word: str, rest: Iterator[str], *, numbers: _Numbers) -> bool:
        if word.startswith("--"):
            name, joined, value = word.partition("=")
        else:
            name, joined, value = word, "", ""
        kind = self.kinds.get(name)
        if kind is None:
            if numbers == "alone" and _COUNT.fullmatch(word):
                return True
            return self._takes_letters(word, numbers=numbers)
        if not kind:
            return not joined
        value = value if joined else next(rest, "-")
        if kind == "%":
            return bool(joined) and "%" in value
        is_number = _NUMBER.fullmatch(value) is not None
        return is_number if kind == "#" else joined != "" or not value.startswith("-")

    def _takes_letters(self, word: str, *, numbers: _Numbers) -> bool:
        first = self.kinds.get(word[:2])
        if numbers == "joined" and first and len(word) > 2:
            return _NUMBER.fullmatch(word[2:]) is not None
        return not word.startswith("--") and all(
            self.kinds.get(f"-{letter}") == "" for letter in word[1:]
        )


def is_free(command: Command) -> bool:
    words, argv = command.words, command.argv
    program = argv[0]
    if command.assignments or any(word.varies for word in words):
        return False
    if program == "jq" and any(word.globs for word in words):
        return False
    if special := _SPECIAL.get(program):
        return special(argv)
    if program == "sed":
        return is_free_sed(words)
    return " ".join(argv) in EXACTLY or program in ANYTHING or _is_listed(words)


def _is_listed(words: Sequence[Word]) -> bool:
    """Return True if all options are known, and no word is more than it seems to be."""
    program, *rest = (word.text for word in words)
    globs = program not in _GLOBBERS and any(word.globs for word in words)
    if globs or any(_EXPANDS.match(word.text) for word in words):
        return False
    if program == "git":
        return _git(tuple(rest))
    options = PROGRAMS.get(_SAME.get(program, program))
    numbers: _Numbers = "joined" if program in _JOINERS else "no"
    return options is not None and _plain(program, options, rest, numbers=numbers)


def _cd(argv: Sequence[str]) -> bool:
    return not any(word.startswith("-") and word != "-" for word in argv[1:])


def _printf(argv: Sequence[str]) -> bool:
    return len(argv) == 1 or argv[1] == "--" or not argv[1].startswith("-")


def _echo(argv: Sequence[str]) -> bool:
    return not any(map(_SOMEBODY.match, argv[1:]))


def _plain(program: str, options: str, argv: Sequence[str], *, numbers: _Numbers = "alone") -> bool:
    operands = _Options.parse(options).operands(argv, numbers=numbers)
    if operands is None or (operands and program in _NO_OPERANDS):
        return False
    if program == "date":
        return all(word.startswith("+") for word in operands)
    if program == "ifconfig":
        return len(operands) <= 1 and all(map(_INTERFACE.fullmatch, operands))
    if program == "ps":
        return all(map(_PS.fullmatch, operands))
    return True


def _git(argv: Sequence[str]) -> bool:
    name, rest = (argv[0] if argv else ""), argv[1:]
    if name in _GIT_PARTS and f"{name} {' '.join(rest[:1])}" in GIT:
        return _plain("", GIT[f"{name} {rest[0]}"], rest[1:])
    if name == "config" and rest[:1] != ("--get",):
        return False
    if name == "reflog" and rest and not rest[0].startswith("-"):
        return rest == ("list",)
    if name in {"branch", "tag"} and not _LISTING.intersection(rest):
        name_only = _Options.parse(GIT[name]).operands(rest, numbers="alone")
        return name_only is not None and not name_only
    return name in GIT and _plain(name, GIT[name], rest)


def _xargs(argv: Sequence[str]) -> bool:
    options = _Options.parse(PROGRAMS["xargs"] + " -I=")
    for end in range(1, len(argv)):
        if argv[end] in _XARGS:
            return options.operands(argv[1:end], numbers="no") == []
    return options.operands(argv[1:], numbers="no") == []


def _jq(argv: Sequence[str]) -> bool:
    options = [word for word in argv[1:] if word.startswith("-")]
    return (
        len(options) < len(argv) - 1
        and not any(map(_JQ_NEVER.search, argv[1:]))
        and all(map(_JQ_OPTION.fullmatch, options))
    )


def _test(argv: Sequence[str]) -> bool:
    return all(_TEST_OPTION.fullmatch(word) for word in argv[1:] if word.startswith("-"))


_SPECIAL = {
    "xargs": _xargs,
    "jq": _jq,
    "test": _test,
    "cd": _cd,
    "printf": _printf,
    "echo": _echo,
}
