"""What is read without the parse tree is what the tree says, and what the splitter says."""

import random
from pathlib import Path

import pytest
import shell_texts

from agenteval.shell.facts import Gathered, ShellFacts, Source
from agenteval.shell.gate import NotSimple, Obstacle
from agenteval.shell.leaves import read_leaves
from agenteval.shell.reader import _read_flat
from agenteval.shell.walk import Walk

OWN = Path(__file__).parents[1] / "corpus" / "commands.txt"

FLAT = [
    "",
    "ls -l 'a $b' \"c; d\" e\\;f",
    " \n ls\n\n",
    "a | b | c && d || e; f & g\nh;",
    "a\nb\n\n  c | d\ne &\nf;\ng",
    "a 'x\ny'\nb && c \"x\ny\" & d",
    "cd x && a 2>&1 | b > out.txt",
    "a >f 2>>g < h &>i &>>j >&2 >|k 2>&1 1>&2",
    "a 2 >f; b 'c'd\"e\" >g'h'",
    "ls *.py a{b,c} {} [x] ~ a#b a=b ! --x=y %",
    "find . -name '*.py' -exec grep -l x {} \\; | head",
    'a $b "$c and ${d}\'s" \'$e\' \\$f x$g.py >$h 2>>"$i" | j x${k} "\\$l"',
    "cat >$a <<'E'\n$b\nE\necho \"$c\"",
    "a \\\n  b && \\\nc | \\\n d \\\n >e",
    "export A=1; unset B; declare -x C=2; git log",
    "é è | ü",
    "cat > f <<'E'\n$x `y` \\z (\n\nE\n",
    'cd x && cat <<"E" > f 2>g \nx E\nF E\nE',
    "cat 2>&1 << E\nx 'y' \"z\"\nE\n\nls | head\ncat <<E2\n1\nE2\nb",
]
NOT_FLAT = [
    "# why",
    "a # why",
    "a |",
    "a &&",
    "a &&\n",
    "a | | b",
    "a ;; b",
    "a |& b",
    "a; ; b",
    "A=1 a",
    "if a; then b; fi",
    "a; fi",
    "time a",
    "! a",
    "[ a ]",
    "[[ a ]]",
    "'a' b",
    "$a",
    'a $1 "$@"',
    "a ${b:-c}",
    'a "`b`"',
    'a "$(b)"',
    "a $",
    "a `b`",
    "a $(b)",
    "a <(b)",
    "(a)",
    "{ a; }",
    "a() { b; }",
    "a <<E\nE",
    "a <<E",
    "a <<E\nx",
    "a <<E\n$x\nE",
    "a <<E | b\nx\nE",
    "a <<E f\nx\nE",
    "a <<E; b\nx\nE",
    "a <<-E\nx\nE",
    "a <<< b",
    "a <> b",
    "a >&-",
    "a >&f",
    "a 3>&1b",
    "a > f b",
    "a12>f",
    "a 12>f",
    "a {x}>f",
    "> f",
    "a > #f",
    "a\\\nb",
    "a \\\nb c\\\nd",
    "a &\\\n& b",
    "a\\ b",
    "a \x01",
    "a 'b",
    'a "b',
    "a\\",
    "a " * 9000,
]


def walked(text: str) -> ShellFacts:
    found = Gathered()
    Walk(Source(text), found).run()
    return found.freeze(text, ())


def told(facts: ShellFacts) -> dict[str, object]:
    """All the facts, each command by its place, its words and its redirects."""
    kinds = {field: list(found) for field, found in facts._asdict().items()}
    return kinds | {
        "commands": [
            (c.extent, list(c.words.places), c.argv, c.redirects) for c in facts.commands if c.words
        ],
        "pipelines": [[command.extent for command in commands] for commands in facts.pipelines],
    }


def flat_facts(text: str) -> dict[str, object] | None:
    facts = _read_flat(Source(text))
    return facts and told(facts)


@pytest.mark.parametrize("text", FLAT)
def test_flat_text_is_read_as_the_tree_reads_it(text: str) -> None:
    assert flat_facts(text) == told(walked(text))


@pytest.mark.parametrize("text", NOT_FLAT)
def test_what_is_more_than_flat_is_left_to_the_tree(text: str) -> None:
    assert flat_facts(text) is None


def test_commands_of_agents_are_read_as_the_tree_reads_them() -> None:
    texts = OWN.read_text(encoding="utf-8").removesuffix("\n").split("\n%%\n")
    flat = {text: facts for text in texts if (facts := flat_facts(text)) is not None}
    assert len(flat) > len(texts) // 4
    by_tree = {
        text: told(tree)
        for text in flat
        if words_and_redirects(tree := walked(text)) == by_splitter(text)
    }
    assert len(by_tree) > len(flat) * 0.95  # where the tree has other words, it is wrong
    assert by_tree == {text: flat[text] for text in by_tree}


def test_made_up_text_has_the_words_and_redirects_that_the_splitter_finds() -> None:
    chance = random.Random(20261121)
    made = [shell_texts.joined(chance) for _ in range(1500)]
    made += [shell_texts.mutated(text, chance) for text in made]
    flat = {text: facts for text in made if (facts := _read_flat(Source(text)))}
    assert len(flat) > 100
    assert {text: words_and_redirects(facts) for text, facts in flat.items()} == {
        text: by_splitter(text) for text in flat
    }


def words_and_redirects(facts: ShellFacts) -> object:
    words = [command.argv for command in facts.commands]
    return words, [redirect.span for redirect in facts.redirects]


def by_splitter(text: str) -> object:
    """The words and redirects that the splitter finds, which reads no variables."""
    read = read_leaves(text)
    if isinstance(read, NotSimple):
        assert (read.reason, text[read.start]) == (Obstacle.EXPANSION, "$")
        facts = _read_flat(Source(text))
        assert facts
        return words_and_redirects(facts)
    return [leaf.argv for leaf in read.leaves], [redirect.span for redirect in read.redirects]
