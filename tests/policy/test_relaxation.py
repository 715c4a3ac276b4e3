"""What a list would have to say too for a denied command, and that nothing else changes."""

from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.lint import Relaxation, needed, relaxed, smallest
from agenteval.policy.policy import allows_command
from agenteval.shell.leaves import Construct

DEMO = load_policy("demo", roots=[shipped()])
LIST = "uv run scripts/notes.py list"
PIPE = Construct.PIPE


@pytest.mark.parametrize(
    ("command", "constructs", "programs", "told"),
    [
        (f"{LIST} | head -5", {PIPE}, {"head"}, "allow `pipe` into head"),
        (f"{LIST} | sort | jq .", {PIPE}, {"sort", "jq"}, "allow `pipe` into jq, sort"),
        ("git status && date -I", {Construct.CHAIN}, set(), "allow `chain`"),
        (f"{LIST} 2>&1 | head", {PIPE, Construct.STDERR_REDIRECT}, {"head"},
         "allow `pipe` and `stderr-redirect` with head"),
        ("ls -la", set(), {"ls"}, "allow ls"),
    ],
)  # fmt: skip
def test_what_is_needed_is_just_what_allows_it(command, constructs, programs, told) -> None:
    need = needed(command, DEMO)
    assert need == Relaxation(frozenset(constructs), frozenset(programs))
    assert (need.description, need.size) == (told, len(constructs) + len(programs))
    assert (allows_command(command, DEMO), allows_command(command, relaxed(DEMO, need))) == (
        False, True)  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "bash -c ls",
        "python3 -c 'x'",
        f"{LIST} | xargs rm",
        "sudo ls",
        "uv run scripts/notes.py list --invented",
        "./run.sh",
        "X=1 ls",
        "cat *",
        "for x in a; do ls; done",
        "eval ls",
        "ls '",
    ],
)
def test_no_rule_is_proposed_that_would_open_anything(command) -> None:
    assert needed(command, DEMO) is None


def test_the_rules_are_lines_of_an_allow_list(tmp_path) -> None:
    more = Relaxation(frozenset({PIPE, Construct.CHAIN}), frozenset({"jq", "head"}))
    assert more.rules == 'constructs = ["chain", "pipe"]\nallow = ["head *", "jq *"]'
    assert Relaxation().rules == ""
    (tmp_path / "more.toml").write_text(f'extends = "demo"\n[bash]\n{more.rules}\n')
    written = load_policy(str(tmp_path / "more.toml"), roots=[shipped()])
    for command in (f"{LIST} | jq .", "head x; git status", "git status > x", "ls"):
        assert allows_command(command, written) == allows_command(command, relaxed(DEMO, more))


def test_what_a_list_denies_by_name_stays_denied(tmp_path) -> None:
    (tmp_path / "a.toml").write_text('[bash]\nallow = ["ls"]\ndeny = ["rm *"]\n')
    policy = load_policy(str(tmp_path / "a.toml"), roots=[])
    more = needed("rm x", policy)
    assert more is not None
    assert not allows_command("rm x", relaxed(policy, more))


_WORDS = ("ls", "head", LIST, "git status", "|", "&&", ";", "2>&1", "> x", "'a b'", "rm -r x", "&")


@given(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6), st.sampled_from(["ls", "head"]))
def test_a_relaxed_list_allows_whatever_it_allowed(words, program) -> None:
    command = " ".join(words)
    more = Relaxation(frozenset({PIPE}), frozenset({program}))
    assert allows_command(command, DEMO) <= allows_command(command, relaxed(DEMO, more))
    joined = more | Relaxation(frozenset({Construct.CHAIN}))
    assert joined.holds(more)
    assert not more.holds(joined)


_PROGRAMS = st.frozensets(st.sampled_from("abcde"), max_size=3)
_CONSTRUCTS = st.frozensets(st.sampled_from([Construct.PIPE, Construct.CHAIN]), max_size=2)
_NEEDS = st.dictionaries(
    st.builds(Relaxation, _CONSTRUCTS, _PROGRAMS), st.integers(1, 9), max_size=7
)


@given(_NEEDS, st.integers(0, 40))
def test_the_smallest_set_is_that_of_trying_all(needs, wanted) -> None:
    items = sorted({item for need in needs for item in need.items})
    sets = [
        Relaxation.of(chosen)
        for size in range(len(items) + 1)
        for chosen in combinations(items, size)
    ]

    def held(more):
        return sum(count for need, count in needs.items() if more.holds(need))

    enough = [more for more in sets if held(more) >= wanted]
    least = min((more.size for more in enough), default=None)
    found, is_least = smallest(needs, wanted)
    assert is_least
    if least is None:
        assert found is None
    else:
        most = max(held(more) for more in enough if more.size == least)
        assert (found.size, held(found)) == (least, most)


def test_where_there_are_too_many_sets_one_is_found_and_that_is_said(monkeypatch) -> None:
    monkeypatch.setattr("agenteval.policy.lint._Search.look", _gives_up)
    needs = {Relaxation(programs=frozenset(names)): 1 for names in ("ab", "bc", "d")}
    assert smallest(needs, 2) == (Relaxation(programs=frozenset("abd")), False)


def _gives_up(search, *_):
    search.looks_left = 0


@pytest.mark.slow
def test_a_large_log_is_searched_for_no_longer_than_a_bound() -> None:
    rng = Random(3)
    names = [f"p{number}" for number in range(60)]
    needs = Counter(Relaxation(programs=frozenset(rng.sample(names, 4))) for _ in range(900))
    found, is_least = smallest(needs, 500)
    assert not is_least
    assert sum(count for need, count in needs.items() if found.holds(need)) >= 500
