"""Calls that look as if a rule fitted, and that bash or the file system takes otherwise."""

import tomllib

import pytest
from clocks import steps

from agenteval.config.allowlists import convert, policy
from agenteval.policy.policy import Policy, allows, allows_command
from agenteval.trial.call import ToolCall
from agenteval.workflows.reference import _to_toml


def allow_list(text: str) -> Policy:
    return policy(convert("t", tomllib.loads(text)), name="t", where="t")


REDIRECTS = """
[bash]
allow = ["echo *", "cat"]
constructs = ["file-redirect", "stderr-redirect", "input-redirect", "pipe"]
"""


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("echo hi > 5", False),
        ("echo hi > -", False),
        ("echo hi >5", False),
        ("echo hi 2> 1", False),
        ("echo hi &> 9", False),
        ("echo hi &>> 9", False),
        ("cat < 5", False),
        ("cat < -", False),
        ("echo hi >&5", True),
        ("echo hi 2>&1", True),
        ("echo hi 2>&-", True),
        ("cat <&3", True),
        ("echo hi |& cat", True),
        ("echo hi > /dev/null", True),
    ],
)
def test_a_file_named_as_a_descriptor_is_a_file(command: str, *, allowed: bool) -> None:
    assert allows_command(command, allow_list(REDIRECTS)) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [("cat <&2", False), ("cat 0<&2", False), ("cat 2<&1", True), ("cat >&2", True)],
)
def test_reading_from_stderr_is_input(command: str, *, allowed: bool) -> None:
    rules = allow_list('[bash]\nallow = ["cat"]\nconstructs = ["stderr-redirect"]')
    assert allows_command(command, rules) is allowed


def test_no_wildcard_reaches_history_which_writes_files() -> None:
    assert not allows_command("history -w out.txt", allow_list('bash.allow = ["history *"]'))
    assert allows_command("history -w x", allow_list('bash.allow = ["history -w x"]'))


@pytest.mark.parametrize(
    "command",
    ["git -C [ap]* status", "git -C $(echo a push) status", "git -C ~ status", "foo $(echo) bar"],
)
def test_no_star_before_other_words_takes_what_bash_makes_more_words_of(command: str) -> None:
    rules = allow_list(
        """
        [bash]
        allow = ["git -C * status", "foo * bar", "echo *"]
        constructs = ["command-substitution"]
        """
    )
    assert not allows_command(command, rules)
    assert allows_command("echo [ap]*", rules)
    assert allows_command("git -C a status", rules)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("LIMIT=5 git status", True),
        ("LIMIT+=5 git status", True),
        ("LIMIT=5 MODE=x git status", True),
        ("PATH=evil:/usr/bin git status", False),
        ("GIT_EXTERNAL_DIFF=./evil git status", False),
        ("LIMIT=5 LD_PRELOAD=x git status", False),
        ("git status; BASH_ENV=x git status", False),
    ],
)
def test_only_named_variables_may_be_set(command: str, *, allowed: bool) -> None:
    constructs = '[bash]\nallow = ["git status"]\nconstructs = ["env-assignment", "chain"]\n'
    rules = allow_list(constructs + 'env = ["LIMIT", "MODE"]')
    assert allows_command(command, rules) is allowed
    assert not allows_command(command, allow_list(constructs))


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("deploy", False),
        ("./deploy", True),
        ("/workspace/deploy", True),
        ("test -- x", False),
        ("./test x", True),
        ("./test x*", False),
        ("uv run tool.py", True),
        ("python3 report.py", True),
        ("python3 -c tool.py", False),
        ("python3 tool.py", False),
        ("uv run report.py", False),
        ("uv tool tool.py", False),
        ("uv run *", False),
        ("uv run", False),
    ],
)
def test_a_script_runs_by_its_own_runner_and_a_bare_name_is_none_in_the_workspace(
    command: str, *, allowed: bool
) -> None:
    rules = allow_list(
        """
        bash.script = [
            { path = "deploy", runner = "" },
            { path = "test", runner = "", positionals = ["word"] },
            { path = "tool.py" },
            { path = "report.py", runner = "python3" },
        ]
        """
    )
    assert allows_command(command, rules) is allowed


@pytest.mark.parametrize(
    ("parser", "short", "cut"),
    [("argparse", False, True), ("click", False, False), ("go", True, False)],
)
def test_a_script_takes_the_options_that_its_own_parser_takes(
    parser: str, *, short: bool, cut: bool
) -> None:
    rules = allow_list(
        f"bash.script = [{{ path = 'x.py', parser = '{parser}', options.--limit = 'int' }}]"
    )
    called = (f"uv run x.py {option} 5" for option in ("--limit", "-limit", "--lim"))
    assert [allows_command(each, rules) for each in called] == [True, short, cut]


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("cd .. && echo hi > notes/x", False),
        ("cd /tmp && echo x", False),
        ("echo x; pushd a", False),
        ("popd; echo x", False),
        ("(cd a; echo x)", False),
        ("echo $(cd a)", False),
        ("builtin cd .. && echo x", False),
        ("cd a", True),
        ("cd a > notes/x", True),  # the file is opened before
        ("echo cd && echo x", True),
    ],
)
def test_no_command_stands_beside_one_that_changes_the_folder(
    command: str, *, allowed: bool
) -> None:
    rules = allow_list(
        """
        [bash]
        allow = ["cd *", "pushd *", "popd", "echo *", "builtin cd .."]
        constructs = ["chain", "file-redirect", "subshell", "command-substitution"]
        [write]
        allow = ["notes/**"]
        """
    )
    assert allows_command(command, rules) is allowed


@pytest.mark.parametrize(
    ("tool", "arguments", "allowed"),
    [
        ("bash", {"command": "ls"}, True),
        ("bash", {"command": "ls", "workdir": None}, True),
        ("bash", {"command": "ls", "workdir": "."}, True),
        ("bash", {"command": "ls", "workdir": "/workspace/"}, True),
        ("bash", {"command": "ls", "workdir": "/tmp/evil"}, False),
        ("bash", {"command": "ls", "workdir": "scripts"}, False),
        ("bash", {"command": "ls", "cwd": ".."}, False),
        ("bash", {"command": "ls", "cwd": 5}, False),
        ("read", {"path": "notes/a", "file_path": "notes/a"}, True),
        ("read", {"path": "notes/a", "file_path": "/etc/passwd"}, False),
        ("read", {"path": "notes/a", "filePath": "notes/b"}, False),
    ],
)
def test_an_argument_beside_the_command_or_path_leads_nowhere_else(
    tool: str, arguments: dict[str, object], *, allowed: bool
) -> None:
    rules = allow_list('bash.allow = ["ls"]\nread.allow = ["notes/**"]')
    assert allows(ToolCall("", tool, "", arguments), rules) is allowed


@pytest.mark.parametrize("part", ["a&", "a;", "(a);", "a >b;"])
def test_no_joined_text_takes_long(part: str) -> None:
    rules = allow_list(
        """
        [bash]
        allow = ["a *"]
        constructs = ["pipe", "chain", "background", "file-redirect", "subshell"]
        [write]
        allow = ["b"]
        """
    )
    assert allows_command(part + "\na", rules)
    for long in (part * (120_000 // len(part)), "a " + ">b" * 60_000):
        assert not allows_command(long, rules)
        assert steps(lambda text=long: allows_command(text, rules)) < 500_000


def test_the_variables_that_may_be_set_are_written_out_and_are_part_of_the_digest() -> None:
    rules = allow_list('bash.env = ["LIMIT"]')
    assert allow_list(_to_toml(rules)).digest == rules.digest != allow_list("[bash]").digest
