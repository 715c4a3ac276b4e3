"""What runs in a command for Claude Code is told apart as bash does, or the command is denied."""

import time

import pytest

from agenteval.core.dialects.claude import ClaudeCode, ToolSpecifier


def claude(*allow: str, deny: tuple[str, ...] = (), mode: str = "default") -> ClaudeCode:
    specifiers = (tuple(map(ToolSpecifier.parse, rules)) for rules in (allow, deny))
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
        "echo x\\",
        "echo a & rm x",
        "# echo",
    ],
)
def test_no_quote_comment_or_bracket_hides_what_runs(command: str) -> None:
    assert not allows(claude("Bash(echo:*)", "Bash(cat:*)"), command)


@pytest.mark.parametrize(
    "command",
    [
        'echo "it\'s" && echo \'say "x"; y\'',
        'echo "cost: \\$(x) $5 ${HOME} ${x:-a b} $x"',
        "echo ${x:-a;b} $$ \\(a\\) \\; a#b",
        "echo $'it\\'s; fine' $\"too; fine\"",
        "echo x # it's a comment; rm x",
        "# first\necho x",
        "echo x \\\n  y",
        "cat <&3 >&2 2>&1 3>&- 2> /dev/null &>/dev/null",
        "cat <<< x",
        "echo a & echo b | cat |& cat || echo c;\n",
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
    engine = claude("Bash(echo:*)", "Bash(cd:*)", "Edit")
    commands = ("cd a && echo x", "cd a && echo x > /w/f", "cd a && echo x > f", "cd; echo x > f")
    assert [allows(engine, command) for command in commands] == [True, True, False, False]


def test_a_rule_may_say_the_redirect_itself() -> None:
    engine = claude("Bash(ls > f)", "Bash(cat:*)", "Edit", deny=("Bash(cat x > *)",))
    commands = ("ls > f", "ls > g", "cat x > f", "cat y > f")
    assert [allows(engine, command) for command in commands] == [True, False, False, True]


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
        (claude("Bash", deny=("Bash(rm:*)",)), False),
        (claude("Bash", deny=("Read(x)",)), True),
        (claude("Read"), False),
    ],
)
def test_an_unclear_command_passes_where_no_rule_looks_at_its_text(
    engine: ClaudeCode, *, allowed: bool
) -> None:
    assert allows(engine, "echo $(ls)") is allowed


@pytest.mark.parametrize(
    ("wrapper", "allowed"),
    [
        ("timeout -k 5 10", True),
        ("timeout -s KILL 10", True),
        ("timeout -sKILL --kill-after 5s --foreground 1.5m", True),
        ("timeout --signal TERM 10", True),
        ("timeout -k 5", False),
        ("timeout -s 'x 5 git diff' 5 rm", False),
        ("timeout $x", False),
        ("nice", True),
        ("nice -5", True),
        ("nice --5", True),
        ("nice -n -5", True),
        ("nice -n5 --adjustment=3 --adjustment 4", True),
        ("nice -x", False),
        ("stdbuf -o L", True),
        ("stdbuf -oL -e 0 --input=0 --output L", True),
        ("stdbuf", False),
        ("time -p nohup", True),
        ("time -v", False),
        ("env", False),
    ],
)
def test_a_wrapper_is_looked_through_with_its_options(wrapper: str, *, allowed: bool) -> None:
    assert allows(claude("Bash(git diff:*)"), f"{wrapper} git diff x") is allowed


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
    start = time.process_time()
    allows(claude("Bash(git diff:*)", "Bash(npm * -- * run *)", "Bash(a)"), command)
    assert time.process_time() - start < 2
