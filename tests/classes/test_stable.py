"""A command keeps its class under a rule, name, blank or comment that has nothing to do with it."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from agenteval.classes.judge import judge
from agenteval.config.allowlists import convert, load_policy, policy
from agenteval.config.files import shipped
from agenteval.policy.command_lines import CommandPattern
from agenteval.policy.policy import Policy
from agenteval.policy.rules import BashRules
from agenteval.trial.call import Finding, ToolCall

DEMO = load_policy("demo", roots=[shipped()])
LIST = (shipped() / "allowlists" / "demo.toml").read_text(encoding="utf-8")
CORPUS = (Path(__file__).parents[1] / "corpus" / "commands.txt").read_text(encoding="utf-8")
ODD = [
    "echo $(($x + 1))",
    'dig +short "$domain"',
    'find . -exec sh -c \'mv "$@" "$0"\' x {} +',
    "cat<(echo hello)",
    'ssh "$USER@$SERVER" "$cmd_str"',
    "xargs -L1 awk 'NR>1{exit}'",
    'for f in *; do node "$f"; done',
    "git log $A; zz $B",
    "ls ;",
    "uv run scripts/notes.py list; ",
]
TEXTS = [*CORPUS.removesuffix("\n").split("\n%%\n"), *ODD]


def found(text: str, rules: Policy) -> list[Finding]:
    return list(judge(ToolCall("", "bash", text, {"command": text}), rules).findings)


def classes(text: str, rules: Policy) -> list[str]:
    return [each.failure_class for each in found(text, rules)]


def demo(
    *more: str, scripts: bool = True, denied: tuple[str, ...] = (), through: tuple[str, ...] = ()
) -> Policy:
    own = DEMO.bash
    patterns = [*own.patterns, *map(CommandPattern.parse, more)]
    rules = BashRules(
        patterns,
        own.scripts if scripts else (),
        own.constructs,
        own.env,
        map(CommandPattern.parse, denied),
        through,
    )
    return replace(DEMO, bash=rules)


@pytest.mark.parametrize(
    "other",
    [
        demo("qqq-tool *"),
        demo("qqq* x"),
        demo(denied=("qqq *",)),
        demo(denied=("qqq push *", "qqqq")),
        demo(through=("setsid",)),
    ],
    ids=["program", "any program", "denied", "two denied", "through"],
)
def test_a_rule_about_something_else_changes_no_class(other: Policy) -> None:
    for text in TEXTS:
        assert [(f.failure_class, f.evidence) for f in found(text, other)] == [
            (f.failure_class, f.evidence) for f in found(text, DEMO)
        ], text


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (" ", ""),
        ("\t", " "),
        ("", "\n"),
        ("", " # so"),
        ("", "  #"),
        ("", "\n# so"),
        ("# so\n", ""),
    ],
)
def test_blanks_and_a_comment_around_it_change_no_class(before: str, behind: str) -> None:
    for text in TEXTS:
        if not text.strip() or "#" in text or "<<" in text or text.endswith(("\\", "\r")):
            continue  # a comment is no comment there, or is part of it
        if classes(text, DEMO)[:1] in (["shell-syntax-error"], ["template-residue"]):
            continue
        assert classes(before + text + behind, DEMO) == classes(text, DEMO), text


def test_another_name_of_a_script_in_list_and_command_changes_no_class() -> None:
    renamed = LIST.replace("scripts/notes.py", "scripts/quips.py")
    other = policy(convert("demo", tomllib.loads(renamed)), name="demo", where="demo")
    for text in TEXTS:
        if "notes" in text.replace("scripts/notes.py", ""):
            continue  # it means another thing by that name
        assert classes(text.replace("scripts/notes.py", "scripts/quips.py"), other) == classes(
            text, DEMO
        ), text


def test_a_policy_that_denies_nothing_judges_what_wraps_unreadable_text() -> None:
    assert classes("xargs sh -c 'ls `'", demo("* qqq"))[:1] == ["nested-shell"]
