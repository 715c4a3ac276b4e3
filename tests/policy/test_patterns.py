import pytest

from agenteval.core.patterns import CommandPattern, PathRules, WordPattern, normalise


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
    ("rule", "matches"), [("ls *", True), ("ls data/*", False), ("ls data/x", False)]
)
def test_a_word_that_bash_expands_is_matched_by_a_lone_star_only(
    rule: str, *, matches: bool
) -> None:
    assert CommandPattern.parse(rule).matches(["ls", "data/x"], frozenset({1})) is matches


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
        ("a/../b", "b"),
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
        ("a" * 4097, None),
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
