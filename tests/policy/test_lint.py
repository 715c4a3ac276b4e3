from pathlib import Path

import pytest

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.dialects.opencode.engine import OpenCode, OpenCode10, PermissionRule
from agenteval.dialects.registry import lint
from agenteval.policy.lint import Trouble
from agenteval.policy.policy import Policy, allows_command


def policy(folder: Path, text: str) -> Policy:
    path = folder / "p.toml"
    path.write_text(text)
    return load_policy(str(path), roots=[])


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("eval *", "runs its arguments"),
        ("printf *", "write its words out"),
        ("if *", "no command begins so: reserved word"),
        ("-x", "no command begins so: program name"),
        ("A=1 ls", "no command begins so: assignment"),
        ("cat data/../*", "no word with .. matches data/../*"),
        ("ls x/../* y", "no word with .. matches x/../*"),
        ("echo 'a b'", "so none begins with '"),
    ],
)
def test_a_rule_that_can_never_match_is_found(tmp_path: Path, rule: str, reason: str) -> None:
    (remark, *_) = lint(policy(tmp_path, f'bash.allow = ["""{rule}"""]'))
    assert (remark.rule, remark.trouble) == (rule, Trouble.NEVER)
    assert reason in remark.reason


@pytest.mark.parametrize(
    ("rule", "quoted", "reason"),
    [
        ("ls ~x", "ls '~x'", "bash makes another word of ~x"),
        ("ls | head", "ls '|' head", "| is a word here"),
        ("ls 2>&1", "ls '2>&1'", "2>&1 is a word here"),
    ],
)
def test_a_rule_that_matches_only_where_a_word_is_quoted_is_found(
    tmp_path: Path, rule: str, quoted: str, reason: str
) -> None:
    rules = policy(tmp_path, f"bash.allow = ['{rule}']")
    (remark,) = lint(rules)
    assert (remark.rule, remark.trouble) == (rule, Trouble.QUOTED)
    assert reason in remark.reason
    assert allows_command(quoted, rules)
    assert not allows_command(rule, rules)


@pytest.mark.parametrize(
    ("rules", "shadowed"),
    [
        (["ls *", "ls -la"], {"ls -la": "`ls *` allows"}),
        (["ls -la", "ls *"], {"ls -la": "`ls *` allows"}),
        (["ls *", "ls -l *"], {"ls -l *": "`ls *` allows"}),
        (["ls", "ls"], {"ls": "it stands there twice"}),
        (["ls a*", "ls ab"], {"ls ab": "`ls a*` allows"}),
        (["ls", "ls *"], {"ls": "`ls *` allows"}),
        (["ls -l *", "ls -a *"], {}),
        (["ls x", "ls *x"], {"ls x": "`ls *x` allows"}),
    ],
)
def test_a_rule_that_says_nothing_new_is_found(
    tmp_path: Path, rules: list[str], shadowed: dict[str, str]
) -> None:
    remarks = lint(policy(tmp_path, f"bash.allow = {rules}"))
    found = {each.rule: each for each in remarks if each.trouble is not Trouble.WIDE}
    assert set(found) == set(shadowed)
    for rule, reason in shadowed.items():
        assert found[rule].trouble is Trouble.SHADOWED
        assert found[rule].reason.startswith(reason)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("git diff *", "--ext-diff"),
        ("git log *", "--output"),
        ("git *", "-c and an alias"),
        ("find *", "-exec"),
        ("uv run *", "any script"),
        ("python3 *", "any code"),
        ("/usr/bin/python3.11 *", "any code"),
        ("bash *", "any code"),
        ("xargs *", "whatever its arguments say"),
        ("sort *", "-o writes"),
        ("cat *", "outside the workspace"),
        ("uv run python *", "any code"),
        ("uv run pytest *", "runs code from the files"),
        ("poetry run sed *", "-i and the command w"),
        ("sed -n *", "e runs programs"),
        ("rg *", "--pre runs a program"),
        ("rg --json *", "--pre runs a program"),
        ("git -c *", "-c and an alias"),
        ("git -C sub log *", "--ext-diff"),
        ("busybox *", "whatever its arguments say"),
        ("flock *", "whatever its arguments say"),
        ("timeout 5 *", "whatever its arguments say"),
        ("timeout 5 sed *", "e runs programs"),
        ("nice python3 *", "any code"),
        ("find . *", "-exec"),
        ("find . -name *", "-exec"),
        ("grep -n *", "outside the workspace"),
        ("docker run *", "whatever its arguments say"),
        ("npm --silent *", "whatever its arguments say"),
        ("* --help", "its program is a pattern"),
        ("g* x", "its program is a pattern"),
        ("uv run *.py", "*.py fits such a path anywhere"),
        ("foo *.txt", "begin it with a folder"),
        ("foo --out=*.txt x", "begin it with a folder"),
        ("cat */x.md", "begin it with a folder"),
    ],
)
def test_a_rule_that_lets_more_through_is_found(tmp_path: Path, rule: str, reason: str) -> None:
    (remark,) = lint(policy(tmp_path, f'bash.allow = ["{rule}"]'))
    assert (remark.rule, remark.trouble) == (rule, Trouble.WIDE)
    assert reason in remark.reason


@pytest.mark.parametrize(
    "rule",
    [
        "git status",
        "git status *",
        "ls *",
        "x --n=*",
        "x * y",
        "cat a/*.md",
        "python3 scripts/x.py *",
        "uv run x.py *",
        "cat data/*",
        "docker ps *",
        "npm ls *",
        "timeout 5 git status *",
        "echo *",
    ],
)
def test_a_tight_rule_is_left_in_peace(tmp_path: Path, rule: str) -> None:
    assert lint(policy(tmp_path, f'bash.allow = ["{rule}"]')) == []


@pytest.mark.parametrize(
    ("rule", "is_open"),
    [
        ('{ program = "git diff", not = ["--output", "--ext-diff"] }', False),
        ('{ program = "git diff", not = ["--output"] }', True),
        ('{ program = "sort", not = ["-o", "--compress-program"] }', True),
        ('{ program = "git grep", not = ["--open-files-in-pager"] }', True),
        ('{ program = "find", not = ["-exec", "-delete", "-fprint"] }', True),
    ],
)
def test_what_a_rule_leaves_out_is_not_warned_of(
    tmp_path: Path, rule: str, *, is_open: bool
) -> None:
    assert bool(lint(policy(tmp_path, f"bash.allow = [{rule}]"))) is is_open


OPEN = """
ack ag ant apt apt-get ar aria2c awk b2sum base32 base64 bash bat bazel brew bsdtar bun bundle
bunx busybox bzcat bzip2 cargo cat chmod chown chroot cksum cmake cmp column comm composer conda
cp cpio csplit curl cut dash dd deno diff dnf doas docker dotnet ed egrep emacs env ex exec expand
fd fgrep file find flock fmt fold ftp gawk gdb gem git gmake go gpg gradle grep gzip hatch head
hexdump iconv install ionice java jest join jq julia just kubectl less ln lua make man md5sum more
mv mvn mysql nano nc ncat netcat nice ninja nl node nohup nox npm npx nsenter od openssl parallel
paste patch pdm perl php pip pip3 pipx pnpm podman poetry pr psql pytest python python3 rclone rg
rm rsync ruby scp screen script sed setsid sftp sh sha256sum shuf socat sort split sqlite3 ssh
stdbuf strace strings su sudo tac tail tar task taskset tee telnet time timeout tmux tox truncate
uniq unshare uvx vi vim watch wc wget xargs xxd xz yarn yq zcat zip zsh
"""


def test_every_program_that_runs_writes_deletes_or_reads_anything_is_warned_of(tmp_path) -> None:
    rules = [f"{program} *" for program in OPEN.split()]
    remarks = lint(policy(tmp_path, f"bash.allow = {rules}"))
    spoken = {each.rule for each in remarks if each.trouble in {Trouble.WIDE, Trouble.NEVER}}
    assert [rule for rule in rules if rule not in spoken] == []
    assert len(rules) > 132


def test_a_script_whose_options_are_never_checked_is_found(tmp_path: Path) -> None:
    text = '[bash]\nallow = ["uv run x.py *"]\n[[bash.script]]\npath = "x.py"\n'
    text += '[[bash.script]]\npath = "../y.py"\n[[bash.script]]\npath = "/z.py"\n'
    found = [(remark.rule, remark.trouble) for remark in lint(policy(tmp_path, text))]
    assert found == [
        ("uv run x.py", Trouble.SHADOWED),
        ("uv run ../y.py", Trouble.NEVER),
        ("uv run /z.py", Trouble.NEVER),
    ]


@pytest.mark.parametrize(
    ("text", "rule", "trouble"),
    [
        ('allow = ["cd *"]\nconstructs = ["chain"]', "cd *", Trouble.NEVER),
        ('allow = ["ls *"]\ndeny = ["ls *"]', "ls *", Trouble.NEVER),
        ('allow = ["cat ~/x"]', "cat ~/x", Trouble.QUOTED),
        ("[read]\nallow = ['~/x']", "read ~/x", Trouble.NEVER),
        ("[read]\nallow = ['/etc/**', 'notes/**']", "read /etc/**", Trouble.NEVER),
        ('constructs = ["env-assignment"]', "env-assignment", Trouble.NEVER),
        ('env = ["LIMIT", "LD_PRELOAD"]', "env LD_PRELOAD", Trouble.WIDE),
        ('env = ["PATH"]', "env PATH", Trouble.WIDE),
        ('script = [{ path = "tool" }]', "uv run tool", Trouble.WIDE),
    ],
)
def test_a_rule_that_other_rules_make_void_or_wide_is_found(
    tmp_path: Path, text: str, rule: str, trouble: Trouble
) -> None:
    found = [(each.rule, each.trouble) for each in lint(policy(tmp_path, f"[bash]\n{text}"))]
    assert found == [(rule, trouble)]


@pytest.mark.parametrize(
    "text", ['allow = ["cd *"]', 'script = [{ path = "tool", runner = "" }]', 'env = ["LIMIT"]']
)
def test_the_same_rule_alone_is_left_in_peace(tmp_path: Path, text: str) -> None:
    assert lint(policy(tmp_path, f"[bash]\n{text}")) == []


def test_a_rule_of_opencode_that_a_later_one_overrules_is_found() -> None:
    rules = (
        PermissionRule("bash", "git status", "allow"),
        PermissionRule("bash", "*", "deny"),
        PermissionRule("bash", "ls *", "allow"),
        PermissionRule("read", "x", "allow"),
        PermissionRule("read", "*", "deny"),
    )
    (remark,) = lint(Policy("p", engine=OpenCode(rules)))
    assert remark.rule == "bash: git status: allow"
    assert remark.reason == "the later `*: deny` always counts instead"


def test_in_opencode_1_0_it_does_not_matter_which_rule_comes_later() -> None:
    engine = OpenCode10({"git status": "allow", "*": "deny"}, {})
    assert lint(Policy("p", engine=engine)) == []


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (shipped() / "allowlists").glob("*.toml"))
)
def test_the_shipped_lists_that_are_meant_to_be_tight_have_nothing_wrong(name: str) -> None:
    never = [
        each for each in lint(load_policy(name, roots=[shipped()])) if each.trouble is Trouble.NEVER
    ]
    assert never == []


def test_without_any_rule_opencode_asks_and_offers_every_tool() -> None:
    assert OpenCode(()).action("bash", "ls") == "ask"
    assert OpenCode(()).offers("bash")


def test_of_two_denied_commands_the_one_that_covers_a_rule_is_named(tmp_path: Path) -> None:
    remarks = lint(policy(tmp_path, 'bash.allow = ["ls -l"]\nbash.deny = ["cat *", "ls *"]'))
    (remark,) = [one for one in remarks if one.trouble is Trouble.NEVER]
    assert (remark.rule, remark.reason) == ("ls -l", "deny has `ls *`, which goes before it")
