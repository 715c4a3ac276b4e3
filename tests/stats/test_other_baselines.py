"""What a gate tells of the verdicts over other baselines."""

from types import SimpleNamespace

from agenteval.stats.promotion import other_baseline_remarks


def test_verdicts_over_other_baselines_are_told_and_none_where_there_is_none() -> None:
    looks = [SimpleNamespace(baseline=one, verdict="PASS") for one in ("a", "b")]
    (told,) = other_baseline_remarks(looks, "b")
    assert "another baseline before (a: PASS)" in told
    assert [*other_baseline_remarks(looks[1:], "b")] == []
