"""The published table comes out of our own calls, class by class."""

import itertools
from collections import Counter
from pathlib import Path

import pytest

from agenteval.classes.catalogue import ARTICLE_ROWS, article_row
from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.errors import UsageError
from agenteval.logs.measured import ARTICLE, _load_article

PROJECT = Path(__file__).resolve().parents[2]
MODELS = ("qwen3.6-35b-a3b", "qwen3.5-27b", "qwen3.5-122b-a10b")

# Row by row as published: errors; the calls, of which the published rates are made, have a test.
COUNTS = {
    "pipe to head / tail / grep / jq / sed": (10, 1, 2),
    "stderr redirect (2>&1, 2>/dev/null)": (0, 1, 0),
    "shell chain (&&, or-fallbacks)": (4, 0, 3),
    "heredoc into uv run / python": (0, 0, 1),
    "`timeout N uv run ...` prefix": (0, 0, 2),
    "bare disallowed binary (ls, head, cat, find)": (1, 0, 0),
    '`uv run python -c "..."`': (0, 1, 0),
    "`uv run` of a script not on the allow list": (0, 2, 1),
    "other bash (argument quoting, complex uv run)": (4, 1, 0),
    "read tool with a blocked path": (0, 3, 2),
    "hallucinated tool name": (0, 0, 2),
}


@pytest.fixture(scope="module")
def article():
    return _load_article(roots=[PROJECT])


@pytest.fixture(scope="module")
def rows(article):
    """The table's row of every denied call, by model."""
    policy = load_policy(ARTICLE, roots=[PROJECT])
    return {
        model: Counter(
            article_row(verdict.primary.failure_class)
            for session in sessions
            for call in session
            if (verdict := judge(call, policy)).primary
        )
        for model, sessions in article.items()
    }


def test_sessions_and_calls_are_as_many_as_published(article):
    sizes = {model: (len(sessions), sum(map(len, sessions))) for model, sessions in article.items()}
    assert sizes == dict(zip(MODELS, [(20, 158), (21, 161), (17, 128)], strict=True))


def test_errors_are_as_many_as_published(rows, article):
    errors = [rows[model].total() for model in MODELS]
    calls = [sum(map(len, article[model])) for model in MODELS]
    per_100 = [f"{100 * e / n:.2f}" for e, n in zip(errors, calls, strict=True)]

    assert (errors, per_100) == ([19, 9, 13], ["12.03", "5.59", "10.16"])


@pytest.mark.parametrize("row", ARTICLE_ROWS)
def test_each_row_has_the_published_counts(row, rows):
    assert tuple(rows[model][row] for model in MODELS) == COUNTS[row]


def test_no_two_sessions_are_the_same_calls(article):
    sessions = [
        tuple((call.name, call.raw) for call in session)
        for sessions in article.values()
        for session in sessions
    ]

    assert len(set(sessions)) == len(sessions) == 58


def test_the_model_that_tried_variants_rarely_closed_and_the_others_mostly_did(article):
    closed = {
        model: sum("ralf_spawn step_evaluator" in session[-1].raw for session in sessions)
        for model, sessions in article.items()
    }

    assert closed == dict(zip(MODELS, (12, 21, 15), strict=True))


def test_after_each_denial_the_dense_model_went_on_with_an_allowed_call(article):
    policy = load_policy(ARTICLE, roots=[PROJECT])
    verdicts = [
        [judge(call, policy).allowed for call in session] for session in article["qwen3.5-27b"]
    ]

    following = [
        after for session in verdicts for before, after in itertools.pairwise(session) if not before
    ]

    assert following == [True] * 9


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "calls.jsonl:1: the line: Invalid JSON"),
        ('{"model": "m", "session": "s"}', "calls.jsonl:1: call: Field required"),
        (
            '{"model": "m", "session": "s", "call": {"name": "bash", "arguments": "{"}}',
            "calls.jsonl:1: call.arguments: Expecting",
        ),
    ],
)
def test_a_broken_line_is_named(text, says, tmp_path):
    path = tmp_path / "fixtures" / "article" / "calls.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError) as caught:
        _load_article(roots=[tmp_path])

    assert says in str(caught.value)


def test_a_missing_fixture_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"fixtures/article/calls.jsonl: not found in"):
        _load_article(roots=[tmp_path])
