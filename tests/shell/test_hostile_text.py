"""No text makes a reader raise, hang, or take more than a second of processor time."""

import pytest
from clocks import processor_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.shell.facts import SubstitutionKind, embedded_in
from agenteval.shell.gate import NotSimple, Obstacle, Simple, read_simple
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.shell.reader import read_facts

N = 100_000
REPEATED = ["$(", "(", "( ", "{", "{ ", "[", "`", "'", '"', "\\", "\\\n", "|", ">", ";", "&", "a|"]
REPEATED += ["a && ", "a\n", "a=(", "$((", "<(", "if ", "! ", "A=1 ", "timeout 1 ", "#\n", "x ~"]
REPEATED += ["<<E ", "eval ", "bash -c ", "x\r\n"]
HOSTILE = {
    **{f"{text!r} again and again": text * N for text in REPEATED},
    "a megabyte in one word": "a" * 1_000_000,
    "a megabyte of words": "a " * 500_000,
    "a megabyte in quotes": f"x '{'a' * 1_000_000}'",
    "a megabyte of escapes": 'x "' + "\\a" * 500_000,
    "a megabyte of emoji": "\U0001f600" * 250_000,
    "NUL": "ls \0 x\0" * N,
    "lone surrogates": "ls \ud800 " * N,
    "closed substitutions": "$(" * 2000 + ")" * 2000,
    "quoted substitutions": 'echo "$(' * 3000 + ')"' * 3000,
    "a long here-document": "cat <<E\n" + "x | y $z\n" * 20_000 + "E\n",
    "substitutions in a here-document": "cat <<E\n" + "`a` $(b)\n" * 20_000 + "E\n",
    "nested substitutions in a here-document": "cat <<-E\n" + "$(" * N + "\nE\n",
    "a megabyte of open here-documents": "!`!x<<<<-'E' x<<x<<`<<-'E' `x<<!" * 31_000,
    "find": "find . " + "-exec a \\; " * N,
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("read", [read_simple, read_leaves, read_facts])
def test_hostile_text_is_read_within_a_second(read, text: str):
    assert processor_seconds(lambda: read(text), enough=1.0) < 1.0


@settings(max_examples=60, deadline=None)
@given(st.text() | st.text("ab '\"\\$`|&;<>(){}[]!#~=*?\n\t-E012\r\0\ud800"))
def test_no_text_raises_and_the_readers_never_contradict_each_other(text: str):
    simple = read_simple(text)
    leaves = read_leaves(text)
    read_facts(text)
    if isinstance(simple, Simple):
        assert isinstance(leaves, Leaves)
        assert [leaf.words for leaf in leaves.leaves] == [simple.words]
        assert [simple.text[w.span.start : w.span.end] for w in simple.words] == [
            w.span.text for w in simple.words
        ]
        assert (leaves.leaves[0].argv, leaves.leaves[0].dynamic) == (simple.argv, simple.dynamic)
    elif isinstance(leaves, NotSimple):
        assert 0 <= leaves.start <= len(text)
    assert not isinstance(simple, NotSimple) or 0 <= simple.start <= len(text)


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("|&;<>$`\"\\'\n\t*"))
)
def test_a_quoted_value_is_always_simple(value: str):
    quoted = "'" + value.replace("'", "'\\''") + "'"
    reading = read_simple(f"show {quoted} --x={quoted}")
    assert isinstance(reading, Simple)
    assert (reading.argv, reading.dynamic) == (("show", value, f"--x={value}"), frozenset())


def test_more_text_than_a_shell_can_be_given_is_not_simple():
    stop = NotSimple(Obstacle.LENGTH, 131_071)
    text = "x " + "a" * 131_070
    assert (read_simple(text), read_leaves(text)) == (stop, stop)
    assert isinstance(read_simple(text[:-1]), Simple)


LONG_FUNCTION = "f() {\n" + "  a | 'b'\n" * 250 + "}\n"


@pytest.mark.parametrize(
    ("text", "commands", "pipelines", "chains", "control", "heredocs"),
    [
        ("a | " * 5_000 + "(", 5_000, 1, 0, 0, 0),
        ("! a | b; " * 3_000, 6_000, 3_000, 2_999, 0, 0),
        ("if a; then b && c; fi\n" * 1_500, 4_500, 0, 1_500 + 1_499, 1_500, 0),
        ("[[ a && b ]]; ((1)); " * 1_500, 0, 0, 2_999, 3_000, 0),
        ("for x in 'a'; do\n  b \"$x\" | c\ndone\n" * 900, 1_800, 900, 899, 900, 0),
        ("f() { a; }; cat <<E | b\n'\"\nE\n" * 600, 1_800, 600, 1_199, 600, 600),
        (LONG_FUNCTION * 3, 1_500, 750, 749, 3, 0),
        ("a $(b | 'c')\n" * 2_000, 6_000, 2_000, 1_999, 0, 0),
    ],
)
def test_a_dense_text_is_told_whole(
    text: str, commands: int, pipelines: int, chains: int, control: int, heredocs: int
):
    facts = read_facts(text)
    assert not facts.errors
    found = [facts.commands, facts.pipelines, facts.chains, facts.control, facts.heredocs]
    assert [*map(len, found)] == [commands, pipelines, chains, control, heredocs]
    assert all(0 <= start < end <= len(text) for start, end in (c.extent for c in facts.commands))


def test_only_the_head_of_text_that_no_shell_can_be_given_is_told():
    facts = read_facts("a | " * 50_000 + "(")
    assert 900 < len(facts.commands) < 1_100
    assert not facts.errors


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("$(a $(b) \"$(c ')')\" ')' \\) ) x", [("command", "$(a $(b) \"$(c ')')\" ')' \\) )")]),
        ("\\$(a) \\`b\\` $c ${d} $((e+(1))) $1", [
            ("parameter", "$c"), ("parameter", "${d}"), ("arithmetic", "$((e+(1)))"),
            ("parameter", "$1")]),
        ("`a \\` b` $ x", [("command", "`a \\` b`")]),
        ("$x $(a", [("parameter", "$x")]),
        ("$x `a", [("parameter", "$x")]),
        ('$(a "b)', []),
    ],
)  # fmt: skip
def test_expansions_in_plain_characters_are_found(body: str, found: list[tuple[str, str]]):
    assert [(e.kind.value, body[e.start : e.end]) for e in embedded_in(body, 0, len(body))] == found
    assert all(e.inside or e.kind is not SubstitutionKind.COMMAND for e in embedded_in(body, 0, 9))
