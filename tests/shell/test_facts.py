"""The facts about shell text, by tables: what is found, where it stands, what is seen through."""

from itertools import product

import pytest

from agenteval.shell.facts import RedirectKind, ShellFacts, Source, SubstitutionKind
from agenteval.shell.reader import read_facts
from agenteval.shell.wrappers import _READERS, program_table, rows_by_program, unwrap

_ROWS = rows_by_program("prefixes")


def told(facts: ShellFacts) -> dict[str, list[str]]:
    """What was found, in short, without what was not."""
    found = {
        "commands": [" ".join(c.argv) for c in facts.commands if not c.via],
        "nested": [c.program for c in facts.commands if c.nested],
        "pipes": [" | ".join(c.program for c in pipeline) for pipeline in facts.pipelines],
        "chains": [span.text for span in facts.chains],
        "redirects": [f"{r.kind.value} {r.target}" for r in facts.redirects],
        "heredocs": [h.body.text + ("expanded" if h.expanded else "") for h in facts.heredocs],
        "substitutions": [f"{kind.value} {span.text}" for kind, span in facts.substitutions],
        "assignments": [span.text for span in facts.assignments],
        "background": [span.text for span in facts.background],
        "subshells": [span.text for span in facts.subshells],
        "control": [span.text.split()[0] for span in facts.control],
        "negations": [span.text for span in facts.negations],
        "errors": [span.text for span in facts.errors],
    }
    return {name: values for name, values in found.items() if values}


CASES: list[tuple[str, dict[str, list[str]]]] = [
    ("ls -l 'a b'", {"commands": ["ls -l a b"]}),
    ("a | b |& c", {"commands": ["a", "b", "c"], "pipes": ["a | b | c"],
                    "redirects": ["stderr 1"]}),
    ("a && b || c; d\ne", {"commands": ["a", "b", "c", "d", "e"],
                           "chains": ["&&", "||", ";", "\n"]}),
    ("a;", {"commands": ["a"]}),
    ("a & b &\nc", {"commands": ["a", "b", "c"], "background": ["&", "&"], "chains": ["\n"]}),
    ("cd x && a 2>&1 | b", {"commands": ["cd x", "a", "b"], "chains": ["&&"], "pipes": ["a | b"],
                            "redirects": ["stderr 1"]}),
    ("a >f 2>g <h &>i >&2 2>&- >&j", {"commands": ["a"], "redirects": [
        "file f", "stderr g", "input h", "stderr i", "stderr 2", "stderr -", "stderr j"]}),
    ("> f", {"redirects": ["file f"], "commands": [""]}),
    ("a $(<f) b", {"commands": ["a $(<f) b"], "redirects": ["input f"],
                   "substitutions": ["command $(<f)"]}),
    ("a >f -x y", {"commands": ["a -x y"], "redirects": ["file f"]}),
    ("if a; then b; fi > f", {"commands": ["a", "b"], "control": ["if"], "redirects": ["file f"]}),
    ("f() { a; } >g; f", {"commands": ["a", "f"], "control": ["f()"], "subshells": ["{ a; }"],
                          "redirects": ["file g"], "chains": [";"]}),
    ("cat <<'E' >f -n && b\n$x\nE\nc", {"commands": ["cat -n", "b", "c"], "chains": ["&&", "\n"],
                                     "redirects": ["heredoc E", "file f"], "heredocs": ["$x\n"]}),
    ("cat <<E | b\n$x\nE", {"commands": ["cat", "b"], "pipes": ["cat | b"],
        "redirects": ["heredoc E"], "heredocs": ["$x\nexpanded"],
        "substitutions": ["parameter $x"]}),
    ("cat <<E -\nx\nE", {"commands": ["cat -"], "redirects": ["heredoc E"],
                         "heredocs": ["x\nexpanded"]}),
    ("cat <<-E\n\t$(a \"$(b)\" ')') `c` \\$d $((1)) ${e}\n\tE", {
        "commands": ["cat", "a $(b) )", "b", "c"], "nested": ["a", "b", "c"],
        "redirects": ["heredoc E"],
        "heredocs": ["$(a \"$(b)\" ')') `c` \\$d $((1)) ${e}\n\texpanded"],
        "substitutions": ["command $(a \"$(b)\" ')')", "command $(b)", "command `c`",
                          "arithmetic $((1))", "parameter ${e}"]}),
    ("cat <<E\n`a\nE", {"commands": ["cat"], "redirects": ["heredoc E"],
                        "heredocs": ["`a\nexpanded"]}),
    ('a <<< "$x" b', {"commands": ["a b"], "redirects": ["herestring $x"],
                        "heredocs": ['"$x"expanded'], "substitutions": ["parameter $x"]}),
    ("a <(b) $((1+2))", {"commands": ["a <(b) $((1+2))", "b"], "nested": ["b"],
                         "substitutions": ["process <(b)", "arithmetic $((1+2))"]}),
    ("A=1 B=2", {"commands": [""], "assignments": ["A=1", "B=2"]}),
    ("A=$(b)", {"commands": ["", "b"], "nested": ["b"], "assignments": ["A=$(b)"],
                "substitutions": ["command $(b)"]}),
    ("A=1 B=2 c D=3", {"commands": ["c D=3"], "assignments": ["A=1", "B=2"]}),
    ("a=1 b[0]=2\necho c", {"commands": ["", "echo c"], "assignments": ["a=1", "b[0]=2"],
                            "chains": ["\n"]}),
    ("export A=1 B", {"commands": ["export A=1 B"]}),
    ("(a; b) | { c; }", {"commands": ["a", "b", "c"], "chains": [";"], "pipes": [" | "],
                         "subshells": ["(a; b)", "{ c; }"]}),
    ("for i in $(a) b; do c; d; done", {"commands": ["a", "c", "d"], "nested": ["a"],
        "control": ["for"], "chains": [";"], "substitutions": ["command $(a)"]}),
    ("for ((i=0;i<3;i++)); do a; done", {"commands": ["a"], "control": ["for"]}),
    ("while a; do b; done < f", {"commands": ["a", "b"], "control": ["while"],
                                 "redirects": ["input f"]}),
    ("case $x in a|b) c;; *) d; e;; esac", {"commands": ["c", "d", "e"], "control": ["case"],
        "chains": [";"], "substitutions": ["parameter $x"]}),
    ("[[ -f a && ! -f b ]] || c", {"commands": ["c"], "control": ["[["], "chains": ["||"]}),
    ("((x > 1)) && c", {"commands": ["c"], "control": ["((x"], "chains": ["&&"]}),
    ('[ -f "$x" ] && ! b', {"commands": ["[ -f $x ]", "b"], "chains": ["&&"], "negations": ["!"],
                            "substitutions": ["parameter $x"]}),
    ("time ( a )", {"commands": ["time", "a"], "subshells": ["( a )"]}),
    # where the tree is known to be wrong
    ("ls data\n\\rm -rf x", {"commands": ["ls data", "rm -rf x"], "chains": ["\n"]}),
    ("ls\\\nblk \\\n -a", {"commands": ["lsblk -a"]}),
    ("ls a\rb\v", {"commands": ["ls a\rb\v"]}),
    ('a $"b"c', {"commands": ["a bc"]}),
    ("grep total$.", {"commands": ["grep total$."]}),
    ("a |", {"commands": ["a"], "pipes": ["a | "], "errors": [""]}),
    ("a 'b", {"commands": ["a"], "errors": [" 'b"]}),
    ("a | b | c -d\ne 'f' > g", {"commands": ["a", "b", "c -d", "e f"], "pipes": ["a | b | c"],
                                 "chains": ["\n"], "redirects": ["file g"]}),
    ("a | b | c\n# why\nd > g", {"commands": ["a", "b", "c", "d"], "pipes": ["a | b | c"],
                                 "chains": ["\n"], "redirects": ["file g"]}),
    ("a --b=c \n--d='e' --f=1 . 2>&1 || g", {"commands": ["a --b=c", "--d=e --f=1 .", "g"],
        "chains": ["\n", "||"], "redirects": ["stderr 1"]}),
    ("--a=b", {"commands": ["--a=b"]}),
    ("A=~/$(b)-$C.d", {"commands": ["", "b"], "nested": ["b"], "assignments": ["A=~/$(b)-$C.d"],
                       "substitutions": ["command $(b)"]}),
    ("a|b@c\nd%e f", {"commands": ["a", "b@c", "d%e f"], "pipes": ["a | b@c"],
                      "chains": ["\n"]}),
    ("!`a`", {"commands": ["!`a`", "a"], "nested": ["a"], "substitutions": ["command `a`"]}),
    ("$ a b", {"commands": ["$ a b"]}),
    ("{a b}", {"commands": ["{a b}"]}),
    ("$(\n{a b}\n) >c", {"commands": ["$(\n{a b}\n)", "{a b}"], "nested": ["{a"],
        "redirects": ["file c"], "substitutions": ["command $(\n{a b}\n)"]}),
    ("a 3<<<b", {"commands": ["a"], "redirects": ["herestring b"]}),
    ("a >b <<< 'c' d", {"commands": ["a d"], "redirects": ["file b", "herestring c"]}),
    ("a <<'E' >f\nE\nb <<'E'\nx\nE", {"commands": ["a", "b"], "chains": ["\n"],
        "redirects": ["heredoc E", "file f", "heredoc E"], "heredocs": ["", "x\n"]}),
    ("a <<'E' >f; b -c\nx\nE\nd", {"commands": ["a", "b -c", "d"], "chains": [";", "\n"],
        "redirects": ["heredoc E", "file f"], "heredocs": ["x\n"]}),
    ("a <<E; b <<-'E'\n$(c)\nE\n\t$(d)\n\tE\ne", {
        "commands": ["a", "b", "e", "c"], "nested": ["c"], "chains": [";", "\n"],
        "redirects": ["heredoc E", "heredoc E"], "heredocs": ["$(c)\nexpanded", "\t$(d)\n"],
        "substitutions": ["command $(c)"]}),
    ("a <<E |b\nE", {"commands": ["a", "b"], "pipes": ["a | b"], "redirects": ["heredoc E"],
                     "heredocs": ["expanded"]}),
    ("a <<'E' -x\nE && b\nE\nc", {"commands": ["a -x", "c"], "chains": ["\n"],
        "redirects": ["heredoc E"], "heredocs": ["E && b\n"]}),
    ("a <<'E' -x\nE 1\nE 2\nE 3\nE 4\nE 5\nE\nb", {"commands": ["a -x", "b"],
        "chains": ["\n"], "redirects": ["heredoc E"], "heredocs": ["E 1\nE 2\nE 3\nE 4\nE 5\n"]}),
    # what the tree accepts and bash does not
    ("a <b>\nc", {"commands": ["a"], "redirects": ["input b", "file c"], "errors": [">"]}),
    ("a\nb 'c' \"d e", {"commands": ["a", "b c"], "chains": ["\n"], "errors": ['"d e']}),
    ("if a; then # b\nfi", {"commands": ["a"], "control": ["if"], "errors": ["fi"]}),
    ("while a; do\n# b\ndone", {"commands": ["a"], "control": ["while"], "errors": ["done"]}),
    ("a() { # b\n}", {"control": ["a()"], "subshells": ["{ # b\n}"], "errors": ["{ # b\n}"]}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_facts_tell_what_stands_in_the_text(text: str, expected: dict[str, list[str]]):
    assert told(read_facts(text)) == expected


@pytest.mark.parametrize("text", [text for text, _ in CASES] + ["é 'ü' | ß", "\U0001f600 \ud800 x"])
def test_every_span_stands_where_it_says(text: str):
    facts = read_facts(text)
    spans = [*facts.chains, *facts.assignments, *facts.background, *facts.subshells, *facts.errors]
    spans += [*facts.control, *facts.negations, *(span for _, span in facts.substitutions)]
    spans += [r.span for r in facts.redirects] + [h.body for h in facts.heredocs]
    spans += [word.span for c in facts.commands for word in c.words]
    assert [span.text for span in spans] == [text[span.start : span.end] for span in spans]


WRAPPED = [
    ("timeout -k 5 10 ls -l", [("timeout", "ls -l")]),
    ("env -i A=1 nice -n 5 ls", [("env", "nice -n 5 ls"), ("env nice", "ls")]),
    ("env -S 'a b' c", [("env", "a b")]),
    ("/usr/bin/sudo -u bob -- ls", [("sudo", "ls")]),
    ("bash -c 'a | b'", [("bash", "a"), ("bash", "b")]),
    ('bash --rcfile f -o x -lc "a \\"b\\""', [("bash", "a b")]),
    ("sh x.sh", []),
    ("bash -c", []),
    ("eval ls '-l;' x", [("eval", "ls -l"), ("eval", "x")]),
    ("ssh -p 22 host", []),
    ("ssh -p 22 host 'ls $x'", [("ssh", "ls $x")]),
    ("xargs -n 1 rm", [("xargs", "rm")]),
    ("command -v ls", []),
    ("command ls", [("command", "ls")]),
    ("exec -a x ls", [("exec", "ls")]),
    ("time ls", [("time", "ls")]),
    ("sudo", []),
    ("find . -exec rm {} \\; -ok ls {} + -exec \\;", [("find", "rm {}"), ("find", "ls {}")]),
    ("uv --directory d run --with x pytest -q", [("uv", "pytest -q")]),
    ("uv run -m mod a", [("uv", "mod a")]),
    ("uv run python -m mod a", [("uv", "python -m mod a"), ("uv python", "mod a")]),
    ("uv pip list", []),
    ("poetry run x", [("poetry", "x")]),
    ("python3 -W x -m pytest -q", [("python3", "pytest -q")]),
    ("python3.11 -c 'x'", []),
    ("python3 a.py -m x", []),
    ("python -", []),
    ("python -m", []),
    ("cat <<E\n$(timeout 5 rm)\nE", [("timeout", "rm")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "inside"), WRAPPED)
def test_wrappers_and_nested_shells_are_seen_through(text: str, inside: list[tuple[str, str]]):
    commands = [c for c in read_facts(text).commands if c.via]
    assert [(" ".join(c.via), " ".join(c.argv)) for c in commands] == inside


def test_a_nested_text_is_placed_in_the_outer_one_when_it_stands_there_as_it_is():
    facts = read_facts('bash -c \'ls x\'; sh -c "nice e\\"f\\""')
    places = [c.extent for c in facts.commands if c.via]
    assert [(start, facts.text[start:end]) for start, end in places] == [
        (9, "ls x"),
        (22, '"nice e\\"f\\""'),
        (22, '"nice e\\"f\\""'),
    ]


@pytest.mark.parametrize("program", sorted({*_READERS, *_ROWS, "python3"}))
def test_an_option_of_a_wrapper_may_lack_its_value_wherever_the_command_ends(program: str):
    rows = [*_ROWS.values(), *program_table()["runners"].values()]
    options = sorted({option for row in rows for option in row.get("valued", "").split()})
    for words in product((program,), ("", "run", "-c", "-exec"), (*options, "-m", "--rcfile")):
        argv = [word for word in words if word]
        assert all(one.start <= one.stop <= len(argv) for one in unwrap(argv)), argv


def test_wrappers_are_seen_through_to_a_bounded_depth():
    assert max(len(c.via) for c in read_facts("nohup " * 30 + "ls").commands) == 8


@pytest.mark.parametrize(
    ("word", "text", "quoted", "dynamic"),
    [
        ("$'\\x72\\u006d\\U0000006d\\055\\n\\q\\''", "rmm-\n\\q'", True, False),
        ("$'\\U00110000'", "\\U00110000", True, False),
        ('"a $x"', "a $x", True, True),
        ("$x", "$x", False, True),
        ("'a'$(rm x)'b'", "a$(rm x)b", True, True),
        ("`a`", "`a`", False, True),
        ("a{b,c}", "a{b,c}", False, True),
        ('"a\\"$b"\\ c', 'a"$b c', True, True),
        ("l\"'\"s", "l's", True, False),
    ],
)  # fmt: skip
def test_words_are_told_after_quote_removal(word: str, text: str, quoted: bool, dynamic: bool):  # noqa: FBT001  # a row of the table
    (_, told_word) = read_facts(f"x {word}").commands[0].words
    assert (told_word.text, told_word.quoted, told_word.dynamic) == (text, quoted, dynamic)


def test_kinds_are_what_the_taxonomy_compares_with():
    facts = read_facts("a 2>&1 $(b)")
    assert facts.redirects[0].kind is RedirectKind.STDERR
    assert facts.substitutions[0][0] is SubstitutionKind.COMMAND


@pytest.mark.parametrize(
    ("text", "dynamic"),
    [
        ("grep 'a b' *.py $x", [{2, 3}]),
        ("bash -c 'ls *.py'", [set(), {1}]),
        ('sh -c "e\\"f\\" *"', [set(), {1}]),
        (">f", [set()]),
    ],
)
def test_what_a_command_says_of_its_words_at_once_is_what_each_word_says(text, dynamic):
    commands = [command.words for command in read_facts(text).commands]
    assert [words.dynamic for words in commands] == dynamic
    for words in commands:
        assert words.argv == tuple(word.text for word in words)
        assert list(words.places) == [word.span[:2] for word in words]
        assert words.dynamic == {number for number, word in enumerate(words) if word.dynamic}


def test_a_long_script_is_parsed_whole() -> None:
    block = (
        'f%d() {\n  local a="$1"\n  case "$a" in\n    x) b ${a%%.*} | c ;;\n    *) d "$(e)" ;;\n'
    )
    block += "  esac\n  if [ -f $a ]; then\n    cat <<E\n$(g)\nE\n  fi\n}\n"
    source = Source("\n".join(block % number for number in range(120)))
    assert (len(source.text) > 16_000, source.is_cut) == (True, False)
