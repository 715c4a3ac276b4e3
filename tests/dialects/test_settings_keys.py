"""No key of a harness's settings falls out silently: it is read, harmless, or named."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.config.allowlists import load_any
from agenteval.dialects import claude_code, codex, opencode
from agenteval.dialects.registry import SettingsKeys

PUBLISHED = Path(__file__).with_name("published_keys")
DECLARED = {
    "claude-code": claude_code.KEYS,
    "codex": codex.KEYS,
    "opencode": opencode.CONFIG,
    "opencode agent": opencode.AGENT,
}


def published(name: str) -> list[str]:
    return json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))["keys"]


def nested(key: str, value: object) -> dict:
    """A table of settings with one key in it, which may be dotted."""
    name, _, rest = key.partition(".")
    return {name: nested(rest, value) if rest else value}


def is_silent(keys: SettingsKeys, key: str) -> bool:
    """Whether a key is not named, and neither it nor its table is read or harmless."""
    parts = key.split(".")
    places = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    if f"{key}.*" in keys.harmless:
        return False
    named = {one.key for one in keys.unheeded(nested(key, "x"))}
    return places.isdisjoint(named | keys.modelled | keys.harmless)


@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
def test_each_published_key_is_declared_and_none_is_silent(name) -> None:
    known = published(name)
    agent = [key.removeprefix("agent.build.") for key in known if key.startswith("agent.build.")]
    own = [key for key in known if not key.startswith("agent.build.")]
    parts = [("opencode agent", agent)] if agent else []
    for keys, wanted in [(DECLARED[each], them) for each, them in [(name, own), *parts]]:
        tables = {key.rpartition(".")[0] for key in wanted}
        assert [key for key in wanted if not keys.is_known(key)] == []
        assert [key for key in wanted if key not in tables and is_silent(keys, key)] == []
    assert len(own) > 30


@pytest.mark.parametrize("name", DECLARED)
def test_a_key_is_of_one_kind_only(name) -> None:
    keys = DECLARED[name]
    kinds = [keys.modelled, keys.harmless, frozenset(keys.unmodelled)]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))


@pytest.mark.parametrize(
    ("name", "settings", "lines"),
    [
        ("claude-code", {"permissions": {"denny": []}},
         ["permissions.denny: is not known: did you mean deny?"]),
        ("claude-code", {"Permissions": {}},
         ["Permissions: is not known: did you mean permissions?"]),
        ("claude-code", {"sandbox": {"enabld": True}},
         ["sandbox.enabld: is not known: did you mean enabled?"]),
        ("claude-code", {"hooks": {"PreTolUse": [1]}},
         ["hooks.PreTolUse: is not known: did you mean PreToolUse?"]),
        ("claude-code", {"hooks": {"PreToolUse": []}}, []),
        ("claude-code", {"zzz\n::x": 1},
         ["'zzz\\n::x': is not known: no release of it that is known here has it"]),
        ("codex", {"aproval_policy": "never"},
         ["aproval_policy: is not known: did you mean approval_policy?"]),
        ("opencode", {"permision": "deny"}, ["permision: is not known: did you mean permission?"]),
        ("opencode", {"experimental": {"policys": [1]}},
         ["experimental.policys: is not known: did you mean policies?"]),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_the_nearest_known_one(name, settings, lines) -> None:
    assert [one.line for one in DECLARED[name].unheeded(settings)] == lines


def settings_file(folder: Path, settings: dict) -> str:
    (folder / ".claude").mkdir(exist_ok=True)
    (folder / ".claude/settings.json").write_text(json.dumps(settings))
    return f"claude-code:{folder}/.claude/settings.json"


def test_the_hook_of_ours_is_no_reason_for_a_warning(tmp_path) -> None:
    ours = {"hooks": [{"command": "python -I -S /x/agenteval/hook/client.py --for claude-code"}]}
    entries = [ours, {"hooks": [{"command": "other"}]}]
    for count, wanted in ((1, 0), (2, 1)):
        given = settings_file(tmp_path, {"hooks": {"PreToolUse": entries[:count]}})
        assert len(load_any(given, roots=()).unheeded) == wanted


def test_a_variable_is_named_where_it_changes_what_runs(tmp_path) -> None:
    given = settings_file(tmp_path, {"env": {"PATH": "/x", "BASH_ENV": "y", "FORCE_COLOR": "1"}})
    assert [one.key for one in load_any(given, roots=()).unheeded] == ["env.PATH", "env.BASH_ENV"]


def test_rules_of_another_agent_are_named(tmp_path) -> None:
    config = {"agent": {"build": {"permission": {"bash": "ask"}},
                        "review": {"permission": {"bash": "deny"}, "modle": "x"}}}  # fmt: skip
    (tmp_path / "opencode.json").write_text(json.dumps(config))
    for reader in ("opencode", "opencode-1.0"):
        found = load_any(f"{reader}:{tmp_path}/opencode.json", roots=()).unheeded
        assert [one.key for one in found] == ["agent.review.permission", "agent.review.modle"]
    agent = tmp_path / "agent.md"
    agent.write_text("---\npermission:\n  bash: ask\ndisable: true\ntemprature: 1\n---\nx\n")
    found = load_any(str(agent), roots=()).unheeded
    assert [one.key for one in found] == ["disable", "temprature"]


def test_the_config_beside_rules_of_codex_is_looked_at(tmp_path) -> None:
    pytest.importorskip("starlark")
    (tmp_path / "rules").mkdir()
    rules = tmp_path / "rules/default.rules"
    rules.write_text('prefix_rule(pattern=["ls"], decision="allow")\n')
    assert load_any(str(rules), roots=()).unheeded == ()
    (tmp_path / "config.toml").write_text('model = "x"\napproval_policy = "never"\n')
    for given in (str(rules), f"codex:{tmp_path}/rules"):
        (found,) = load_any(given, roots=()).unheeded
        assert found.line.startswith("approval_policy: is not heeded: rules are read under")


def test_lint_convert_and_classify_all_say_it_in_one_line(tmp_path) -> None:
    given = settings_file(tmp_path, {"permissions": {"denny": ["Bash(rm:*)"]}})
    said = "permissions.denny"
    done = CliRunner().invoke(app, ["allowlist", "lint", given])
    assert (done.exit_code, done.stdout.count("\n"), said in done.stdout) == (1, 1, True)
    done = CliRunner().invoke(app, ["allowlist", "convert", given, "--to", "toml"])
    assert f"not carried over: {said}: is not known: did you mean deny?" in done.stderr
    done = CliRunner().invoke(app, ["classify", "ls", "--allowlist", given])
    assert done.stderr == f"agenteval: {given}: {said}: is not known: did you mean deny?\n"
    assert done.stdout.startswith("allowed")
