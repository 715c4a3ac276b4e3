import re

import pytest
from clocks import processor_seconds, steps
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agenteval.policy.command_lines import (
    Argument,
    CommandLine,
    CommandPattern,
    Kind,
    PathRules,
    WordPattern,
    normalise,
    path_regex,
)
from agenteval.policy.parsers import misuse


@pytest.mark.parametrize(
    ("rule", "argv", "matches"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status", "git", False),
        ("git diff *", "git diff", True),
        ("git diff *", "git diff HEAD --stat", True),
        ("git diff *", "git difftool", False),
        ("git * --stat", "git diff --stat", True),
        ("git * --stat", "git --stat", False),
        ("git log --max-count=*", "git log --max-count=5", True),
        ("git log --max-count=*", "git log --max-count", False),
        ("cat data/*", "cat data/a", True),
        ("cat data/*", "cat data/a data/b/c", True),
        ("cat data/*", "cat", False),
        ("cat data/*", "cat data/a /etc/passwd", False),
        ("cat data/*", "cat data/../x", False),
        ("cat data/*", "cat data/..", False),
        ("cat data/*", "cat data/..x", True),
        ("foo --dir=*/data", "foo --dir=../data", False),
        ("foo --dir=*/data", "foo --dir=../../data", False),
        ("foo --dir=*/data", "foo --dir=a/data", True),
        ("foo -I*/inc/*", "foo -I../inc/x", False),
        ("foo -*/inc/*", "foo -I../inc/x", False),
        ("foo a,*/x", "foo a,../x", False),
        ("cat --file=data/*", "cat --file=data/../x", False),
        ("x a*b*a", "x aba", True),
        ("x a*b*a", "x aa", False),
        ("x a*a", "x a", False),
        ("x *.py", "x a.py", True),
        ("x *.py", "x a.py b.py", False),
        ("*", "anything", True),
        ("* --help", "git --help", True),
    ],
)
def test_a_rule_matches_word_by_word(rule: str, argv: str, matches: bool) -> None:  # noqa: FBT001
    assert CommandPattern.parse(rule).matches(argv.split()) is matches


def test_words_are_compared_whole_and_never_as_joined_text() -> None:
    rule = CommandPattern.parse("git status")
    assert not rule.matches(["git status"])
    assert CommandPattern.parse("git log *").matches(["git", "log", "a b", "*", "\n"])


@pytest.mark.parametrize(
    ("rule", "matches"),
    [("ls *", True), ("ls data/*", False), ("ls data/x", False), ("ls * x", False), ("* *", True)],
)
def test_a_word_that_bash_expands_is_matched_by_a_last_star_only(
    rule: str, *, matches: bool
) -> None:
    assert CommandPattern.parse(rule).matches(["ls", "data/x", "x"], frozenset({1})) is matches


def test_a_rule_of_no_words_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one word"):
        CommandPattern.parse("  ")


def test_a_long_word_is_matched_in_linear_time() -> None:
    pattern = WordPattern.parse("a*" * 50 + "b")
    assert not pattern.matches("a" * 100_000)
    assert pattern.matches("a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        ("a/../b", None),
        ("a//../b", None),
        ("./a/./../b", None),
        ("../w/a/../b", None),
        ("/w/../w/a", None),
        ("a/b/c/..", None),
        (".../../a", None),
        (".a/../a", None),
        ("./../w/a", "a"),
        ("a/..b", "a/..b"),
        ("a/b..", "a/b.."),
        ("x" * 256, None),
        ("a/" + "x" * 255, "a/" + "x" * 255),
        ("/w/a", "a"),
        ("/w", "."),
        ("", None),
        ("..", None),
        ("../w/a", "a"),
        ("a/../../b", None),
        ("/etc/passwd", None),
        ("/work/a", None),
        ("~/a", None),
        ("a\0b", None),
        ("a/" * 2048 + "a", None),
        ("...", "..."),
        ("a b\nc", "a b\nc"),
    ],
)
def test_paths_are_normalised_below_the_workspace(path: str, inside: str | None) -> None:
    assert normalise(path, "/w") == inside


def test_the_workspace_may_be_the_root_folder() -> None:
    assert normalise("/etc", "/") == "etc"


@pytest.mark.parametrize(
    ("path", "admitted"),
    [
        ("notes/a.md", True),
        ("notes/deep/a.md", True),
        ("notes", False),
        ("data/a.csv", True),
        ("data/deep/a.csv", False),
        ("data/a1.txt", True),
        ("data/a12.txt", False),
        ("notes/secret.key", False),
        ("secret.key", False),
        ("notes/x/secret.key", False),
        ("other", False),
        ("dataXa.csv", False),
        ("notes/a\nb", True),
    ],
)
def test_globs_open_paths_and_deny_wins(path: str, *, admitted: bool) -> None:
    rules = PathRules(("notes/**", "data/*.csv", "data/a?.txt"), ("**/*.key",))
    assert rules.admits(path) is admitted


def test_nothing_is_open_without_a_rule() -> None:
    assert not PathRules().admits("a")


def tried_in_every_way(glob: str) -> str:
    tokens = re.split(r"((?:^|(?<=/))\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(token) or re.escape(token) for token in tokens)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["**/", "**", "*", "?", "/", "a", "b"]), max_size=9).map("".join),
    st.lists(st.sampled_from("ab/"), max_size=9).map("".join),
)
def test_a_glob_fits_as_if_every_way_had_been_tried(glob: str, path: str) -> None:
    assume("//" not in path)
    expected = re.fullmatch(tried_in_every_way(glob), path, re.DOTALL)
    assert (path_regex(glob).fullmatch(path) is None) == (expected is None)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("notes/*-*-*.md", "notes/" + "-" * 3000),
        ("notes/*-*-*-*-*.md", "notes/" + "-/" * 2000),
        ("**/node_modules/**/*.key", "node_modules/" * 315),
        ("**a*a**a*a**b", "a" * 255 + "/" + "a" * 255),
        ("**/*a*a*/**/*a*b/**/c", ("a" * 200 + "/") * 20),
    ],
)
def test_no_path_takes_long(glob: str, path: str) -> None:
    rules = PathRules((glob,))
    assert not rules.admits(path)
    assert processor_seconds(lambda: rules.admits(path), enough=0.5) < 0.5


@pytest.mark.parametrize("part", ["a/", "./", "../", "a/./", "//"])
def test_no_path_takes_long_to_normalise(part: str) -> None:
    path = part * (4096 // len(part))
    assert processor_seconds(lambda: normalise(path, "/w"), enough=0.5) < 0.5


def test_a_long_cluster_of_flags_is_read_in_linear_time() -> None:
    flags = [Argument("-v", Kind.FLAG, repeatable=True), Argument("-q", Kind.FLAG, repeatable=True)]
    line = CommandLine.of(flags)

    def read(number: int) -> int:
        argv = ["-" + "vq" * number]
        assert misuse(line, argv, 0, dynamic=(), root="/w") is None
        return steps(lambda: misuse(line, argv, 0, dynamic=(), root="/w"))

    assert read(8_000) < 5 * read(2_000)
