from pathlib import Path

import pytest

from agenteval.config.allowlists import files_of, load_policy
from agenteval.config.files import shipped
from agenteval.errors import UsageError
from agenteval.policy.command_lines import Kind
from agenteval.policy.policy import Policy, World, allows, allows_command
from agenteval.shell.leaves import Construct
from agenteval.trial.call import ToolCall


def write(root: Path, name: str, text: str) -> Path:
    folder = root / "allowlists"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def policy(root: Path, text: str) -> Policy:
    return load_policy(str(write(root, "own", text)), roots=[root])


def test_a_name_is_found_under_the_first_root_that_has_it(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    write(second, "one", '[bash]\nallow = ["ls"]')
    write(second, "two", "[bash]")
    write(first, "two", '[bash]\nallow = ["pwd"]')
    assert allows_command("ls", load_policy("one", roots=[first, second]))
    assert allows_command("pwd", load_policy("two", roots=[first, second]))


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, "one", "")
    write(tmp_path, "two", "")
    with pytest.raises(UsageError, match=r"no allow list 'three' in .*Known: one, two$"):
        load_policy("three", roots=[tmp_path])
    with pytest.raises(UsageError, match=r"Known: none$"):
        load_policy("three", roots=[tmp_path / "empty"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[bash]\nallow = "ls"', "bash.allow: expected a list, got text"),
        ('[bash]\nallow = [" "]', "a rule needs at least one word"),
        ('[bash]\nenv = ["A=1"]', "bash.env: 'A=1' is no variable's name"),
        ("[bash]\nalow = []", "bash: unknown key alow; known keys: allow, deny, through"),
        ('[bash]\nconstructs = ["pipes"]', "bash.constructs[0]: expected one of pipe, chain"),
        ("[[bash.script]]\nrunner = 'x'", "bash.script[0]: key path is missing"),
        (
            "[[bash.script]]\npath = 'x'\noptions.limit = 'int'",
            "script x: options.limit: an option",
        ),
        (
            "[[bash.script]]\npath = 'x'\noptions.--a = 'itn'",
            "expected one of str, int, float, choice, path, json, flag, got 'itn'",
        ),
        ("[[bash.script]]\npath = 'x'\noptions.--a = 'choice'", "--a: a choice needs choices"),
        ("[[bash.script]]\npath = 'x'\noptions.--a.nargs = 0", '"+" or "...", not 0'),
        (
            "[[bash.script]]\npath = 'x'\noptions.--a.nargs = 1001",
            "nargs is a count from 1 to 1000",
        ),
        ("[[bash.script]]\npath = 'x'\nparser = 'x'", "expected one of argparse, click, typer"),
        ("[[bash.script]]\npath = 'x'\nprefix = ''", "prefix: expected the characters before"),
        (
            "[[bash.script]]\npath = 'x'\nprefix = '-+'\noptions.a = 'str'",
            "options.a: an option begins with - or +",
        ),
        ("[[bash.script]]\npath = 'x'\nexclusive = [['--a']]", "exclusive: --a is no option"),
        ("[[bash.script]]\npath = 'x'\none_of = [[]]", "one_of: expected names of options"),
        (
            "[[bash.script]]\npath = 'x'\nparser = 'none'\noptions.--a = 'str'",
            'options.--a: with parser = "none" every word is a positional',
        ),
        (
            "[[bash.script]]\npath = 'x'\nparser = 'go'\noptions.--a.nargs = '*'",
            "options.--a: go knows options with a count",
        ),
        (
            """[[bash.script]]\npath = 'x'\nparser = 'click'
            positionals = [{ name = 'a', nargs = '*' }, { name = 'b', nargs = '+' }]""",
            "b: one positional may take any number of words, a does",
        ),
        (
            """[[bash.script]]\npath = 'x'
            positionals = [{ name = 'a', nargs = '...' }, { name = 'b', nargs = '+' }]""",
            'a: nargs "..." is for the last positional',
        ),
        (
            "[[bash.script]]\npath = 'x'\npositionals = [{ kind = 'int' }]",
            "a positional needs a name",
        ),
        ("[tools.x.parameters]\ntype = 5", "tools.x.parameters: "),
        (
            "[tools.x.parameters]\n'$ref' = 'http://h/x'",
            "tools.x.parameters: no JSON Schema: a schema may not",
        ),
        ('extends = "own"', "an allow list may not extend itself"),
        (
            f"[[bash.script]]\npath = 'x'\n{'commands.a.' * 2000}b = 1",
            "a key of more than 64 parts",
        ),
        ('extends = "../allowlists/own.toml"', "an allow list may not extend itself"),
        ('extends = "a\\u0000/b.toml"', "extends: 'a\\x00/b.toml': a path has no NUL in it"),
        *(
            (f"[tools.x]\nparameters = {schema}", "tools.x.parameters: no JSON Schema: ")
            for schema in (
                "{ default = 2026-01-01 }",
                "{ pattern = '(' }",
                "{ '$ref' = 1 }",
                "{ properties = 1 }",
            )
        ),
        ('extends = "none"', "extends: no allow list 'none'"),
        ('extends = "./none.toml"', "none.toml: cannot be read: No such file"),
    ],
)
def test_a_rule_that_can_mean_nothing_is_named_with_its_file_and_key(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        policy(tmp_path, text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("base", ["../base.toml", "/etc/base.toml", "./../allowlists2/x.toml"])
def test_a_list_of_a_project_extends_nothing_that_its_digest_does_not_cover(
    tmp_path: Path, base: str
) -> None:
    with pytest.raises(UsageError, match=r"extends: .* leads out of .*allowlists: put that list"):
        policy(tmp_path, f'extends = "{base}"')


def test_a_chain_of_lists_has_an_end(tmp_path: Path) -> None:
    for number in range(1500):
        write(tmp_path, f"l{number}", f'extends = "l{number + 1}"')
    with pytest.raises(UsageError, match="more than 32 lists extend one another"):
        policy(tmp_path, 'extends = "l0"')


def test_the_files_of_a_list_that_extends_itself_by_another_name_end(tmp_path: Path) -> None:
    path = write(tmp_path, "own", 'extends = "../allowlists/own.toml"')
    assert [*files_of(str(path), [tmp_path])] == [path]
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(UsageError, match="cannot be read"):
        [*files_of(str(path), [tmp_path])]


def test_a_schema_that_is_no_json_is_named_even_where_schemas_are_left_unchecked(tmp_path) -> None:
    path = write(tmp_path, "own", "[tools.x]\nparameters = { default = 2026-01-01 }")
    with pytest.raises(UsageError, match="not JSON serializable"):
        load_policy(str(path), roots=[tmp_path], only_bash=True)


def test_an_extending_list_has_the_rules_of_both(tmp_path: Path) -> None:
    write(
        tmp_path,
        "base",
        """
        files = ["a"]
        [bash]
        allow = ["ls"]
        [[bash.script]]
        path = "x.py"
        positionals = ["one"]
        [[bash.script]]
        path = "y.py"
        [read]
        allow = ["**"]
        [tools.t]
        """,
    )
    own = policy(
        tmp_path,
        """
        extends = "base"
        files = ["b"]
        [bash]
        allow = ["pwd"]
        [[bash.script]]
        path = "x.py"
        [read]
        deny = ["b"]
        [write]
        """,
    )
    for command in ("ls", "pwd", "uv run x.py", "uv run y.py"):
        assert allows_command(command, own)
    assert not allows_command("uv run x.py word", own)
    assert own.files == {"a", "b"}
    assert set(own.tools) == {"bash", "read", "write", "t"}
    assert own.read.admits("a")
    assert not own.read.admits("b")


def test_an_extended_list_may_be_a_path_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "allowlists").mkdir()
    (tmp_path / "allowlists" / "base.toml").write_text('[bash]\nallow = ["ls"]')
    assert allows_command("ls", policy(tmp_path, 'extends = "./base.toml"'))


def test_the_digest_names_the_rules_and_not_the_file(tmp_path: Path) -> None:
    one = policy(tmp_path, 'description = "x"\n[bash]\nallow = ["ls"]')
    same = policy(tmp_path, '# more\nbash = { allow = ["ls"] }')
    other = policy(tmp_path, '[bash]\nallow = ["pwd"]')
    assert one.digest == same.digest != other.digest
    assert len(one.digest) == 12


def test_a_tool_exists_when_its_table_does(tmp_path: Path) -> None:
    assert set(policy(tmp_path, "[read]\n[tools.todo]").tools) == {"read", "todo"}


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("", name, "", arguments)


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        (call("read", path="notes/a"), True),
        (call("read", filePath="/workspace/notes/a"), True),
        (call("read", file_path="./notes/a"), True),
        (call("read", path="notes/../x"), False),
        (call("read", path=5), False),
        (call("read"), False),
        (call("write", path="notes/a", content="x"), True),
        (call("write", path="notes/a"), False),
        (call("write", path="a", content="x"), False),
        (call("bash", command="ls"), True),
        (call("bash", command="ls", timeout=5), True),
        (call("bash", command=["ls"]), False),
        (call("bash"), False),
        (call("todo", items=["a"]), True),
        (call("todo", items="a"), False),
        (call("any", x=1), True),
        (call("Read", path="notes/a"), False),
        (ToolCall("", "bash", "{", None, "cut"), False),
    ],
)
def test_a_call_is_allowed_only_when_tool_arguments_and_path_are(
    tmp_path: Path, made: ToolCall, *, allowed: bool
) -> None:
    rules = policy(
        tmp_path,
        """
        bash.allow = ["ls"]
        read.allow = ["notes/**"]
        write.allow = ["notes/**"]
        [tools.any]
        [tools.todo.parameters]
        properties.items.type = "array"
        """,
    )
    assert allows(made, rules) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls | cat", True),
        ("ls && ls", True),
        ("ls | rm x", False),
        ("ls; rm x", False),
        ("ls > notes/a", True),
        ("ls > a", False),
        ("ls > notes/../a", False),
        ("ls > /etc/passwd", False),
        ("ls 2>/dev/null", True),
        ("ls 2>&1", True),
        ("ls 2> a", False),
        ("cat < data/x", True),
        ("cat < /etc/passwd", False),
        ("cat <<EOF\nx\nEOF", True),
        ("cat <<< x", False),
        ("(ls)", False),
        ("ls &", False),
        ("cat $(ls)", False),
        ("cat <(ls)", False),
        ("for x in a; do ls; done", False),
    ],
)
def test_constructs_are_allowed_by_name_and_every_command_in_them_by_a_rule(
    tmp_path: Path, command: str, *, allowed: bool
) -> None:
    rules = policy(
        tmp_path,
        """
        read.allow = ["data/**"]
        write.allow = ["notes/**"]
        [bash]
        allow = ["ls", "cat *"]
        constructs = ["pipe", "chain", "stderr-redirect", "file-redirect", "heredoc",
                      "input-redirect"]
        """,
    )
    assert allows_command(command, rules) is allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("scripts/x.py", True),
        ("./scripts/x.py", True),
        ("scripts//x.py", True),
        ("/workspace/scripts/x.py", True),
        ("/work/scripts/x.py", False),
        ("scripts/../scripts/x.py", False),
        ("../workspace/scripts/x.py", True),
        ("scripts/../../evil.py", False),
        ("scripts/x.py/../y.py", False),
        ("scripts/x.p?", False),
        ("~/scripts/x.py", False),
    ],
)
def test_a_script_is_known_by_its_normalised_path(
    tmp_path: Path, path: str, *, allowed: bool
) -> None:
    rules = policy(tmp_path, '[[bash.script]]\npath = "./scripts/x.py"')
    assert allows_command(f"uv run {path}", rules) is allowed
    assert allows_command(f"uv run {path}", rules, World(root="/w")) is (
        allowed and "workspace" not in path
    )


def test_a_pattern_lists_the_script_in_it_by_how_it_is_started(tmp_path: Path) -> None:
    allow = '["uv run ./scripts/a.py list *", "uv run x/* y", "python3 b.py list", "./c.sh *"]'
    rules = policy(tmp_path, f"[bash]\nallow = {allow}")
    assert rules.bash.listed == {
        "scripts/a.py": ("uv run ./scripts/a.py",),
        "b.py": ("python3 b.py",),
        "c.sh": ("./c.sh",),
    }


def test_a_script_without_a_runner_is_run_by_its_path(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[bash.script]]\npath = "bin/go.sh"\nrunner = ""')
    assert allows_command("./bin/go.sh", rules)
    assert not allows_command("bash bin/go.sh", rules)


@pytest.mark.parametrize("command", ["eval ls", "printf x", ". x", "test -v x", "export A=1"])
def test_no_wildcard_reaches_a_builtin_that_evaluates_its_words(
    tmp_path: Path, command: str
) -> None:
    program = command.split(maxsplit=1)[0]
    for rule in ("*", f"{program} *", f"{program[:-1]}* *"):
        assert not allows_command(command, policy(tmp_path, f'bash.allow = ["{rule}"]'))
    assert allows_command(command, policy(tmp_path, f'bash.allow = ["{command}"]'))


README = (shipped() / "allowlists" / "README.md").read_text(encoding="utf-8")
BLOCKS = README.split("```toml\n")[1:]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_of_the_readme_is_an_allow_list(tmp_path: Path, number: int) -> None:
    path = write(tmp_path, "example", BLOCKS[number].split("```")[0])
    load_policy(str(path), roots=[shipped()])


def test_the_readme_names_every_construct_and_kind() -> None:
    assert [each.value for each in (*Construct, *Kind) if f"`{each.value}`" not in README] == []


def test_an_empty_file_is_no_allow_list(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is empty, so no tool exists and nothing is allowed"):
        policy(tmp_path, "# nothing yet")
