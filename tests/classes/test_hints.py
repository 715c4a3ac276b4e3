"""What a hint proposes is allowed: under every shipped list, and under generated ones."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_hints import bash, count, followed

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.failure_class import DeniedCall, Seen, malformed, tool, typographic
from agenteval.classes.judge import Ways, deny, judge
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.command_lines import (
    Argument,
    CommandLine,
    CommandPattern,
    Kind,
    OneOf,
    PathRules,
)
from agenteval.policy.mismatch import examples
from agenteval.policy.policy import UNKNOWN_WORLD, Policy, ToolRule, World
from agenteval.policy.rules import BashRules, ScriptRule
from agenteval.shell.facts import ShellFacts
from agenteval.shell.gate import Span
from agenteval.trial.call import Denied, ToolCall

NAMES = sorted(path.stem for path in (shipped() / "allowlists").glob("*.toml"))
SHIPPED = {name: load_policy(name, roots=[shipped()]) for name in NAMES}
DEMO = SHIPPED["demo"]
CORPUS = (Path(__file__).parents[1] / "corpus" / "commands.txt").read_text(encoding="utf-8")


def hint(command: str, policy: Policy = DEMO, world: World = UNKNOWN_WORLD) -> str:
    verdict = judge(bash(command), policy, world)
    assert isinstance(verdict, Denied)
    return verdict.primary.hint


@pytest.mark.parametrize("name", NAMES)
def test_who_follows_a_hint_is_allowed_next(name: str) -> None:
    texts = CORPUS.removesuffix("\n").split("\n%%\n")
    found = count(texts, SHIPPED[name])
    assert found["over two lines"] == found["over 200 characters"] == 0
    if examples(SHIPPED[name], UNKNOWN_WORLD):
        assert found["allowed next"] >= 0.95 * found["denied"]
    else:
        assert found["allowed next"] == found["read"] > 0


RULES = ["git status", "git diff *", "ls", "cat data/*", "echo 'a`b'", "x* y", "du -sh *", "* z"]
SLIPS = [
    "{}",
    "{} | head",
    "cd x && {}",
    "timeout 5 {}",
    "{} > notes/x",
    "cat <<E >{}\nx\nE",
    "${}",
]
WORDS = [*RULES, "cat a.md", "sed -n 1,2p a.md", "git push", "tee notes/x", "date", "```", "'"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(RULES), max_size=4),
    st.sets(st.sampled_from(["bash", "read", "write"])),
    st.sampled_from(SLIPS),
    st.sampled_from(WORDS),
)
def test_a_hint_names_only_what_the_policy_has(
    rules: list[str], tools: set[str], slip: str, word: str
) -> None:
    policy = Policy(
        "p",
        bash=BashRules(CommandPattern.parse(rule) for rule in rules),
        read=PathRules(("**",)),
        write=PathRules(("notes/**",)),
        tools={name: ToolRule(name) for name in tools},
    )
    verdict = judge(bash(slip.replace("{}", word)), policy)
    for finding in verdict.findings:
        assert len(finding.hint.splitlines()) == 1
        assert len(finding.hint) <= 200
        told = followed(word, Denied((finding,)))
        if told:
            assert judge(told[1], policy).allowed
        assert "read" in tools or "read tool" not in finding.hint
        assert "write" in tools or "write tool" not in finding.hint


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("cat data/a.csv", "Read `data/a.csv` with the read tool."),
        ("head -n 5 /workspace/data/a.csv", "Read `data/a.csv` with the read tool."),
        ("tail -5 a.md | grep x", "Read `a.md` with the read tool."),
        ("sed -n '1,20p' a.md", "Read `a.md` with the read tool."),
        ("sed -e p a.md", "Read `a.md` with the read tool."),
        ("cd scripts && cat notes.py", "Read `scripts/notes.py` with the read tool."),
        ("cat < a.md", "Read `a.md` with the read tool."),
        ("grep -n x a.md", "Read `a.md` with the read tool."),
        ("wc -l a.md; rm a.md", "Read `a.md` with the read tool."),
        ("ls > out.md; cat a.md out.md", "Read `a.md` with the read tool."),
        ("ls | tee out.md; cat out.md", "Allowed are "),
        ("sed -i s/a/b/ a.md", "Allowed are "),
        ("sort -o x a.md", "Allowed are "),
        ("grep -rn x a.md", "Allowed are "),
        ("grep -n x src", "Allowed are "),
        ("grep -nC 5 'a.b(' a.md", "Read `a.md` with the read tool."),
        ("grep -ie a.b a.md", "Read `a.md` with the read tool."),
        ("sort -nrk 2,2 a.md", "Read `a.md` with the read tool."),
        ("sort +7 a.md", "Read `a.md` with the read tool."),
        ("nl -b a a.md", "Read `a.md` with the read tool."),
        ("nl -ba a.md", "Read `a.md` with the read tool."),
        ("head --lines=5 a.md", "Read `a.md` with the read tool."),
        ("head --lines 5 a.md", "Read `a.md` with the read tool."),
        ("tail --verbose a.md", "Read `a.md` with the read tool."),
        ("awk '{print}' OFS=, a.md", "Read `a.md` with the read tool."),
        ("jq --arg a b .x a.json", "Allowed are "),
        ("cut --delimiter ' ' -f 3", "Allowed are "),
        ("find . -name x -exec cat {} +", "Allowed are "),
        ("rg --files src/a.b", "Allowed are "),
        ("cd - && cat a.md", "Allowed are "),
        ("cd && cat a.md", "Allowed are "),
        ("cd $D && cat a.md", "Allowed are "),
        ("wc -l < $F", "Allowed are "),
        ("wc -l <&3", "Allowed are "),
        ("exec 3< <(date)", "Allowed are "),
        ("ls > $F", "Run one listed command alone and read its output. Allowed are "),
        ("x </ > x", "no file may be fed to a command. Allowed are "),
        ("for ((;;)); do ls; done", "Run one listed command alone, and decide between calls."),
        ("for x in a; do ls; done", "make one call for each value."),
        ("tail -f a.md", "Allowed are "),
        ("cat $F", "Allowed are "),
        ("cat rendered/x", "Allowed are "),
        ("cat ../x", "Allowed are "),
        ("cat 'a`b'", "Allowed are "),
        ("cat <a b>", "Allowed are "),
        ("python scripts/notes.py list", "Run `uv run scripts/notes.py list`."),
        ("uv run scripts/notes.py lst", "Run `uv run scripts/notes.py list`."),
        ("uv run scripts/notes.py list --limt=5", "Run `uv run scripts/notes.py list --limit=5`."),
        ("uv run scripts/note.py list", "Run `uv run scripts/notes.py list`."),
        ("uv run scripts/notes.py show", "Allowed is `uv run scripts/notes.py show NOTE`."),
        ("notes list", "Run `uv run scripts/notes.py list`."),
        ("sha256sum data/*.csv", "Allowed is `sha256sum data/papers.csv`."),
        ("```bash\ngit status\n```", "Run `git status`."),
        ('{"command": "git status"}', "Run `git status`."),
        ('{"name": "bash", "arguments": {"cmd": "git status"}}', "Run `git status`."),
        ('{"command": ["git", "status"]}', "Allowed are "),
        ('{"command": git}', "Allowed are "),
        ("git status</tool_call>", "Run `git status`."),
        ("uv run scripts/notes.py list \u2014limit 5", "Run `uv run scripts/notes.py list --lim"),
        ("uv run scripts/notes.py add \u201cbuy milk\u201d", 'notes.py add "buy milk"`.'),
        ("uv run scripts/notes.py\u00a0list", "Run `uv run scripts/notes.py list`."),
        ("git\u200b status", "Run `git status`."),
        ("timeout 5 git status", "a time limit is already kept. Run `git status` without"),
        ("sudo git status", "Run `git status` without anything before it."),
        ("git status > notes/x", "alone and read its output. Write `notes/x` with the write tool."),
        ("git status > x", "Run `git status` alone and read its output."),
        ("python -c x; git status", "Run `git status` alone, one command a call"),
        ("echo $(date -I)", "Run `date -I` in a call of its own"),
        ("uv run scripts/notes.py add 'a\nb' | wc", "scripts/notes.py add 'a\u2026` alone"),
    ],
)  # fmt: skip
def test_the_nearest_way_is_named(command: str, way: str) -> None:
    assert way in hint(command)


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("uv run scripts/notes.py add don't forget milk", "is `uv run scripts/notes.py add TEXT`."),
        ("uv run scripts/notes.py add buy (milk)", "is `uv run scripts/notes.py add TEXT`."),
        ("uv run scripts/notes.py add a'b --tag c", "is `uv run scripts/notes.py add TEXT`."),
        ("git status && uv run scripts/notes.py add don't", "closed. Run `git status` alone."),
        ("uv run scripts/notes.py add x; fi", "Run `uv run scripts/notes.py add x` alone."),
    ],
)  # fmt: skip
def test_what_a_syntax_error_cuts_off_is_not_proposed(command: str, way: str) -> None:
    assert way in hint(command)


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("echo milk | uv run scripts/notes.py add -", "is `uv run scripts/notes.py add TEXT`."),
        ("uv run scripts/notes.py add - <<< milk", "is `uv run scripts/notes.py add TEXT`."),
        ("uv run scripts/notes.py add - < a.md", "Read `a.md` with the read tool."),
        ("uv run scripts/notes.py add - 2>&1", "Run `uv run scripts/notes.py add -` alone"),
        ("ls | xargs -I{} uv run scripts/notes.py show {}", "is `uv run scripts/notes.py show N"),
        ("find . -exec uv run scripts/notes.py show {} +", "Allowed is `uv run scripts/notes.py s"),
        ("find . -exec git status ';'", "Run `git status` alone"),
        ("true || uv run scripts/notes.py add x", "one command a call; every call starts in the"),
        ("false && git status && date -I || git log --oneline", "Run `git log --oneline` alone"),
        (": || timeout 5 git status; date -I", "Run `date -I` alone"),
        ("ls || git status", "Run `git status` alone"),
    ],
)  # fmt: skip
def test_what_something_else_feeds_or_that_never_runs_is_not_proposed(
    command: str, way: str
) -> None:
    assert way in hint(command)


ADDED = "Read `notes/x` with the read tool and write it whole, with what is added."


@pytest.mark.parametrize("command", ["ls >> notes/x", "ls | tee -a notes/x", "tee --app notes/x"])
def test_what_is_added_to_a_file_does_not_replace_it(command: str) -> None:
    assert ADDED in hint(command)
    there = World(frozenset({"notes/x"}))
    assert ADDED in hint(command, world=there)
    assert ADDED in hint(command, world=World(frozenset(), written=there.files or frozenset()))
    assert "Write `notes/x` with the write tool." in hint(command, world=World(frozenset()))
    closed = replace(DEMO, read=PathRules(()))
    assert "The write tool can only replace that file as a whole." in hint(command, closed)


def test_what_was_written_anew_may_be_added_to() -> None:
    assert "Write `notes/x` with the" in hint("ls > notes/x; ls >> notes/x")


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("cd data && head -5 < a.csv", "Read `data/a.csv` with"),
        ("cd /etc && head -5 < a.csv", "Allowed are "),
        ("cd /tmp && ls > notes/x", "Allowed are "),
        ("cd notes && ls > x", "Write `notes/x` with"),
        ("cd notes && write x.md", "Write `notes/x.md` with"),
        ("cd scripts && tee notes/x <<< hi", "Allowed are "),
        ("cd notes; tee x <<< hi", "Write `notes/x` with"),
        ("(cd data && ls); cat a.md", "Read `a.md` with"),
        ("(cd data; cat a.md)", "Read `data/a.md` with"),
        ("{ cd data; }; cat a.md", "Read `data/a.md` with"),
        ("ls $(cd data; ls); cat a.md", "Read `a.md` with"),
        ("cd data | cat a.md", "Read `a.md` with"),
        ("bash -c 'cd data'; cat a.md", "Read `a.md` with"),
        ("bash -c 'cd data && cat a.md'", "Read `data/a.md` with"),
        ("bash -c 'cd data || cat a.md'", "Allowed are "),
        ('bash -c "cd \\"data\\"; cat a.md"', "Allowed are "),
        ("cd data 2>&1 || cat a.md", "Read `a.md` with"),
        ("cd data && ls || cat a.md", "Allowed are "),
        ("cd data || exit; cat a.md", "Read `data/a.md` with"),
        ("ls || cd data; cat a.md", "Allowed are "),
        ("cd data & cat a.md", "Allowed are "),
        ("if ls; then cd data; fi; cat a.md", "Allowed are "),
        ("(cd data; cat) < a.md", "Allowed are "),
        ("cat a.md; cd data; cat b.md", "Read `a.md` with"),
        (f"cd data; echo {'x' * 5000}; cat a.md", "Allowed are "),
    ],
)
def test_a_path_lies_where_its_command_runs(command: str, way: str) -> None:
    assert way in hint(command)


OPEN = """
[bash]
allow = ["ls *", "cd *", "cat *", "git commit *", "curl *"]
constructs = ["heredoc", "command-substitution"]
"""


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("curl -s http://h/a?b=1&c=2", "Run `curl -s 'http://h/a?b=1&c=2'`."),
        ("curl http://h/a?b=1&c -i", "Run `curl 'http://h/a?b=1&c' -i`."),
        ("curl http://h/a?b=1 & ls", "Run `curl http://h/a?b=1` alone and wait for its result."),
        ("ls\r\n", "Run `ls`."),
        ("% ls", "Run `ls`."),
        ('["bash", "-lc", "ls"]', "Run `ls`."),
        ("cd src && ls", "Run `ls` alone, one command a call; every call starts in the workspace."),
        ("git commit -m \"$(cat <<'E'\na\nE\n)\"", "Allowed are `ls`, "),
        ("cat <<E\nb\n  E", "no line is E alone, where the here-document would end."),
        ("cat <<A <<B\nb\nA", "no line is B alone, where the here-document would end."),
        ("cat <<E 'a\nb'\nE", "with every word written out in plain or single-quoted text."),
        ("cat <<'E F'\nb\nE F", "Run one listed command alone and give the text"),
    ],
)
def test_a_hint_of_a_command_line_is_of_use(tmp_path: Path, command: str, way: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(OPEN)
    assert way in hint(command, load_policy(str(path), roots=[]))


@pytest.mark.parametrize(("length", "mended"), [(1000, True), (1001, False)])
def test_a_call_is_mended_that_can_be_short_then(length: int, *, mended: bool) -> None:
    blanks = "\u200b" * (length - len("git status"))
    assert ("Run `git status`." in hint(f"git{blanks} status")) is mended


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["\u201c", "\u2014b "])
def test_a_call_too_long_to_be_shown_is_not_mended(unit: str) -> None:
    """It took minutes: each character was looked for from the start."""
    assert "Allowed are" in hint("a " + unit * (90_000 // len(unit)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\\\" + '"\u2014" \u201cx', (6, 7)),
        ("it\\'s \u201cx", (6, 7)),
        ("'\\'\u201cx'", (3, 4)),
        ('"\\"\u201c" x', None),
        ('"\u201cx', (1, 2)),
        ("'\u201cx'", None),
    ],
)
def test_what_stands_in_quotes_is_meant_so(text: str, found: tuple[int, int] | None) -> None:
    assert typographic(text) == found


@pytest.mark.timeout(60)
def test_escaped_quotes_are_not_looked_behind() -> None:
    """It took minutes: each began a quote that nothing closes."""
    assert typographic('\\"' * 200_000 + "\u201c") == (400_000, 400_001)


def test_an_example_has_what_is_required_and_no_more() -> None:
    line = CommandLine.of(
        [
            Argument("--all", Kind.FLAG, required=True),
            Argument("--size", Kind.INT, required=True),
            Argument("--more"),
            Argument("--this"),
        ],
        (Argument("name"), Argument("rest", fewest=0, most=None)),
        groups=[OneOf(("--this", "--more"), required=True), OneOf(("--all", "--more"))],
    )
    rules = BashRules(scripts=[ScriptRule("x.py", ("python3",), line)])
    policy = Policy("one", bash=rules, tools={"bash": ToolRule("bash")})
    (found,) = examples(policy, UNKNOWN_WORLD)
    assert found.text == "python3 x.py --all --size 1 --this THIS NAME"


PIPES = """
[bash]
allow = ["git status", "head *", "grep *", "tee *", "tr *", "echo *", "sort *", "python3", "time *"]
through = ["timeout"]
constructs = ["pipe", "chain"]
[read]
allow = ["**"]
"""


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("make | head -5", "make is not listed. Allowed are `git status`, "),
        ("make | grep x | tr a b", "make is not listed. Allowed are `git status`, "),
        ("make | tee log.txt", "make is not listed. Allowed are `git status`, "),
        ("make | sort a.txt", "make is not listed. Run `sort a.txt` alone."),
        ("awk 1 a.txt | sort", "awk is not listed. Read `a.txt` with the read tool."),
        ("head -c 9 < a.txt", "no file may be fed to a command. Read `a.txt` with the read tool."),
        ("make; grep -rn x . < a", "no file may be fed to a command. Read `a` with the read tool."),
        ("make; grep -rn x .", "make is not listed. Run `grep -rn x .` alone."),
        ("make | python3", "make is not listed. Allowed are `git status`, "),
        ("ls | tee $LOG", "Write every value out, in single quotes: no variables. Allowed are "),
        ("make | tee >(sort a)", "Run `sort a` alone; compare what it prints yourself."),
        ("make | timeout 5 git status", "make is not listed. Run `timeout 5 git status` alone."),
        ("make && echo done", "make is not listed. Allowed are `git status`, "),
        ("echo x; make; git status", "make is not listed. Run `git status` alone."),
        ("nice echo x", "Run `echo x` without anything before it."),
        ("time git status", "Run `git status` without anything before it."),
    ],
)
def test_what_does_nothing_alone_is_not_proposed(tmp_path: Path, command: str, way: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(PIPES, encoding="utf-8")
    assert hint(command, load_policy(str(path), roots=[shipped()])).startswith(way)


def test_what_has_two_readings_is_not_proposed_again() -> None:
    verdict = deny(bash("git status"), DEMO, objection="bashlex reads: git, status x")
    assert verdict.primary.hint.startswith("bashlex reads: git, status x. Allowed are ")


def test_a_read_tool_gets_an_example_where_bash_may_run_nothing() -> None:
    world = World(frozenset({"a.md", "b.md"}))
    assert hint("ls", SHIPPED["plain"], world) == (
        "ls is not listed. Read `a.md` with the read tool: bash may run nothing here."
    )
    assert hint("ls", SHIPPED["plain"]) == (
        "ls is not listed. No call of bash is known to be allowed: use read."
    )
    nothing = Policy("none", tools={"bash": ToolRule("bash")})
    assert hint("ls", nothing) == "ls is not listed. No call of bash is known to be allowed."


def test_a_long_way_to_write_is_left_to_the_next_call() -> None:
    long = "notes/" + "x" * 80
    command = f"uv run scripts/notes.py add '{'y' * 60}' > {long}"
    assert hint(command).endswith("alone and read its output.")


def test_a_tool_called_by_a_script_s_name_is_answered_with_a_whole_call() -> None:
    found = judge(ToolCall("", "emit_guidance", "{}", {}), DEMO).primary
    assert found
    assert found.hint == (
        "emit_guidance is no tool of its own. "
        "Allowed is `uv run scripts/ralf.py emit-guidance --text TEXT`."
    )


def test_every_example_is_allowed_and_long_ones_are_shown_whole() -> None:
    for policy in SHIPPED.values():
        for each in examples(policy, UNKNOWN_WORLD):
            assert judge(bash(each.text), policy).allowed
    word = "x" * 90
    policy = Policy(
        "long",
        bash=BashRules([CommandPattern.parse(f"a {word}")]),
        tools={"bash": ToolRule("bash")},
    )
    assert hint("ls", policy) == f"ls is not listed. Allowed is `a {word}`."


def test_a_hint_does_not_propose_what_was_sent() -> None:
    """A list may name what lies outside the workspace, where nothing is allowed."""
    policy = Policy(
        "p",
        "",
        bash=BashRules(scripts=[ScriptRule("/abs/a.py", ("uv", "run"), CommandLine.of([]))]),
        read=PathRules(("/etc/**",)),
        tools={"bash": ToolRule("bash"), "read": ToolRule("read")},
    )
    said = judge(ToolCall("", "read", "", {"path": "/etc/hosts"}), policy)
    assert isinstance(said, Denied)
    assert "it lies outside the workspace" in said.primary.hint
    assert "/etc/**" not in said.primary.hint
    assert "no script outside the workspace may run" in hint("uv run /abs/a.py", policy)


_CALLS = [tool("webfetch", url="https://x.org"), tool("monitor", other=1), tool("skill", skill="x")]
_CALLS += [malformed("bash", "{"), tool("bash", command=""), *map(bash, ["{a,b}", "ls &", "$x"])]


@pytest.mark.parametrize(
    "policy", [DEMO, Policy("nothing"), Policy("a", tools={"skill": ToolRule("skill")})]
)
def test_no_hint_of_any_class_has_an_unfilled_place(policy: Policy) -> None:
    calls = [*_CALLS, *(call for each in failure_classes() for call in each.bad)]
    hints = [finding.hint for call in calls for finding in deny(call, policy).findings]
    for each in failure_classes():
        for call in _CALLS:
            known = (call, call.raw, policy, UNKNOWN_WORLD, ShellFacts(""), (), {}, False)
            hints.append(Ways(DeniedCall(*known)).hint(each, Seen(Span(0, 0, ""))))
    assert [hint for hint in hints if re.search(r"\{[a-z]+\}", hint.replace("{a,b}", ""))] == []
