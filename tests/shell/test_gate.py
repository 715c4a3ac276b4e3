"""The gate by tables: what is one simple command, and where and why reading stops otherwise."""

import pytest

from agenteval.shell.gate import NotSimple, Obstacle, Simple, read_simple

ACCEPTED = [
    ("ls", ["ls"]),
    ("ls -la /tmp", ["ls", "-la", "/tmp"]),
    ("  ls\t-l  ", ["ls", "-l"]),
    ("\n# which files?\n\nls\n", ["ls"]),
    ("ls # trailing\n  # and more\n", ["ls"]),
    ("ls \\\n  -l \\\n", ["ls", "-l"]),
    ("l\\\ns", ["ls"]),
    ("\\\nls", ["ls"]),
    ("ls \\\n#x", ["ls"]),
    ("ls a\\\n#b", ["ls", "a#b"]),
    ("echo a#b 'c'#d #e", ["echo", "a#b", "c#d"]),
    ("git log --pretty='%h|%s'", ["git", "log", "--pretty=%h|%s"]),
    ("grep 'a|b' \"x && y\" '<<EOF' ';' '>' f", ["grep", "a|b", "x && y", "<<EOF", ";", ">", "f"]),
    ("q \"it's\" 'say \"hi\"' a\\ b \\;", ["q", "it's", 'say "hi"', "a b", ";"]),
    (r'q "a\$b \`c\` \"d\" \\ \n"', ["q", 'a$b `c` "d" \\ \\n']),
    ('q "two\\\nlines" "a\nb" \'c\\\nd\'', ["q", "twolines", "a\nb", "c\\\nd"]),
    ('grep "^a$" "b$|c$" d$ e', ["grep", "^a$", "b$|c$", "d$", "e"]),
    ("q '' \"\" ''a''", ["q", "", "", "a"]),
    ("show HEAD@{1} HEAD~2 a~ {} {x} }", ["show", "HEAD@{1}", "HEAD~2", "a~", "{}", "{x}", "}"]),
    ("q {'a,b'} '{a,b}' \\{a,b}", ["q", "{a,b}", "{a,b}", "{a,b}"]),
    ("make X=1 --y=2 if ! a=b", ["make", "X=1", "--y=2", "if", "!", "a=b"]),
    ("[ -f x ]", ["[", "-f", "x", "]"]),
    ("./a=b/run /x=y", ["./a=b/run", "/x=y"]),
    ("\u65e5 \u672c \U0001f600 a\u00a0b", ["\u65e5", "\u672c", "\U0001f600", "a\u00a0b"]),
    ("';' a", [";", "a"]),
    ("curl 'http://x/?a=1&b=2' a]b c[ [", ["curl", "http://x/?a=1&b=2", "a]b", "c[", "["]),
]  # fmt: skip

STOPPED = [
    ("", Obstacle.EMPTY, 0),
    (" \n# only a comment\n", Obstacle.EMPTY, 0),
    ("ls | wc", Obstacle.OPERATOR, 3),
    ("ls;", Obstacle.OPERATOR, 2),
    ("if;", Obstacle.OPERATOR, 2),  # what stands alone before an operator is not judged
    ("'", Obstacle.QUOTE, 0),
    ("ls&&x", Obstacle.OPERATOR, 2),
    ("ls 2>x", Obstacle.OPERATOR, 4),
    ("(ls)", Obstacle.OPERATOR, 0),
    ("f(){ :;}", Obstacle.OPERATOR, 1),
    ("ls\nrm x", Obstacle.LINE, 2),
    ("ls # a\nrm x", Obstacle.LINE, 6),
    ("ls $x", Obstacle.EXPANSION, 3),
    ("ls a$'b'", Obstacle.EXPANSION, 4),
    ('ls $"b"', Obstacle.EXPANSION, 3),
    ("ls a`b`", Obstacle.EXPANSION, 4),
    ('ls "a $(b)"', Obstacle.EXPANSION, 6),
    ('ls "`b`"', Obstacle.EXPANSION, 4),
    # Python before 3.11.5 reads both on past where they fail (python/cpython#106052).
    ('ls "$HOME"', Obstacle.EXPANSION, 4),
    ("ls a'b", Obstacle.QUOTE, 4),
    ('ls "$\\\nHOME"', Obstacle.EXPANSION, 4),
    ("ls $\\\nHOME", Obstacle.EXPANSION, 3),
    ("ls {a,b}", Obstacle.BRACES, 3),
    ("ls x{1..3}", Obstacle.BRACES, 3),
    ("ls 'a", Obstacle.QUOTE, 3),
    ('ls "a', Obstacle.QUOTE, 3),
    ('ls "a\\', Obstacle.QUOTE, 3),
    (f'ls "{"a" * 999}', Obstacle.QUOTE, 3),
    ("ls \\", Obstacle.BACKSLASH, 3),
    ("if ls", Obstacle.RESERVED, 0),
    ("! ls", Obstacle.RESERVED, 0),
    ("if ls | wc", Obstacle.RESERVED, 0),
    ("if ls 'a'", Obstacle.RESERVED, 0),
    ("t\\\nime ls", Obstacle.RESERVED, 0),
    ("{ ls", Obstacle.RESERVED, 0),
    ("A=1 ls", Obstacle.ASSIGNMENT, 0),
    ("a+=1", Obstacle.ASSIGNMENT, 0),
    ("a.=1 ls", Obstacle.ASSIGNMENT, 0),
    ("'' x", Obstacle.PROGRAM, 0),
    ("-x", Obstacle.PROGRAM, 0),
    ("%1", Obstacle.PROGRAM, 0),
    ("~/x", Obstacle.PROGRAM, 0),
    ("a* b", Obstacle.PROGRAM, 0),
    ("a[1]=x", Obstacle.PROGRAM, 0),
    ("ls a\rb", Obstacle.CONTROL, 4),
    ("ls\r\n", Obstacle.CONTROL, 2),
    ("ls 'a\x00b'", Obstacle.CONTROL, 5),
    ("ls \x0b", Obstacle.CONTROL, 3),
    ("ls \x7f", Obstacle.CONTROL, 3),
    ("ls \x85", Obstacle.CONTROL, 3),
    ("ls '\udc80'", Obstacle.CONTROL, 4),
]


@pytest.mark.parametrize(("text", "argv"), ACCEPTED)
def test_a_simple_command_is_read_as_bash_runs_it(text: str, argv: list[str]):
    reading = read_simple(text)
    assert isinstance(reading, Simple)
    assert (list(reading.argv), reading.dynamic) == (argv, frozenset())


@pytest.mark.parametrize(("text", "reason", "start"), STOPPED)
def test_reading_stops_where_the_text_could_mean_more(text: str, reason: Obstacle, start: int):
    assert read_simple(text) == NotSimple(reason, start)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("ls", [(0, 2)]),
        ("ls -l", [(0, 2), (3, 5)]),
        ("  abc  x", [(2, 5), (7, 8)]),
        ("a bc defg", [(0, 1), (2, 4), (5, 9)]),
        ("'a ' b", [(0, 4), (5, 6)]),
        ("'a ' \\'", [(0, 4), (5, 7)]),
        ("a'' b", [(0, 3), (4, 5)]),
        ("l\\\ns  'a b' \"c\" # d", [(0, 4), (6, 11), (12, 15)]),
    ],
)
def test_a_word_has_a_place_in_the_text(text: str, places: list[tuple[int, int]]):
    reading = read_simple(text)
    assert isinstance(reading, Simple)
    assert [reading.place(number) for number in range(len(places))] == places
    assert [(word.span.start, word.span.end) for word in reading.words] == places
    assert reading.extent == (places[0][0], places[-1][1])
    assert reading.first == reading.argv[0]


def test_words_without_a_place_begin_their_text():
    assert Simple("ls -l", ("ls", "-l")).extent == (0, 5)


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u65e5", "\U0001f600"])
def test_a_text_may_have_as_many_bytes_as_linux_gives_to_a_shell(character: str):
    size = len(character.encode())
    whole, rest = divmod(131_071, size)
    longest = character * whole + "a" * rest
    reading = read_simple(longest)
    assert isinstance(reading, Simple)
    assert (reading.argv, reading.extent) == ((longest,), (0, len(longest)))
    longer = character * whole + "a" * (rest + 1)
    assert read_simple(longer) == NotSimple(Obstacle.LENGTH, min(len(longer), 131_071))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("*.py", "*.py"), ("a?", "a?"), ("x[0]", "x[0]"), ("~/x", "~/x"), ("a=~/b", "a=~/b"),
        ("a:~", "a:~"), ("'a'*", "a*"), ("a[']'", "a[]"),
    ],
)  # fmt: skip
def test_a_pattern_or_a_tilde_makes_an_argument_dynamic(word: str, value: str):
    reading = read_simple(f"ls -l {word} 'z'")
    assert isinstance(reading, Simple)
    assert [(w.text, w.span.text, w.quoted, w.dynamic) for w in reading.words] == [
        ("ls", "ls", False, False),
        ("-l", "-l", False, False),
        (value, word, "'" in word, True),
        ("z", "'z'", True, False),
    ]
