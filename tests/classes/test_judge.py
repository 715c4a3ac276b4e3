"""What always holds of verdicts, whatever a model writes."""

from pathlib import Path

import pytest
from clocks import processor_seconds, steps
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.judge import deny, judge, judge_many
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.command_lines import CommandPattern, PathRules
from agenteval.policy.policy import Policy, ToolRule, World, allows
from agenteval.policy.rules import BashRules
from agenteval.shell.leaves import Construct
from agenteval.trial.call import ToolCall

DEMO = load_policy("demo", roots=[shipped()])
IDS = {each.id for each in failure_classes()}
PLAIN = """
uv run scripts/notes.py list git status ls rm echo x timeout 5 ' " \\ $ ` $( ) ( { } | || && & ; > <
<<EOF EOF 2>&1 # * ~ = A=1 for do done if \x1b \ud800 日本 \u202e \U000aa0e0 --limit -c python
eval ! [[
"""
FRAGMENTS = st.sampled_from([*PLAIN.split(), " ", "\t", "\n", "\r", "\0", "bash -c"])
TEXTS = st.one_of(
    st.lists(FRAGMENTS, max_size=12).map(" ".join),
    st.lists(FRAGMENTS, max_size=12).map("".join),
    st.text(st.characters(codec=None, exclude_categories=[]), max_size=60),
)


def bash(command: str) -> ToolCall:
    return ToolCall("", "bash", command, {"command": command})


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("\\ <<EOF")
def test_any_text_gets_a_verdict_and_a_denied_one_exactly_one_primary_class(text: str) -> None:
    verdict = judge(bash(text), DEMO)
    assert verdict.allowed == allows(bash(text), DEMO)
    if not verdict.allowed:
        found = [finding.failure_class for finding in verdict.findings]
        assert found
        assert len(set(found)) == len(found)
        assert IDS.issuperset(found)
    for finding in verdict.findings:
        evidence = finding.evidence
        assert text[evidence.start : evidence.end] == evidence.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.none() | st.dictionaries(
    st.sampled_from(["command", "path", "filePath", "content", "items", "x"]), JSON, max_size=4
)
NAMES = (
    st.sampled_from(["bash", "read", "write", "todo", "Bash", "web_search", "", "ralf"]) | st.text()
)


@settings(max_examples=200, deadline=None)
@given(NAMES, st.text(max_size=30), ARGUMENTS)
def test_any_call_gets_a_verdict(name: str, raw: str, arguments: dict[str, object] | None) -> None:
    call = ToolCall("", name, raw, arguments)
    assert judge(call, DEMO).allowed == allows(call, DEMO)


@settings(max_examples=400, deadline=None)
@given(
    TEXTS.filter(lambda text: not text.startswith("-") and "\0" not in text and text.isprintable())
)
def test_any_text_in_single_quotes_is_allowed_as_an_argument(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    assert judge(bash(f"uv run scripts/notes.py add {quoted}"), DEMO).allowed


OPERATORS = (
    "| || && ; & > >> < 2>&1 <<EOF <<< $(x) `x` ( ) { } # * ? ~ ! [[ $x ${x} A=1 if for &> \\"
)


@pytest.mark.parametrize("operator", [*OPERATORS.split(), "\n"])
@pytest.mark.parametrize("quote", ["'{}'", "'a {} b'", '"{}"'])
def test_quoting_an_operator_never_makes_a_call_denied(operator: str, quote: str) -> None:
    if quote.startswith('"'):
        operator = "".join(f"\\{c}" if c in '\\"$`' else c for c in operator)
    for start in ("uv run scripts/notes.py add ", "uv run scripts/db_query.py --sql "):
        assert judge(bash(start + quote.format(operator)), DEMO).allowed


RULES = ["git *", "ls", "uv run *", "uv run scripts/notes.py *", "echo *", "rm -rf *", "x", "* x"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(RULES), max_size=4), st.sampled_from(RULES), TEXTS)
def test_adding_a_rule_never_denies_more(rules: list[str], added: str, text: str) -> None:
    def policy(texts: list[str]) -> Policy:
        return Policy(
            "p",
            bash=BashRules(CommandPattern.parse(rule) for rule in texts),
            tools={"bash": ToolRule("bash")},
        )

    if allows(bash(text), policy(rules)):
        assert allows(bash(text), policy([*rules, added]))


def test_an_objection_denies_what_the_policy_allows() -> None:
    call = bash("git status")
    assert judge(call, DEMO).allowed
    verdict = deny(call, DEMO, objection="bashlex reads: git, status x")
    assert [finding.failure_class for finding in verdict.findings] == ["ambiguous-shell"]
    assert verdict.findings[0].hint.startswith("bashlex reads: git, status x. Allowed are ")


def test_a_script_that_no_world_has_is_hallucinated_and_one_that_has_it_unlisted() -> None:
    call = bash("uv run scripts/new.py")
    world = World(frozenset({"scripts/new.py"}))
    nowhere = Policy("p", tools={"bash": ToolRule("bash")})
    assert primary(call, DEMO) == "hallucinated-script"
    assert primary(call, DEMO, world) == "unlisted-script"
    assert primary(call, nowhere) == "unlisted-script"


def primary(call: ToolCall, policy: Policy, world: World | None = None) -> str:
    found = judge(call, policy, world or World()).primary
    return found.failure_class if found else "allowed"


def test_a_construct_that_the_policy_names_is_no_failure_class() -> None:
    policy = of_ls(Construct.PIPE, Construct.STDERR_REDIRECT)
    found = [each.failure_class for each in judge(bash("ls 2>&1 | head && ls"), policy).findings]
    assert found == ["shell-chain", "bare-binary"]


def of_ls(*constructs: Construct) -> Policy:
    rules = BashRules([CommandPattern.parse("ls")], constructs=constructs)
    return Policy("p", bash=rules, tools={"bash": ToolRule("bash")})


@pytest.mark.parametrize(
    ("command", "facet"),
    [
        ("cd x && git status", "cd"),
        ("git status || true", "fallback"),
        ("git status; git status", "list"),
        ("curl x", "network"),
        ("rm x", "destructive"),
        ("ls", "read-only"),
        ("find . -delete", "destructive"),
        ("find . -name x", "read-only"),
        ("git push", "network"),
        ("git branch", "rule"),
        ("git diff", "read-only"),
        ("git status | head", "script-listed"),
        ("ls | head", "rule-stated"),
        ("ls | xargs rm", "destructive"),
        ("cd x && curl y", "network"),
        ("bash -c 'rm -rf x'", "destructive"),
        ("timeout 5 rm x", "destructive"),
        ('uv run scripts/notes.py add "$(curl x)"', "network"),
        ("echo hi", "no-op"),
        ("true", "no-op"),
        ("python3 - <<'E'\nx\nE", "into-interpreter"),
        ("cat <<'E' | uv run python\nx\nE", "into-interpreter"),
        ("cat <<'E' | uv run scripts/notes.py add -\nx\nE", "into-listed"),
        ("wc <<'E'\nx\nE", "into-program"),
        ("for x in y; do ls; done <<'E'\nx\nE", "into-program"),
        ("cat <<'E'\nx\nE", "into-program"),
        ("<<'E'\nx\nE", "into-program"),
    ],
)
def test_facets_tell_kinds_apart(command: str, facet: str) -> None:
    found = judge(bash(command), DEMO).primary
    assert found
    assert (facet in found.facets) == (facet != "rule")


@pytest.mark.parametrize("root", ["/workspace", "/home/me/x"])
def test_what_a_here_document_feeds_is_listed_wherever_the_workspace_is(root: str) -> None:
    call = bash(f"cat <<'E' | uv run {root}/scripts/notes.py add -\nx\nE")
    found = judge(call, DEMO, World(root=root)).primary
    assert found
    assert "into-listed" in found.facets


@pytest.mark.parametrize(
    ("command", "first", "hint"),
    [
        ("cat <<'E' >notes/f\nx\nE", "heredoc-to-file", "Write `notes/f` with the write tool."),
        ("tee notes/f <<'E'\nx\nE", "heredoc-to-file", "Write `notes/f` with the write tool."),
        (
            "cat <<'E' >f\nx\nE",
            "heredoc-to-file",
            "the write tool is open to notes/** only. Allowed",
        ),
        ("ls > f", "file-redirect", "the write tool is open to notes/** only. Allowed are"),
        ("ls < ../f", "file-redirect", "no file may be fed to a command. Allowed"),
        ("while true; do ls; done", "control-flow", "Run one listed command alone, and decide"),
        ("python3 x.py", "hallucinated-script", "x.py does not exist. Allowed is `python3"),
        ("read notes/x", "tool-as-command", "read is a tool: call it by itself. Read `notes/x`"),
        (
            "write notes/x y",
            "tool-as-command",
            "write is a tool: call it by itself. Write `no",
        ),
        ("ls; read x", "shell-chain", "Run one listed command alone, one command a call"),
        ("read -r x", "bare-binary", "read is not listed. Allowed are"),
        ("read", "bare-binary", "read is not listed. Allowed are"),
        ("bash", "bare-binary", "bash is not listed. Allowed are"),
        ("ls; wc <<'E' >f\nx\nE", "heredoc", "Run one listed command alone and give the text"),
        ("while read x; do ls; done <<< y", "heredoc", "Run one listed command alone and give"),
        ("cat <f <<< x", "heredoc", "Read `f` with the read tool."),
        ("A=1; timeout 5 ls", "shell-chain", "Run one listed command alone"),
        ("git log $A; echo $B", "shell-chain", "Run one listed command alone"),
        ("echo $B", "bare-binary", "echo is not listed. Allowed are `git status`"),
        ("choco install x", "bare-binary", "choco is not listed. Allowed are `git status`"),
        ("git log $A", "bad-arguments", "quote $A or write it out"),
        ("bun install", "bare-binary", "bun is not listed. Allowed are `git status`"),
        ('for f in *; do node "$f"; done', "control-flow", "make one call for each value."),
        ("if true; then git status; fi", "control-flow", "Run `git status` alone, and decide"),
        ("git log <a b>", "shell-syntax-error", "write a value in place of <a b>: bash"),
    ],
)
def test_a_hint_is_about_what_the_command_does(command: str, first: str, hint: str) -> None:
    found = judge(bash(command), DEMO).primary
    assert found
    assert (found.failure_class, found.hint[: len(hint)]) == (first, hint)


def test_a_large_input_is_judged_in_time_linear_in_its_length() -> None:
    for text in (
        "ls " + "x " * 50_000,
        "ls | " * 20_000 + "ls",
        "$(" * 5_000,
        "'" * 99_999,
        "a\n" * 50_000,
    ):
        assert not judge(bash(text), DEMO).allowed


def test_repeats_get_the_verdict_that_the_first_got() -> None:
    judged = judge_many(DEMO, distinct=2)
    calls = [bash("git status"), bash("ls"), bash("git status"), bash("ls " + "x" * 5000)]
    calls.append(ToolCall("", "read", "{}", {"path": "/etc/passwd"}))
    assert [judged(call) for call in calls] == [judge(call, DEMO) for call in calls]
    assert judged(calls[1]) is judged(calls[1])
    assert judged(calls[3]) is not judged(calls[3])
    first = judged(calls[0])
    assert judged(bash("pwd")) == judge(bash("pwd"), DEMO)  # one more than are kept
    assert judged(calls[0]) == first


def test_a_repeat_with_another_folder_is_judged_anew() -> None:
    judged = judge_many(DEMO)
    judged(bash("git status"))
    elsewhere = {"command": "git status", "workdir": "/tmp"}
    assert not judged(ToolCall("", "bash", "", elsewhere)).allowed


@pytest.mark.parametrize(
    "text", ["{\U000aa0e0", "${\U000485a6{{\U000fb9ec", "echo {😀..😎}", "{\U0010ffff"]
)
def test_a_character_that_the_parser_has_no_table_for_does_no_harm(text: str) -> None:
    for _ in range(200):
        assert not judge(bash(text), DEMO).allowed


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("find . -exec sh -c 'rm x' +", "nested-shell"),
        ("timeout 5 bash -c 'ls'", "wrapper-prefix"),
        ("python3 x.py", "hallucinated-script"),
        ("uv run python -c x", "inline-code"),
        ("bash -c 'ls | head'", "nested-shell"),
        ("env python -c x", "wrapper-prefix"),
        ("ssh host rm x", "bare-binary"),
        ('node "$f"', "unlisted-script"),  # only bash knows its name: it may be there
        ('uv run scripts/notes.py add "$(ls | head)"', "command-substitution"),
    ],
)
def test_what_a_command_holds_is_seen_without_operators_too(command: str, first: str) -> None:
    assert primary(bash(command), DEMO) == first


@pytest.mark.parametrize(
    "command",
    ["uv run scripts/notes.py show $(ls; pwd)", "for f in a b; do ls $f; pwd; done"],
)
def test_a_chain_inside_something_else_is_not_a_chain_of_the_call(command: str) -> None:
    findings = judge(bash(command), DEMO).findings
    assert "shell-chain" not in [finding.failure_class for finding in findings]


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("while read x; do ls; done {fd}<f", "control-flow"),
        ("for ((;;)); do ls; done {fd}>f", "control-flow"),
        ("case $x in [!]abc]) ls;; esac", "control-flow"),
        ("case $x in []abc]) ls;; esac", "control-flow"),
        ("for ((i=1; i&0xFF; i++)); do ls; done", "control-flow"),
        ("case x in (a) ls;; b) pwd;& esac", "control-flow"),
        ("{ ls; } {fd}>log", "subshell"),
        ("arr=(a b) > /dev/null", "file-redirect"),
        ("time -p -- for x in a b; do ls; done", "control-flow"),
        ("time ! { ls; }", "subshell"),
        ("coproc X { while true; do ls; done }", "control-flow"),
        ("git log $[[1+2]*3]", "bad-arguments"),
        ("{ls,-l}", "bare-binary"),
        ("cat <<A <<B\nx", "heredoc"),
        ("A=1 > f", "file-redirect"),
        ("echo a\\", "bare-binary"),
        ("x=1 fi", "env-assignment"),
        (">f fi", "file-redirect"),
        ("'fi'", "bare-binary"),
        ("timeout 5 done", "wrapper-prefix"),
        ("echo $(   )", "command-substitution"),
        ("x=$()", "command-substitution"),
        ("cat <( # why\n)", "process-substitution"),
        ('git log "$(())" $(( ))', "bad-arguments"),
        ('git status "a``b"', "command-substitution"),
        ("uv run scripts/notes.py add ``", "command-substitution"),
        ("git log $((16#$x + 0x${y}))", "bad-arguments"),
        ("git log ${x:-a;b}", "bad-arguments"),
        ("cat <<''\nit's\n\nls", "heredoc"),
        ('cat <<-""\n(', "heredoc"),
        ("{ cat <<EOF; }\n'\nEOF", "heredoc"),
        ("cat <<'E!' | ls\nx <<-a/b", "heredoc"),
        ("for x in a; do cat <<-'E1'; done\n'\n\tE1\nls", "heredoc"),
        ("cat <<EOF\n\\$x \\\\ \\$(a) $(b) \\${c}\nEOF", "heredoc"),
        ("{(echo foo)}", "subshell"),
        ("{ (ls); ((1)) }", "shell-chain"),
        ("[a-z][3-9]", "bare-binary"),
        ("f() for i in a b; do ls; done", "control-flow"),
        ("function f.x case $1 in a) ls;; esac", "control-flow"),
        ("function g ( )\nuntil true; do ls; done", "control-flow"),
        ("echo ` `", "command-substitution"),
        ('git show "${ages[$who:$when]:-}"', "bad-arguments"),
        ("if [[ $f == *.@(py|js) && $g != --?(a|b{1,2}) ]]; then ls; fi", "control-flow"),
        ("echo `a` ` ` `b \\`c\\``", "command-substitution"),
        ("wc `ls | grep .md$`", "command-substitution"),
        ("!", "control-flow"),
        ("ls\n! ; ls", "shell-chain"),
        ("if ! { ls; }; then ls; fi; while :; do if a; then b; fi done", "shell-chain"),
        ("for d in *; do (cd $d; ls) done", "control-flow"),
        ("cat <<\\E", "heredoc"),
        ("cat <<'E' >f\nit's", "heredoc-to-file"),
        ('python3 -c "print(f\'${row[\\"a\\"].sum():.2f}\')"', "inline-code"),
        ('git show "${x[@]:2:5@Q}"', "bad-arguments"),
        ("cd \\\\host$\\home", "bare-binary"),
        ('[ "$n" -eq|ne 3 ]', "pipe"),
        ("((a) )", "subshell"),
        ("$((1++2))", "bare-binary"),
        ("echo $((a--b))", "bare-binary"),
        ("for x in; do ls; done", "control-flow"),
        ("for x in ; do ls; done # so", "control-flow"),
        ("r[m] x", "bare-binary"),
        ("arr=(a b) > f # so", "file-redirect"),
        ("cat << 'E F'\nit's\nE F", "heredoc"),
        ("{\n  a: [{\n    b\n  }]\n}", "shell-chain"),
    ],
)
def test_what_bash_can_parse_is_no_syntax_error(command: str, first: str) -> None:
    found = [each.failure_class for each in judge(bash(command), DEMO).findings]
    assert found[0] == first
    assert "shell-syntax-error" not in found


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("echo 'a", "' is never closed"),
        ("echo 'b' \"a", '" is never closed'),
        ("echo `ls", "a backquote is never closed"),
        ("ls )", ") closes nothing"),
        ("ls; fi", "fi closes nothing"),
        ("echo $(ls", "$( is never closed by )"),
        ("(ls; { ls; )", "{ is never closed by }"),
        ("if ls; then echo fi", "if is never closed by fi"),
        ("if ls; then for x in a; do ls; fi", "do is never closed by done"),
        ("case x in (a) ls;; b) ls", "case is never closed by esac"),
        ("[[ a", "[[ is never closed by ]]"),
        ("cat <<'E' | (ls\n}'\nE\n", "( is never closed by )"),
        ("ls # 'a\n)", ") closes nothing"),
        ("ls &&", "Close every quote and bracket"),
    ],
)
def test_the_hint_of_a_syntax_error_names_what_is_open(command: str, hint: str) -> None:
    found = judge(bash(command), DEMO).primary
    assert found
    assert (found.failure_class, found.hint[: len(hint)]) == ("shell-syntax-error", hint)


@pytest.mark.parametrize(
    "command",
    [
        *("echo <>", "A=1 >", "(ls; }", "fi >f", "while :; do ls; done | fi", "ls ;& x"),
        *("{(ls}", "f() for i in a; ls; done", "cat <<''; )\n\n", "cat <<E; )\nE", "echo $(( )"),
        *("$(; )", "if a; then b; fi \\\n  done", '{ "a": { "b": 5 } }', "f() { }", "done " * 9999),
        *("cat <<'E' >\nf\nx\nE", "for x in a; do\n  # nothing yet\ndone", "ls *.@(py|js)"),
        "uv run scripts/notes.py show <note>\nuv run scripts/notes.py list",
        'uv run scripts/notes.py list\nuv run scripts/notes.py add "milk',
    ],
)
def test_what_bash_cannot_parse_is_a_syntax_error_however_it_is_mended(command: str) -> None:
    assert primary(bash(command), DEMO) == "shell-syntax-error"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("exec 3<>f", "3<>f"),
        ("{ ls; } {log}>f 2>g", "{ ls; }"),
        ("cat <<EOF\nx", "<<EOF"),
        ("uv run scripts/notes.py add a\\", "\\"),
        ("! git status", "!"),
        ("echo `ls`; git status", ";"),
        ("echo ${x:-`ls`}", "${x:-`ls`}"),
        ("git log <branch>", "<branch>"),
        ("cd <a b> # where", "<a b>"),
        ("git log 'a'\ngit show \"b c", '"b c'),
        ("git log '<a>' \"b", '"b'),
        ("git status |", "|"),
        ("echo $(git status", "(git status"),
        ("[Note: a] b", "[Note:"),
        ("A=1 <E cat <<'E' >f\nit's", "<<'E'"),
    ],
)
def test_what_is_shown_is_the_text_as_the_model_wrote_it(command: str, shown: str) -> None:
    found = judge(bash(command), DEMO).primary
    assert found
    start, end, text = found.evidence
    assert (text, command[start:end]) == (shown, shown)


@pytest.mark.parametrize("command", ['a | b | c)m g "x"', ";;<Qa[$1]%=", "cat <<'EOF' > tes"])
@pytest.mark.parametrize("constructs", [(), tuple(Construct)])
def test_every_finding_shows_something(command: str, constructs: tuple[Construct, ...]) -> None:
    rules = BashRules([CommandPattern.parse("cat *")], constructs=constructs)
    anywhere, tools = PathRules(("**",)), {"bash": ToolRule("bash")}
    policy = Policy("p", bash=rules, read=anywhere, write=anywhere, tools=tools)
    shown = [finding.evidence.text for finding in judge(bash(command), policy).findings]
    assert all(shown)
    assert shown


def test_a_last_semicolon_is_no_chain_where_the_policy_splits_commands() -> None:
    policy = of_ls(Construct.PIPE)
    assert primary(bash("ls ;"), policy) == "allowed"
    assert primary(bash("rm x ;"), policy) == "bare-binary"


WIDE = """
read = { allow = ["in/*"] }
write = { allow = ["out/*"] }
[bash]
allow = ["ls *", "cd *"]
env = ["TZ"]
constructs = ["pipe", "chain", "stderr-redirect", "file-redirect", "input-redirect", "subshell"]
"""


@pytest.mark.parametrize(
    ("command", "first", "shown"),
    [
        ("A=1 ls", "env-assignment", "A=1"),
        ("TZ=x A+=1 ls", "env-assignment", "A+=1"),
        ("A[1]=x ls", "env-assignment", "A[1]=x"),
        ("TZ=x", "env-assignment", "TZ=x"),
        ("TZ=x ls", "", ""),
        ("cd a && ls", "shell-chain", "cd a"),
        ("(cd a; ls)", "shell-chain", "cd a"),
        ("ls | cd a", "shell-chain", "cd a"),
        ("ls `ls`", "command-substitution", "`"),
        ("ls 2> 1", "stderr-redirect", "2> 1"),
        ("ls > out/*", "file-redirect", "> out/*"),
        ("ls > out/$(ls)", "file-redirect", "> out/$(ls)"),
        ("ls > out/../f", "file-redirect", "> out/../f"),
        ("ls " + "x" * 131_100, "other-shell", "ls " + "x" * 131_100),
        ("ls '" + "x" * 131_100 + "'", "other-shell", "ls '" + "x" * 131_100 + "'"),
        ("ls " + "\u00e9" * 70_000, "other-shell", "ls " + "\u00e9" * 70_000),
        ("ls $(cd a)", "shell-chain", "cd a"),
        ("cd $(ls)", "shell-chain", "cd $(ls)"),
        ("TZ=1; ls", "env-assignment", "TZ=1"),
        ("TZ=(a b) ls", "env-assignment", "TZ=(a b)"),
        ("TZ={a,b} ls", "env-assignment", "TZ={a,b}"),
        ("> out/f", "file-redirect", "> out/f"),
        ('ls "$(<in/f)"', "command-substitution", "$(<in/f)"),
        ("ls $( )", "command-substitution", "$( )"),
        ("{(ls)}", "subshell", "(ls)"),
        ("ls;" * 1100, "shell-chain", ";"),
        ("ls $(" * 20 + ")" * 20, "command-substitution", "$(" + "ls $(" * 19 + ")" * 20),
        ('ls "$\u00e9"', "bad-arguments", '$\u00e9"'),
    ],
)
def test_what_a_permitted_construct_still_closes_has_the_class_of_it(
    tmp_path: Path, command: str, first: str, shown: str
) -> None:
    file = tmp_path / "p.toml"
    constructs = '"env-assignment", "command-substitution", "pipe"'
    file.write_text(WIDE.replace('"pipe"', constructs))
    found = judge(bash(command), load_policy(str(file), roots=[])).findings
    assert [(each.failure_class, each.evidence.text) for each in found[:1]] == (
        [(first, shown)] if first else []
    )


@pytest.mark.parametrize(
    "command",
    ["git status" + " " * 200_000, "uv run scripts/notes.py add '" + "x" * 199_980 + "'"],
)
def test_a_text_too_long_for_bash_is_told_so(command: str) -> None:
    (found,) = judge(bash(command), DEMO).findings
    assert found.failure_class == "other-shell"
    assert found.hint.startswith("200010 bytes of text; bash takes at most 131071. ")


def test_a_command_that_starts_in_another_folder_is_a_blocked_path() -> None:
    call = ToolCall("", "bash", "", {"command": "git status", "cwd": "/tmp"})
    found = judge(call, DEMO).primary
    assert found
    assert (found.failure_class, found.evidence.text) == ("blocked-path", "/tmp")


@pytest.mark.parametrize(
    ("command", "fails"),
    [
        ("echo ((1))", True),
        ("echo !(a)", True),
        ("echo a (b)", True),
        ("echo a)b", True),
        ("ls | cat )", True),
        ("( )", True),
        ("ls | (cat)", False),
        ("a=(1 2)", False),
        ("declare -a x=(1)", False),
        ("f () { ls; }", False),
        ("time (ls)", False),
        ("ls &(cat)", False),
        ("case x in a) ls;; esac", False),
    ],
)
def test_a_bracket_without_a_meaning_is_a_syntax_error(command: str, *, fails: bool) -> None:
    found = [each.failure_class for each in judge(bash(command), DEMO).findings]
    assert ("shell-syntax-error" in found) is fails


@pytest.mark.parametrize(
    "unit",
    [
        "((1)); ",
        "a | ",
        "<<'A'\n",
        "f() { a; }\n",
        "$(a $(b)) ",
        "[[ a ]] && ",
        "cat <<E\n$(a)\nE\n",
        "git status ) ",
    ],
)
def test_what_is_dense_is_judged_in_linear_time(unit: str) -> None:
    """Four times the text takes four times as long; were it quadratic, sixteen times."""
    short, long = (bash(unit * (size // len(unit))) for size in (3_000, 12_000))
    assert not judge(long, DEMO).allowed
    assert steps(lambda: judge(long, DEMO)) < 6 * steps(lambda: judge(short, DEMO))


@pytest.mark.parametrize(
    "unit",
    ["a b; ", "$(", "ls\r\n", "ls \0", "ls \ud800 ", "(a|b);", "'", "x", "a)", "<<E\n", "A=1 "],
)
def test_a_megabyte_of_anything_is_judged_within_a_second(unit: str) -> None:
    call = bash(unit * (1_000_000 // len(unit)))
    assert not judge(call, DEMO).allowed
    assert processor_seconds(lambda: judge(call, DEMO), enough=1.0) < 1
