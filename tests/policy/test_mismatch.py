from pathlib import Path

import pytest

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.command_lines import CommandPattern
from agenteval.policy.mismatch import Miss, mismatch
from agenteval.policy.policy import schema_complaint
from agenteval.policy.rules import BashRules
from agenteval.shell.gate import Simple, read_simple
from agenteval.shell.programs import code_at, script_at

DEMO = load_policy("demo", roots=[shipped()])


@pytest.mark.parametrize(
    ("command", "miss", "at", "hint"),
    [
        ("ls", Miss.PROGRAM, 0, "ls is not listed"),
        ("context-cache get", Miss.PROGRAM, 0, "did you mean uv run scripts/context_cache.py?"),
        ("scripts/notes.py list", Miss.RUNNER, 0, "it is called as uv run scripts/notes.py"),
        ("python3 scripts/notes.py list", Miss.RUNNER, 1, "called as uv run scripts/notes.py"),
        ("uv -q run scripts/notes.py list", Miss.RUNNER, 3, "called as uv run scripts/notes.py"),
        ("uv --directory . run scripts/x.py", Miss.SCRIPT, 4, "scripts/x.py is not listed"),
        ("uv run pytest", Miss.PROGRAM, 2, "pytest is not listed"),
        ("uv run --with x pytest", Miss.PROGRAM, 4, "pytest is not listed"),
        ("uv pip install x", Miss.WORDS, 1, "the rule is uv run scripts/echo.py *"),
        ("python3 -m http.server", Miss.WORDS, 1, "the rule is python3 scripts/report.py"),
        ("git push", Miss.WORDS, 1, "listed with other words"),
        ("git log --oneline -5", Miss.WORDS, 3, "listed with other words"),
        ("sha256sum data/*.csv", Miss.WORDS, 1, "quote data/*.csv or write it out"),
        ("uv run scripts/note.py list", Miss.SCRIPT, 2, "did you mean uv run scripts/notes.py?"),
        ("uv run /etc/x.py", Miss.SCRIPT, 2, "/etc/x.py is not listed"),
        ("bash backup.sh", Miss.SCRIPT, 1, "backup.sh is not listed"),
        ("uv run scripts/notes.py list --limt 5", Miss.OPTION, 4, "did you mean --limit?"),
        ("uv run scripts/notes.py lst", Miss.COMMAND, 3, "did you mean list?"),
        ("uv run scripts/notes.py list --due x", Miss.WORDS, 4, "another sub-command"),
        ("uv run scripts/notes.py list --json=1", Miss.WORDS, 4, "--json takes no value"),
        ("uv run scripts/notes.py add *.md", Miss.WORDS, 4, "quote *.md or write it out"),
        ("uv run scripts/notes.py", Miss.WORDS, 3, "a sub-command is needed: add, list, search"),
        ("uv run scripts/notes.py show", Miss.WORDS, 4, "note is missing"),
        ("uv run scripts/notes.py add x --meta {", Miss.WORDS, 6, "--meta must be valid JSON"),
        ("uv run scripts/notes.py add x --attach ../y", Miss.WORDS, 6, "inside the workspace"),
        ("uv run scripts/ralf.py update-stage-status x done", Miss.WORDS, 4, "a whole number"),
        ("uv run scripts/context_cache.py --command get --ttl x", Miss.WORDS, 6, "a number"),
    ],
)
def test_a_mismatch_says_where_why_and_what_would_mend_it(
    command: str, miss: Miss, at: int, hint: str
) -> None:
    gate = read_simple(command)
    assert isinstance(gate, Simple)
    assert not DEMO.bash.admits(gate.argv, gate.dynamic)
    found = mismatch(DEMO.bash, gate.argv, gate.dynamic)
    assert (found.miss, found.at) == (miss, at)
    assert hint in found.hint


@pytest.mark.parametrize("command", ["test -f a.md", "printf '%s' a", "export A"])
def test_a_rule_that_fits_and_opens_nothing_is_not_named_as_what_is_wanted(command: str) -> None:
    program = command.split(maxsplit=1)[0]
    rules = BashRules([CommandPattern.parse(f"{program} *")])
    found = mismatch(rules, command.split())
    assert (found.at, found.hint) == (0, f"no rule with a star opens {program}")


@pytest.mark.parametrize(
    ("program", "instead"),
    [
        ("choco", ""),
        ("ech", "uv run scripts/echo.py"),
        ("context-cash", "uv run scripts/context_cache.py"),
    ],
)
def test_a_program_is_taken_for_a_script_only_where_the_names_are_much_alike(
    program: str, instead: str
) -> None:
    assert mismatch(DEMO.bash, [program, "get"], frozenset()).instead == instead


@pytest.mark.parametrize(
    ("command", "script", "code"),
    [
        ("python x.py -c y", 1, None),
        ("python -u x.py", 2, None),
        ("python -W ignore x.py", 3, None),
        ("python -c x.py", None, 1),
        ("python -Ic x", None, 1),
        ("python -m x", None, None),
        ("python - x", None, 1),
        ("python", None, None),
        ("python3.11 x.py", 1, None),
        ("uv run python x.py", 3, None),
        ("uv run python -c x", None, 3),
        ("uv run x.py -c y", 2, None),
        ("uv run", None, None),
        ("poetry run bash x.sh", 3, None),
        ("bash -lc x", None, 1),
        ("bash -x x.sh", 2, None),
        ("bash -euo pipefail x.sh", 3, None),
        ("bash +O extglob --rcfile y -c x", None, 5),
        ("bash -o pipefail -l", None, None),
        ("python -O x.py", 2, None),
        ("node --require y x.js", 3, None),
        ("node --eval x", None, 1),
        ("./x.sh", 0, None),
        ("x.sh", None, None),
        ("ls x.py", None, None),
        ("bun install", None, None),
        ("bun run dev", None, None),
        ("bun run --watch x.ts", 3, None),
        ("bun x.ts", 1, None),
        ("deno run -A", None, None),
        ("deno test", None, None),
        ("./x.cjs", 0, None),
    ],
)
def test_the_script_or_the_code_of_a_command_is_found(
    command: str, script: int | None, code: int | None
) -> None:
    assert (script_at(command.split()), code_at(command.split())) == (script, code)


@pytest.mark.parametrize(
    ("rules", "strange", "named"),
    [
        ('allow = ["ls *"]', ["git", "nice"], ["ls", "./x.sh"]),
        ('allow = ["* --version"]', [], ["git", "ls", "nice", "./x.sh"]),
        ('allow = ["ls *"]\ndeny = ["ls -R"]', [], ["ls", "./x.sh"]),
        ('allow = ["ls *"]\nthrough = ["nice"]', ["git"], ["ls", "./x.sh"]),
        ('script = [{ path = "x.sh", runner = "" }]', [], ["./x.sh"]),
    ],
)
def test_a_program_is_strange_where_no_rule_can_be_about_what_begins_so(
    tmp_path: Path, rules: str, strange: list[str], named: list[str]
) -> None:
    (tmp_path / "p.toml").write_text(f"[bash]\n{rules}\n")
    bash = load_policy(str(tmp_path / "p.toml"), roots=[]).bash
    programs = ["git", "ls", "nice", "./x.sh"]
    assert [one for one in programs if bash.is_strange(one)] == strange
    assert [one for one in programs if bash.may_name(one)] == named


@pytest.mark.parametrize("schema", ['{"properties": {"a": {"multipleOf": 0}}}', '{"$ref": "#"}'])
def test_what_a_schema_cannot_be_held_against_does_not_fit_it(schema: str) -> None:
    assert schema_complaint(schema, {"a": 3}).startswith("its schema holds against nothing")
