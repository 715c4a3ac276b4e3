"""Splitting a text into simple commands, by tables."""

import pytest

from agenteval.shell.gate import NotSimple, Obstacle
from agenteval.shell.leaves import Construct, Leaves, read_leaves

C = Construct
READ = [
    ("ls -l", ["ls -l"], set()),
    ("ls | wc -l", ["ls", "wc -l"], {C.PIPE}),
    ("a |& b", ["a", "b"], {C.PIPE, C.STDERR_REDIRECT}),
    ("cd x && ls || y", ["cd x", "ls", "y"], {C.CHAIN}),
    ("a; b\nc\n", ["a", "b", "c"], {C.CHAIN}),
    ("a ||\n# why\n b;\n", ["a", "b"], {C.CHAIN}),
    ("a & b", ["a", "b"], {C.BACKGROUND, C.CHAIN}),
    ("a &", ["a"], {C.BACKGROUND}),
    ("(a; b) # x", ["a", "b"], {C.SUBSHELL, C.CHAIN}),
    ("( { a; } )>f", ["a"], {C.SUBSHELL, C.FILE_REDIRECT}),
    ("{ a\n}", ["a"], {C.SUBSHELL}),
    ("a 2>/dev/null", ["a"], {C.STDERR_REDIRECT}),
    ("a 2>f", ["a"], {C.STDERR_REDIRECT, C.FILE_REDIRECT}),
    ("a &>> f", ["a"], {C.STDERR_REDIRECT, C.FILE_REDIRECT}),
    ("a 2>&1", ["a"], {C.STDERR_REDIRECT}),
    ("a 2>&1>b", ["a"], {C.STDERR_REDIRECT, C.FILE_REDIRECT}),
    ("a >&b", ["a"], {C.STDERR_REDIRECT, C.FILE_REDIRECT}),
    ("a >& ./b | c", ["a", "c"], {C.STDERR_REDIRECT, C.FILE_REDIRECT, C.PIPE}),
    ("a >&/dev/null", ["a"], {C.STDERR_REDIRECT}),
    ("a >&2 b", ["a b"], {C.STDERR_REDIRECT}),
    ("a 2>& 1 b >&\t-", ["a b"], {C.STDERR_REDIRECT, C.FILE_REDIRECT}),
    ("a >f b", ["a b"], {C.FILE_REDIRECT}),
    ("a < f >| g", ["a"], {C.INPUT_REDIRECT, C.FILE_REDIRECT}),
    ("a 3<&- 4>&1", ["a"], {C.INPUT_REDIRECT, C.FILE_REDIRECT}),
    ("a <<< 'x y'", ["a"], {C.HERESTRING}),
    ("cat <<'E' > f\n$x `y`\nE\nls", ["cat", "ls"], {C.HEREDOC, C.FILE_REDIRECT, C.CHAIN}),
    ("cat <<E | wc\na $ b \\n\nE", ["cat", "wc"], {C.HEREDOC, C.PIPE}),
    ("cat <<E\nx = '^a$' \"b$\" $'c' $\"d\"\nE", ["cat"], {C.HEREDOC}),
    ("(cat <<-\\E\n\tx\n\tE\n)", ["cat"], {C.HEREDOC, C.SUBSHELL}),
    ("cat <<A - <<'B'\n1\nA\n2\nB\n", ["cat -"], {C.HEREDOC}),
    ("A=1 B='x y' a C=2", ["a C=2"], {C.ENV_ASSIGNMENT}),
    ('a "x $(b "c") y"$(d)', ["b c", "d", 'a x $(b "c") y$(d)'], {C.COMMAND_SUBSTITUTION}),
    ("a $(b 2>&1)$ c", ["b", "a $(b 2>&1)$ c"], {C.COMMAND_SUBSTITUTION, C.STDERR_REDIRECT}),
    ('a "x"$(b)"$" "p\\"$(c)q"$', ["b", "c", 'a x$(b)$ p"$(c)q$'], {C.COMMAND_SUBSTITUTION}),
    ("a $(b)$", ["b", "a $(b)$"], {C.COMMAND_SUBSTITUTION}),
]


@pytest.mark.parametrize(("text", "commands", "constructs"), READ)
def test_each_simple_command_becomes_a_leaf(
    text: str, commands: list[str], constructs: set[Construct]
):
    reading = read_leaves(text)
    assert isinstance(reading, Leaves)
    assert [" ".join(leaf.argv) for leaf in reading.leaves] == commands
    assert reading.constructs == constructs


STOPPED = [
    ("", Obstacle.EMPTY, 0),
    ("a\x01", Obstacle.CONTROL, 1),
    ("a &&", Obstacle.EMPTY, 4),
    ("a ; ; b", Obstacle.OPERATOR, 4),
    ("a;;", Obstacle.OPERATOR, 1),
    ("a |\\\n| b", Obstacle.OPERATOR, 3),
    ("a\n)", Obstacle.OPERATOR, 2),
    ("((x))", Obstacle.OPERATOR, 1),
    ("(\\\n(x))", Obstacle.OPERATOR, 1),
    ("$((1))", Obstacle.OPERATOR, 2),
    ("f() { a; }", Obstacle.OPERATOR, 1),
    ("( )", Obstacle.OPERATOR, 2),
    ("(a", Obstacle.OPERATOR, 2),
    ("(a) b", Obstacle.OPERATOR, 4),
    ("{ a }", Obstacle.OPERATOR, 5),
    ("{ (a) }", Obstacle.OPERATOR, 6),
    ("for i in a; do b; done", Obstacle.RESERVED, 0),
    ("! a", Obstacle.RESERVED, 0),
    ("time a", Obstacle.RESERVED, 0),
    ("A=1", Obstacle.EMPTY, 3),
    ("A=(1) a", Obstacle.OPERATOR, 2),
    (">f", Obstacle.EMPTY, 2),
    ("A\\\n=1 a", Obstacle.ASSIGNMENT, 0),
    ("$(a) b", Obstacle.PROGRAM, 0),
    ("a $x", Obstacle.EXPANSION, 2),
    ('a "$x"', Obstacle.EXPANSION, 3),
    ('a "b$(c)', Obstacle.QUOTE, 2),
    ("a `b`", Obstacle.EXPANSION, 2),
    ("a <(b)", Obstacle.OPERATOR, 2),
    ("a <> b", Obstacle.OPERATOR, 2),
    ("a > *", Obstacle.EXPANSION, 4),
    ("a > ''", Obstacle.EMPTY, 6),
    ("a >", Obstacle.OPERATOR, 3),
    ("a 12>f", Obstacle.OPERATOR, 4),
    ("a {fd}>f", Obstacle.OPERATOR, 6),
    ("a 2\\\n>f", Obstacle.OPERATOR, 5),
    ('a >& "2"', Obstacle.OPERATOR, 2),
    ("a >&1f", Obstacle.OPERATOR, 2),
    ("a >&'1'", Obstacle.OPERATOR, 2),
    ("a 2>&f", Obstacle.OPERATOR, 3),
    ("a >&\\\nf", Obstacle.OPERATOR, 2),
    ("a {b,c}", Obstacle.BRACES, 2),
    ("cat <<E\n$x\nE", Obstacle.EXPANSION, 8),
    ("cat <<E\nx\\\nE\n", Obstacle.EXPANSION, 9),
    ("cat <<E\nx", Obstacle.HEREDOC, 8),
    ("cat <<E", Obstacle.HEREDOC, 7),
    ("cat <<$E\n", Obstacle.EXPANSION, 6),
    ("cat <<'E F'\n", Obstacle.HEREDOC, 6),
    ("cat <<E 'a\nb'\nE", Obstacle.HEREDOC, 8),
    ("a $(cat <<E\nx\nE\n)", Obstacle.HEREDOC, 10),
    ("cat <<E $(a)\nE", Obstacle.EXPANSION, 8),
    ("( " * 17 + "a" + ")" * 17, Obstacle.DEPTH, 32),
]


@pytest.mark.parametrize(("text", "reason", "start"), STOPPED)
def test_splitting_stops_where_the_text_could_mean_more(text: str, reason: Obstacle, start: int):
    assert read_leaves(text) == NotSimple(reason, start)


def test_words_assignments_and_redirects_say_where_they_stand():
    reading = read_leaves("A='x' ls 'a b' *.c 2> /dev/null <in; (b) >f")
    assert isinstance(reading, Leaves)
    leaf = reading.leaves[0]
    assert [(w.text, w.span.text, w.quoted, w.dynamic) for w in leaf.assignments + leaf.words] == [
        ("A=x", "A='x'", True, False),
        ("ls", "ls", False, False),
        ("a b", "'a b'", True, False),
        ("*.c", "*.c", False, True),
    ]
    assert leaf.dynamic == {2}
    assert [(r.kind.value, r.span.text, r.target) for r in reading.redirects] == [
        ("stderr", "2> /dev/null", "/dev/null"),
        ("input", "<in", "in"),
        ("file", ">f", "f"),
    ]
    assert leaf.redirects == reading.redirects[:2]
