"""What runs in a command for Claude Code is told apart as bash does, or the command is denied."""

import json
from pathlib import Path

import pytest
from clocks import processor_seconds

from agenteval.dialects.claude_code import read, rules
from agenteval.dialects.claude_code.rules import ToolSpecifier
from agenteval.dialects.claude_code.verdict import ClaudeCode
from agenteval.errors import UsageError


def claude(*allow: str, deny: tuple[str, ...] = (), mode: str = "default") -> ClaudeCode:
    specifiers = (tuple(map(ToolSpecifier.parse, texts)) for texts in (allow, deny))
    allowed, denied = specifiers
    return ClaudeCode(allowed, deny=denied, mode=mode)


def allows(engine: ClaudeCode, command: str) -> bool:
    return engine.allows("bash", {"command": command}, "/w")


@pytest.mark.parametrize(
    "command",
    [
        "echo \"'$(rm x)'\"",
        "echo \"'`rm x`'\"",
        "echo # '\nrm -rf x # '",
        "echo $'\\''; rm x #'",
        "cat <(rm x)",
        "echo >(rm x)",
        "echo $$'\\'; rm x #'",
        'echo "${x:-"\'"}"; rm x #\'',
        "echo ${ rm x; }",
        "echo $[ $(rm x) ]",
        "echo () (rm x); echo",
        "cat <<EOF\necho '\nEOF\nrm x #'",
        "echo a\\\n# ; rm x",
        "echo \\ # ; rm x",
        "echo a\r# ; rm x",
        "echo $\\\n'\\'' ; rm x #'",
        "echo <\\\n<A\necho '\nA\nrm x #'",
        'echo "$\\\n(rm x)"',
        "\u00a0echo",
        "echo 'open; rm x",
        'echo "open',
        'cat a"open',
        "echo x\\",
        "echo a & rm x",
        'echo "cost: ${HOME} ${x:-a b}"',
        "echo ${x:-a;b}",
        "echo $'it\\'s; fine'",
        'echo $"fine"',
        "echo a & echo b",
        "echo 3>&-",
        "echo foo$",
    ],
)
def test_no_quote_comment_or_bracket_hides_what_runs(command: str) -> None:
    assert not allows(claude("Bash(echo:*)", "Bash(cat:*)"), command)


@pytest.mark.parametrize(
    "command",
    [
        'echo "it\'s" && echo \'say "x"; y\'',
        'echo "cost: \\$(x) $? $HOME"',
        "echo \\(a\\) \\; a#b",
        "echo x # it's a comment; rm x",
        "# first\necho x",
        "# echo",
        "echo x \\\n  y",
        "cat <&3 >&2 2>&1 2> /dev/null &>/dev/null",
        "cat <<< x",
        "echo a | cat |& cat || echo c;\n",
        "echo \"$(cat <<'EOF'\nit's $(fine)\nEOF\n)\"",
    ],
)
def test_what_is_only_text_to_bash_needs_no_rule(command: str) -> None:
    assert allows(claude("Bash(echo:*)", "Bash(cat:*)"), command)


WRITES = claude(
    "Bash(echo:*)", "Bash(cat:*)", "Edit(out/**)", "Read(//srv/**)", deny=("Read(.key)",)
)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("echo x > out/f", True),
        ("echo x 2>>'out/a b' >\"out/c\"", True),
        ("echo x >| out/f; echo y &> ./out/g | cat >& /w/out/h", True),
        ("echo x > f", False),
        ("echo x > out/../f", False),
        ("echo x >& f", False),
        ("echo x &>> f", False),
        ("echo x 2> f", False),
        ("echo 2>2", False),
        ("echo x 12>f", False),
        ("echo x <> f", False),
        ("> f echo x", False),
        ("> out/f echo x", True),
        ("echo x > ~/f", False),
        ("echo x > $F", False),
        ("echo x > out/*", False),
        ("echo x >out/a>f", False),
        ("echo '> f' \\> \"2>f\"", True),
        ("echo x > out/f # > g", True),
        ("echo x > 'out\"/f'", False),
        ("cd out && echo x > f", False),
        ("cat < f", True),
        ("cat < .key", False),
        ("cat a/.key", False),
        ("cat -n a f -- '.key'", False),
        ("cat /etc/passwd", False),
        ("cat /srv/f < /srv/g", True),
        ("cat < /etc/passwd", False),
        ("echo /etc/passwd .key", True),
    ],
)
def test_the_files_of_an_allowed_command_need_rules_of_their_own(
    command: str, *, allowed: bool
) -> None:
    assert allows(WRITES, command) is allowed


def test_a_move_to_another_folder_and_a_relative_redirect_do_not_go_together() -> None:
    engine = claude("Bash(echo:*)", "Edit(**)")
    commands = ("cd a && echo x", "cd /w && echo x > f", "cd a && echo x > f", "cd; echo x > f")
    assert [allows(engine, command) for command in commands] == [True, True, False, False]


def test_no_pattern_for_files_stands_where_options_are_looked_at() -> None:
    commands = ("jq . *", "jq . '*'", "sort *", "cat *", "grep x *")
    assert [allows(claude(), command) for command in commands] == [False, True, False, True, True]


def test_words_behind_two_dashes_are_no_options() -> None:
    commands = ("grep -- -x f", "grep -- -x /f", "cat -- -x", "rm -- -x /f")
    engine = claude("Bash(rm:*)")
    assert [allows(engine, command) for command in commands] == [True, False, True, False]


def test_without_asking_any_file_is_opened_that_no_rule_denies() -> None:
    engine = claude(mode="bypassPermissions", deny=("Read(.key)",))
    paths = ("/etc/passwd", ".key", ".git/config")
    assert [engine.allows("write", {"path": path}, "/w") for path in paths] == [True, False, True]


def test_a_rule_for_a_command_does_not_open_the_file_it_is_redirected_to() -> None:
    engine = claude("Bash(ls > f)", "Bash(ls > out/*)", "Edit(out/**)")
    commands = ("ls > f", "ls > out/f", "npm > out/f")
    assert [allows(engine, command) for command in commands] == [False, True, False]


@pytest.mark.parametrize(
    ("workdir", "allowed"), [("", True), ("/w", True), (".", True), ("/w/a", False), ("/", False)]
)
def test_a_command_that_starts_elsewhere_is_none_that_claude_code_knows(
    workdir: str, *, allowed: bool
) -> None:
    arguments = {"command": "echo", "workdir": workdir}
    assert claude("Bash(*)").allows("bash", arguments, "/w") is allowed


@pytest.mark.parametrize(
    ("engine", "allowed"),
    [
        (claude("Bash"), True),
        (claude(mode="bypassPermissions"), True),
        (claude("Bash(echo:*)"), False),
        (claude("Bash", deny=("Bash(rm:*)",)), True),
        (claude("Bash", deny=("Bash(ls:*)",)), False),
        (claude("Bash(echo $(ls))"), True),
        (claude("Bash", deny=("Read(x)",)), True),
        (claude("Read"), False),
        (claude("Bash", deny=("Bash",)), False),
    ],
)
def test_an_unclear_command_passes_where_no_rule_looks_at_its_text(
    engine: ClaudeCode, *, allowed: bool
) -> None:
    assert allows(engine, "echo $(ls)") is allowed


@pytest.mark.parametrize(
    "command",
    [
        "nohup " * 170_000,
        "a;" * 500_000,
        "npm " + " -- " * 15_000,
        "timeout" + " " * 1_000_000,
        "timeout" + " -a" * 300_000,
        "timeout" + " -k 5" * 200_000,
        '"' + "\\a" * 500_000,
        "'" * 999_999,
        "${a" * 300_000,
        "$'" * 300_001,
        "#" * 1_000_000,
        "\\\n" * 500_000,
        ">a" * 500_000,
        "1" * 1_000_000,
        "> " * 500_000,
        ">" + " " * 1_000_000,
        "> 'a" * 300_000,
    ],
    ids=lambda command: command[:12],
)
def test_long_texts_take_no_long_time(command: str) -> None:
    engine = claude("Bash(git diff:*)", "Bash(npm * -- * run *)", "Bash(a)")
    assert processor_seconds(lambda: allows(engine, command), enough=2.0) < 2


@pytest.mark.parametrize(
    ("rule", "text", "fits"),
    [
        ("a b:*", " a \\\n\t b  c\n", True),
        ("a  b:*", "a\tb", True),
        ("a b:*", "a\nb", False),
        ("a b:*", "a\\\nb", False),
        ("a\nb:*", "a\nb", True),
        ("a  b", "a  b", True),
        ("a b", "a  b", False),
        ("a b", "a\t\\\n  b", True),
        ("a  b", "a \\\n \\\nb", True),
        ("a\tb", "a\tb", True),
        ("a b  c", "a\\\nb  c", True),
    ],
)
def test_blanks_are_counted_as_one_but_in_an_exact_rule(rule: str, text: str, *, fits: bool):
    assert ToolSpecifier("bash", rule).fits_text(text) is fits


@pytest.mark.timeout(60)
@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\\"])
@pytest.mark.parametrize("rule", ["rm:*", "rm x"])
def test_each_run_of_blanks_is_read_once(rule: str, blank: str) -> None:
    """It took minutes: from each blank on to the last one."""
    assert not ToolSpecifier("bash", rule).fits_text(f'echo "{blank * 400_000}"')


def test_a_text_is_read_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    read_texts: list[str] = []

    class Counting:
        def sub(self, _by: object, text: str) -> str:
            read_texts.append(text)
            return text

    monkeypatch.setattr(rules, "_BLANKS", Counting())
    engine = claude(deny=tuple(f"Bash(x{number}:*)" for number in range(9)))
    assert allows(engine, "echo told once")
    assert read_texts.count("echo told once") == 1


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("echo a && " * 900 + "echo b", True),
        ("echo a || " * 900 + "cat b", True),
        ("echo a | " * 200 + "cat", True),
        ("echo a && " * 900 + "rm b", False),
        ("rm b && " + "echo a && " * 900 + "echo b", False),
        ("for i in a; do " * 40 + "echo b; " + "done; " * 40, True),
        ("for i in a; do " * 900 + "echo b; " + "done; " * 900, False),
        ("if test a; then " * 900 + "echo b; " + "fi; " * 900, False),
        ("a=$(" * 900 + "echo b" + ")" * 900, False),
        ("! " * 900 + "echo b", False),
        ("echo a > /dev/null && " * 60 + "echo b", True),
        ("echo a > /dev/null && " * 400 + "echo b", False),
        ("[[ " + "! " * 900 + "a ]]", True),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_long_chain_is_read_to_its_end_and_deep_nesting_is_denied(
    command: str, *, allowed: bool
) -> None:
    assert allows(claude("Bash(echo:*)", "Bash(cat:*)"), command) is allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [
        claude("Bash(ls:*)", "Bash(timeout:*)"),
        claude("Bash"),
        claude("Bash", deny=("Bash(rm:*)",)),
        claude(mode="bypassPermissions"),
    ],
    ids=["part", "all", "deny", "bypass"],
)
def test_what_is_wrapped_more_often_than_is_looked_through_is_denied(engine: ClaudeCode) -> None:
    def verdicts() -> None:
        found = [
            [allows(engine, wrapper * times + "ls") for times in (8, 9, 2000, 12_000)]
            for wrapper in ("timeout 5 ", "nice ", "command ")
        ]
        assert found == [[True, False, False, False]] * 3

    assert processor_seconds(verdicts, enough=4.0) < 4


@pytest.mark.parametrize(
    ("permissions", "message"),
    [
        (
            {"additionalDirectories": ["~nobodyx/a"]},
            ".additionalDirectories: there is no such user, got '~nobodyx/a'",
        ),
        (
            {"additionalDirectories": ["~\0x"]},
            ".additionalDirectories: there is no such user, got '~\\x00x'",
        ),
        (
            {"additionalDirectories": ["~\ud800/x"]},
            ".additionalDirectories: there is no such user, got '~\\ud800/x'",
        ),
        (
            {"additionalDirectories": ["a\ud800"]},
            ".additionalDirectories: expected a path, got 'a\\ud800'",
        ),
        ({"allow": ["Bash( )"]}, ".allow: expected Tool or Tool(what), got 'Bash( )'"),
    ],
)
def test_a_setting_that_can_not_be_meant_is_named(
    tmp_path: Path, permissions: dict[str, list[str]], message: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"permissions": permissions}))
    with pytest.raises(UsageError) as error:
        read(path)
    assert str(error.value) == f"{path}: permissions{message}"


def test_who_has_no_home_is_told_to_set_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 987_654_321)
    path = tmp_path / "settings.json"
    path.write_text("{}")
    with pytest.raises(UsageError) as error:
        read(path)
    assert str(error.value) == f"{path}: what ~ stands for is not known here: set HOME"


@pytest.mark.parametrize(
    "rule", ["Bash(" + "(" * 80_000, "Bash(" + ") " * 80_000 + "x"], ids=["open", "shut"]
)
def test_a_rule_without_an_end_takes_no_long_time(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"permissions": {"allow": [rule]}}))

    def refused() -> None:
        with pytest.raises(UsageError):
            read(path)

    assert processor_seconds(refused, enough=0.5) < 0.5


@pytest.mark.parametrize(
    ("command", "free"),
    [
        ("head -5 a.txt", True),
        ("git log -5", True),
        ("git log --format=%H", True),
        ("git log --pretty=x", False),
        ("git log --format %H", False),
    ],
)
def test_a_number_and_a_format_are_options_that_only_read(command, free) -> None:
    assert allows(claude(), command) is free


@pytest.mark.parametrize(
    "command",
    [
        "grep -r a /etc/foo",
        "egrep -n -r a /etc/foo",
        "grep -T a /etc/foo",
        "grep --glob a /etc/foo",
        "grep -d a /etc/foo",
        "rg -M 1 /etc/foo",
        "rg --exclude a /etc/foo",
        "rg -r a b /etc/foo",
    ],
)
def test_the_options_of_grep_are_not_those_of_rg(command: str) -> None:
    assert not allows(claude("Bash(grep *)", "Bash(egrep *)", "Bash(rg *)"), command)
    assert not allows(claude(), command)
    inside = command.replace("/etc/foo", "foo")
    assert allows(claude("Bash(grep *)", "Bash(egrep *)", "Bash(rg *)"), inside)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls /etc", False),
        ("X=1 ls /etc", False),
        ("timeout 5 ls /etc", False),
        ("touch /srv/q", False),
        ("find /srv -delete", False),
        ("cd /etc && ls", False),
        ("cat /etc/x && git status", False),
        ("ls /etc; ls", False),
        ("head -3 /etc/x | wc -l", False),
        ("ls /etc | zzz", False),
        ("cp a /srv/b", False),
        ("mv -f a b", False),
        ("zzz /etc", True),
        ("git -C /etc status", True),
        ("find . -exec rm {} +", True),
        ("ls /etc && zzz", True),
        ("cd /etc && npm test", True),
        ("mkdir -p /srv/x && zzz", True),
        ("echo $(cat /etc/x)", True),
        ("sort -k1 a", True),
        ("mv a b", True),
        ("X=1", True),
    ],
)
def test_a_rule_for_a_whole_text_opens_no_path(command: str, *, allowed: bool) -> None:
    assert allows(claude(f"Bash({command})"), command) is allowed


def test_a_path_that_is_opened_passes_a_rule_for_a_whole_text() -> None:
    engine = claude("Bash(ls /etc)", "Bash(touch /srv/q)", "Read(//etc/**)")
    assert allows(engine, "ls /etc")
    assert not allows(engine, "touch /srv/q")
