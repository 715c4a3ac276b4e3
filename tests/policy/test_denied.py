"""Rules that deny, rules that leave out options, and rules that reach through a wrapper."""

import json
import os
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_any, load_policy
from agenteval.errors import UsageError
from agenteval.policy.command_lines import CommandPattern
from agenteval.policy.policy import Policy, World, allows, allows_command
from agenteval.policy.rules import BashRules
from agenteval.trial.call import Denied, ToolCall
from agenteval.workflows.reference import _written_for

RULES = """
[bash]
allow = ["git *", "timeout *", "env *", "nice *", "xargs *", "find *", "bash *", "ls *", "echo *",
  "uv run *"]
deny = ["git push *", "git reset --hard", "cat secrets/*", "git * --force"]
constructs = ["pipe", "chain", "subshell", "env-assignment", "background", "command-substitution"]
env = ["A"]
"""
HANDED = """
[bash]
allow = ["bash *", "fish *", "zsh *", "git *"]
deny = ["rm *"]
"""
OPTIONS = """
[bash]
allow = [{ program = "git diff", not = ["--output", "--ext-diff", "-O"] }]
through = ["timeout", "nice"]
"""


def policy(folder: Path, text: str) -> Policy:
    path = folder / "p.toml"
    path.write_text(text)
    return load_policy(str(path), roots=[])


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("git pushx", True),
        ("git 'push x'", True),
        ("git stash push", True),
        ("git --paginate=x stash push", True),
        ("git log --grep push", True),
        ("git --version", True),
        ("git --no-pager push", False),
        ("git --no-pager stash push", False),  # it might take a value
        ("git -C . -c a=b push origin", False),
        ("git --git-dir x push", False),
        ("git commit -m x --force", False),
        ("git -C p*", False),
        ("git reset --hard x", True),
        ("git commit -m 'git push'", True),
        ("timeout 5 git status", True),
        ("find . -exec git status \\; -print", True),
        ("find . -name push", True),
        ("find . -exec ls \\;", True),
        ("find . -exec '' x \\;", True),
        ("find . -exec \\;", True),
        ("bash -c 'git status; ls'", True),
        ("git push", False),
        ("git push --tags", False),
        ("/usr/bin/git push", False),
        ("g\\it 'pu'sh", False),
        ("git p*", False),
        ("git push *", False),
        ("git reset --hard", False),
        ("git reset --har*", False),
        ("git clean --force", False),
        ("timeout 5 git push", False),
        ("timeout 5 git p*", False),
        ("nice g* push", False),
        ("nice -n 5 git p*", False),
        ("nice '' git push", False),
        ("timeout -s KILL 5 git push", False),
        ("nice -n 5 env A=1 git push", False),
        ("env -S 'git push'", False),
        ("bash -c 'ls; git push'", False),
        ("bash -c 'ls `'", False),
        ("find . -exec git push \\;", False),
        ("find . -exec git push '{}' +", False),
        ("find . -exec git '{}' +", False),
        ("xargs git", False),
        ("xargs git status", False),  # of whatever is read
        ("xargs ls", True),
        ("xargs -n 1 ls", True),
        ("nice ls -l", True),
        ("xargs -n 1 git push", False),
        ("xargs cat secrets/x", False),
        ("nice zip git", True),
        ("nice xargs git", False),
        ("xargs nice ls", False),  # nice may run what is read
        ("nice xargs ls", True),
        ("xargs uv run git", False),
        ("uv run git p*", False),
        ("uv run ls p*", True),
        ("find . -exec git stash \\; p*", True),
        ("ls && git push", False),
        ("ls | xargs git push", False),
        ("(git push)", False),
        ("A=1 git push", False),
        ("echo $(git push)", False),
        ("git push &", False),
    ],
)
def test_what_is_denied_never_runs(tmp_path: Path, command: str, *, allowed: bool) -> None:
    assert allows_command(command, policy(tmp_path, RULES)) is allowed


HANDS_ON = """
[bash]
allow = ["* *"]
deny = ["git push *", "rm *"]
constructs = ["pipe", "heredoc", "here-string", "input-redirect"]
[read]
allow = ["**"]
"""


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("bash <<'X'\nrm a\nX", False),
        ("bash -s a <<'X'\nrm a\nX", False),
        ("bash --norc -es < a", False),
        ("sh <<< 'rm a'", False),
        ("echo 'rm a' | bash", False),
        ("echo 'rm a' | env bash", False),
        ("echo 'rm a' | sh -", False),
        ("bash /dev/stdin < a", False),
        ("bash -c '. /dev/fd/0' < a", False),
        ("bash -c 'bash < a'", False),
        ("bash --version | head", True),
        ("bash a.sh", True),
        ("bash -o posix a.sh", True),
        ("bash -c '. a.sh'", True),
        ("cat < a | grep rm", True),
        ("rbash -c 'rm a'", False),
        ("git submodule foreach 'git push'", False),
        ("git submodule foreach 'git pull'", True),
        ("git rebase --exec 'git push' HEAD~1", False),
        ("git rebase --exec='git push' HEAD~1", False),
        ("git bisect run git push", False),
        ("git -c alias.p=push p", False),
        ("git -c alias.p='!git push' p", False),
        ("git -c core.pager='rm a' log", False),
        ("git -c core.pager=cat log", True),
        ('git -c user.name="O\'Neil" log', True),
        ("git commit -m 'rm what git push left'", True),
        ("su -c 'rm a'", False),
        ("script -c 'rm a' /dev/null", False),
        ("busybox rm a", False),
        ("parallel rm ::: a", False),
        ("parallel git ::: push", False),
        ("parallel git {} ::: push", False),
        ("parallel 'git {}' ::: push", False),
        ("echo push | parallel -j 2 git", False),
        ("echo 'rm a' | parallel -j 2", False),
        ("parallel echo {} ::: a b", True),
        ("echo push | xargs -I{} git {}", False),
        ("echo push | xargs -rI % git -C . %", False),
        ("echo push | xargs --replace=X git X", False),
        ("echo ush | xargs -i git p{}", False),
        ("echo rm | xargs -I{} {} a", False),
        ("echo 'a; rm b' | xargs -I{} sh -c 'ls {}'", False),
        ("ls | xargs -n 1 -I{} git log -- {}", True),
        ("ls | xargs -I % cat %", True),
        ("git rebase -x'git push' HEAD~1", False),
        ("git rebase -ix 'git push' HEAD~1", False),
        ("git rebase --exe='git push' HEAD~1", False),
        ("git difftool -yx'rm a'", False),
        ("git clean -fdx", True),
        ("timeout 60 pytest -k 'a and (b or c)'", True),
        ("ls | xargs grep -n 'def f('", True),
        ("nice nohup git log --format='%h (%an)'", True),
        ("docker exec -it a psql -c 'select 1'", True),
        ("timeout 60 watch 'rm a'", False),
        ("timeout 60 ssh a 'select 1'", False),
        ("docker exec a sh -c 'ls; rm a'", False),
        ("nice sudo -s 'rm a'", False),
        ("git ls-files --exclude=rm", True),
        ("unshare -r rm a", False),
        ("npm exec -- rm a", False),
        ("npm test", True),
        ("fd -x rm", False),
        ("fd rm", True),
        ("docker exec a rm a", False),
        ("docker rm a", True),
        ("docker run --name=a b ls", True),
    ],
)
def test_a_program_that_is_told_to_run_what_is_denied_does_not(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    assert allows_command(command, policy(tmp_path, HANDS_ON)) is allowed


def test_a_denial_names_its_rule(tmp_path: Path) -> None:
    call = ToolCall("", "bash", "", {"command": "timeout 5 git push x"})
    verdict = judge(call, policy(tmp_path, RULES))
    assert isinstance(verdict, Denied)
    assert [each.hint for each in verdict.findings if each.failure_class == "bad-arguments"] == [
        "git push * is denied, whatever else is allowed. Allowed is `git`."
    ]


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (("nice", "cat", "secrets/x"), "cat secrets/*"),
        (("env", "-S", "git reset --hard"), "git reset --hard"),
        (("bash", "-c", "ls `"), "git push *"),
        (("nice", "ls"), None),
        (("/usr/bin/xargs", "git"), "git push *"),
        (("nice", "", "cat", "secrets/x"), "cat secrets/*"),
        (("env", "-S", "ls x", "y"), None),
        (("xargs", "eval", "git -C"), "git push *"),
        (("xargs", "eval", "ls x\\"), "git push *"),
        (("nice", "foo", "env", "cat", "secrets/x"), "cat secrets/*"),
        (("bash", "-c", ""), "git push *"),
        (("find", ".", "-exec", "cat", "{}", ";"), "cat secrets/*"),
        (("find", ".", "-exec", "ls", "{}", ";"), None),
    ],
)
def test_a_wrapper_is_denied_by_the_rule_for_what_it_runs_or_the_first_if_that_cannot_be_read(
    tmp_path: Path, argv: tuple[str, ...], rule: str | None
) -> None:
    denial = policy(tmp_path, RULES).bash.denial(argv)
    assert (denial and denial.text) == rule


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        *((f"{each} " * 40 + "ls", True) for each in ("sudo", "env", "nice")),
        *((f"{each} " * 400 + "git push", False) for each in ("sudo", "coproc", "nice -n 5")),
        *((each * 100 + "ls", True) for each in ("uv run ", "python -m ")),
        *((each * 100 + "git push", False) for each in ("uv run ", "python -m ")),
        *((each * 5000 + "ls", False) for each in ("uv run ", "python -m ", "coproc ", "sudo ")),
        ("env" + " a" * 700, True),
        ("env" + " a" * 20_000, False),
        ("env " + "a_b " * 40, True),
        ("env " + "a_b " * 10_000, False),
        ("xargs eval " + "a_b " * 10_000, False),
    ],
)
@pytest.mark.timeout(60)
def test_what_is_wrapped_again_and_again_is_looked_at_once_or_denied(
    command: str, *, allowed: bool
) -> None:
    """It took twice the time for each wrapper more, and a level of the stack."""
    allow, deny = map(CommandPattern.parse, ("* *", "git push"))
    words = [word.replace("_", " ") for word in command.split()]
    assert BashRules([allow], denied=[deny]).admits(words) is allowed


@pytest.mark.parametrize(("wrappers", "allowed"), [(1, True), (8, True), (9, False), (5000, False)])
def test_a_rule_reaches_through_as_many_wrappers_as_are_seen_through(
    wrappers: int, *, allowed: bool
) -> None:
    rules = BashRules([CommandPattern.parse("git status")], through=["nohup", "nice"])
    assert rules.admits((*["nohup"] * (wrappers - 1), "nice", "git", "status")) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git diff", True),
        ("git diff --stat -- a", True),
        ("git diff -w -", True),
        ("timeout 5 git diff", True),
        ("timeout 1.5m nice git diff --stat", True),
        ("git diff --output=x", False),
        ("git diff --outp x", False),
        ("git diff a --ext-diff", False),
        ("git diff -wO x", False),
        ("git diff *", False),
        ("git log", False),
        ("timeout 5 git diff --output=x", False),
        ("timeout x git diff", False),
        ("timeout -k 5 git diff", False),
        ("timeout 5 A=1 git diff", False),
        ("timeout 5", False),
        ("timeout 5 -v", False),
        ("timeout 5 echo", False),
        ("timeout 5 *", False),
        ("nice -n 5 git diff", False),
        ("env git diff", False),
    ],
)
def test_a_program_may_have_any_options_but_some(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    assert allows_command(command, policy(tmp_path, OPTIONS)) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("timeout 5 git --version", True),
        ("nice ls", True),
        ("timeout 5 nice ls", True),
        ("timeout 5 -k --version", False),
        ("timeout 5 A=1 --version", False),
        ("timeout 5 '' --version", False),
        ("timeout 5 grep a x", True),
        ("timeout 5 grep * x", False),
        ("nice grep a x", True),
        ("nice grep * x", False),
        ("nice test x", False),
        ("nice echo ls", False),
        ("timeout", False),
        ("timeout ls", False),
        ("timeout x ls", False),
        ("timeout wc -l x", False),
        ("timeout 5 l* ls", False),
        ("timeout 5 l* --version", False),
        ("nice wc -l *", True),
        ("timeout 5 wc -l *", True),
        ("nice cat data/a", True),
        ("nice cat data/*", False),
    ],
)
def test_what_stands_behind_a_wrapper_is_a_program_that_a_rule_allows_by_itself(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    rules = policy(
        tmp_path,
        """
        [bash]
        allow = ["* --version", "ls", "test x", "grep * x", "wc -l *", "cat data/*"]
        through = ["timeout", "nice"]
        """,
    )
    assert allows_command(command, rules) is allowed


@pytest.mark.parametrize("command", ["timeout 5 ls", "nice ls", "nohup ls", "setsid ls", "env ls"])
def test_a_rule_reaches_through_each_wrapper_that_is_named(tmp_path: Path, command: str) -> None:
    through = 'through = ["timeout", "nice", "nohup", "setsid", "env"]'
    rules = policy(tmp_path, f'[bash]\nallow = ["ls"]\n{through}')
    assert allows_command(command, rules)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('deny = [""]', "bash.deny: a rule needs at least one word"),
        ('through = ["sudo"]', "bash.through: sudo: expected one of timeout, nice"),
        ('allow = [{ program = "x", not = ["y"] }]', "x: not: an option begins with -, unlike 'y'"),
        ('allow = [{ program = "x" }]', "key not is missing"),
    ],
)
def test_a_rule_that_can_mean_nothing_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        policy(tmp_path, f"[bash]\n{text}\n")


@pytest.mark.parametrize("text", [RULES, OPTIONS])
def test_the_rules_are_part_of_the_digest_and_are_written_again(tmp_path: Path, text: str) -> None:
    one = policy(tmp_path, text)
    path = tmp_path / "again.toml"
    path.write_text(_written_for(one, "toml").text)
    assert load_policy(str(path), roots=[]).digest == one.digest
    assert (
        policy(tmp_path, f"{text}deny = ['x']" if text is OPTIONS else "[bash]").digest
        != one.digest
    )


def test_an_extending_list_adds_to_what_is_denied(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(OPTIONS)
    more = policy(tmp_path, 'extends = "./base.toml"\n[bash]\ndeny = ["git diff --stat *"]\n')
    assert allows_command("timeout 5 git diff -w", more)
    assert not allows_command("timeout 5 git diff --stat", more)


@pytest.mark.parametrize(
    ("to", "suffix"), [("opencode", ".json"), ("claude-code", ".json"), ("codex", ".rules")]
)
def test_what_is_denied_is_denied_by_another_harness_too(
    tmp_path: Path, to: str, suffix: str
) -> None:
    ours = policy(tmp_path, '[bash]\nallow = ["git *"]\ndeny = ["git push *", "git tag"]\n')
    written = _written_for(ours, to)
    path = tmp_path / f"written{suffix}"
    path.write_text(written.text)
    theirs = load_any(f"{to}:{path}", roots=[])
    calls = [ToolCall("", "bash", "", {"command": f"git {each}"}) for each in ("add x", "push x")]
    assert [allows(call, theirs, World(root="/w")) for call in calls] == [True, False]
    assert any(line.startswith("git push *: that it is denied behind") for line in written.lost)
    assert any("git tag: its denial" in line for line in written.lost) is (to == "codex")


def test_what_another_harness_cannot_say_of_options_is_told(tmp_path: Path) -> None:
    written = _written_for(policy(tmp_path, OPTIONS), "claude-code")
    assert json.loads(written.text)["permissions"]["allow"] == ["Bash(git diff:*)"]
    assert "through: nice, timeout: a rule there is for one program" in written.lost
    assert any("that these options are denied" in line for line in written.lost)


IN_BASH = r"""
bash -oc pipefail 'rm x'
bash -oce pipefail 'rm x'
bash -ooc pipefail errexit 'rm x'
bash -c -Oe extglob 'rm x'
bash -c -- '-x; rm x'
bash -rcfile f -c 'rm x' y
bash -noprofile -c 'rm x' y z
bash -c 'trap "rm x" EXIT'
bash -c 'trap -- "rm x" EXIT'
bash -c 'trap "rm x" DEBUG; echo hi'
bash -c 'mapfile -C "rm x" -c 1 a < f'
bash -c 'mapfile -tC"rm x" -c1 a < f'
bash -c 'readarray -C "rm x" -c 1 a < f'
bash -c 'compgen -C "rm x"'
bash -c 'printf -v "a[\$(rm x)]" y'
bash -c 'printf "-va[\$(rm x)]" y'
bash -c 'test -v "a[\$(rm x)]"'
bash -c "test -v 'a[\"\$(rm x)\"]'"
bash -c 'test -v "a[\`rm x\`]"'
bash -c '[ -v "a[\$(rm x)]" ]'
bash -c 'read "a[\$(rm x)]" < f'
bash -c 'printf -v a y; unset "a[\$(rm x)]"; declare -a a; unset "a[\$(rm x)]"'
bash -c 'declare "a[\$(rm x)]=1"'
bash -c 'declare -a "a=(\$(rm x))"'
bash -c 'declare -i "a=b[\$(rm x)]"'
bash -c 'let "a[\$(rm x)]"'
git grep -O'rm x' foo
git grep -nO'rm x' foo
git grep --open='rm x' foo
"""


def test_a_text_that_bash_or_git_runs_is_denied_however_it_is_handed_over(tmp_path: Path) -> None:
    """Real bash and git; rm only says that it was called."""
    rules, run = policy(tmp_path, HANDED), tmp_path / "run"
    (run / "bin").mkdir(parents=True)
    (run / "bin/rm").write_text("#!/bin/sh\ntouch called\n")
    (run / "bin/rm").chmod(0o755)
    (run / "f").write_text("foo\n")
    env = {"PATH": f"{run}/bin:{os.environ['PATH']}"}
    for command in ("git init -q .", "git add f"):
        subprocess.run(command.split(), cwd=run, env=env, check=True)
    for text in IN_BASH.strip().splitlines():
        (run / "called").unlink(missing_ok=True)
        subprocess.run(["bash", "-c", text], cwd=run, env=env, capture_output=True, check=False)
        assert (run / "called").exists(), text
        assert not allows_command(text, rules), text


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git grep --open-files-in-pager=rm foo", False),
        ("bash -oe pipefail", False),  # what is piped into it
        ("zsh -oc -co 'ls a'", False),  # in the reading that finds no text
        ("zsh -oglobdots -c 'rm x' y", False),
        ("bash -c '[[ -v \"a[\\$(rm x)]\" ]]'", False),
        ("fish --command 'rm x'", False),
        ("fish --command='rm x'", False),
        ("fish --comm='rm x'", False),
        ("fish -C 'rm x'", False),
        ("fish -c'rm x'", False),
        ("fish -nC'rm x' a.fish", False),
        ("fish --init-command 'rm x'", False),
        ("fish --init-command='rm x' a.fish", False),
        ("fish -C ls", False),  # it goes on with what is piped into it
        ("fish -C ls -- /dev/stdin", False),
        ("fish -c ls", True),
        ("fish --command ls", True),
        ("fish -C ls a.fish", True),
        ("fish --profile p a.fish", True),
        ("fish -C ls --version", True),
        ("bash -o pipefail -c ls", True),
        ("bash -oc pipefail ls", True),
        ("bash -x a.sh", True),
        ("bash -c 'trap - EXIT'", True),
        ("bash -c 'trap -- - EXIT'", True),
        ("bash -c \"trap '' INT\"", True),
        ("bash -c 'trap -p INT'", True),
        ("bash -c 'trap INT'", True),
        ("bash -c 'trap \"ls a\" EXIT'", True),
        ("bash -c 'printf -v a y'", True),
        ("bash -c 'printf %s \"a[\\$(rm x)]\"'", True),
        ("bash -c 'test -v a'", True),
        ("bash -c 'test -v \"a[1]\"'", True),
        ("bash -c 'test -v \"a[\\$(ls)]\"'", True),
        ("bash -c 'mapfile -t a < f'", True),
        ("bash -c 'mapfile -n 2 -t a < f'", True),
        ("bash -c 'declare -x a=1'", True),
        ("git grep -O foo", True),
        ("git grep -Oless foo", True),
        ("git grep -e'FO(O' a", True),
        ("git log -Orm", True),
    ],
)
def test_what_a_shell_or_git_is_handed_counts_and_nothing_else(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    assert allows_command(command, policy(tmp_path, HANDED)) is allowed


PIECES = r"""
git push pu* 'push' p\ush --force reset --hard timeout 5 env A=1 nice -n 1 xargs find . -exec {} \;
+ bash -c 'git push' "git push" ( ) && | ; & $( ) ` status -C x echo command /usr/bin/env
"""


def test_nothing_that_is_denied_runs_in_bash(tmp_path: Path) -> None:
    """Real bash, env, timeout, nice, xargs and find; git only writes down how it was called."""
    rules, rng = policy(tmp_path, RULES), random.Random(16)
    pieces = PIECES.split()
    texts = [" ".join(rng.choices(pieces, k=rng.randrange(1, 8))) for _ in range(8_000)]
    texts += [f"{' '.join(rng.choices(pieces, k=3))} git push" for _ in range(1_000)]
    passed = [text for text in dict.fromkeys(texts) if allows_command(text, rules)][:150]
    called = tmp_path / "called"
    ran = calls_of_git(tmp_path, passed, called)
    assert len(passed) > 20
    assert ran
    assert [words for words in ran if words[:1] == ["push"] or words == ["reset", "--hard"]] == []


def calls_of_git(folder: Path, texts: list[str], called: Path) -> list[list[str]]:
    programs = folder / "programs"
    programs.mkdir()
    for name in ("bash", "env", "timeout", "nice", "xargs", "find"):
        (programs / name).symlink_to(shutil.which(name) or name)
    git = programs / "git"
    git.write_text(f"#!/bin/sh\nprintf '%s\\037' \"$@\" >> {called}\necho >> {called}\n")
    git.chmod(git.stat().st_mode | stat.S_IXUSR)
    (folder / "empty").mkdir()
    for text in texts:
        subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text],
            cwd=folder / "empty",
            env={"PATH": str(programs)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    return [line.split("\037")[:-1] for line in called.read_text().splitlines()]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("cat secrets/x", True),
        ("cat -n secrets/x", True),
        ("cat other secrets/x", True),
        ("cat -n 5 other", False),
        ("cat", False),
        ("tac secrets/x", False),
    ],
)
def test_a_path_that_is_denied_may_stand_anywhere_behind(words: str, *, named: bool) -> None:
    assert CommandPattern.parse("cat secrets/*").names(words.split()) is named


def test_options_before_a_word_are_looked_past_once_each() -> None:
    """By the square of their number it would take minutes."""
    rule = CommandPattern.parse("git push data/*")
    options = ["git", *["-x", "push"] * 100_000]
    assert (rule.names(options), rule.names([*options, "data/x"])) == (False, True)
