"""The options with which Claude Code takes programs for harmless, each a string of them.

`-ab` are letters without a value, `-n#` ones with a number, `-k=` with any value, and so are long
names; `=%` takes a format. Asked of 2.1.330 option by option.
"""

from collections.abc import Mapping

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
