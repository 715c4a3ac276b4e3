"""Which modules are mutated, and which tests are theirs: the one place to mend when paths move."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

_POLICY = (  # the quick ones first: the first that fails ends it
    "tests/policy/test_allowlists.py",
    "tests/policy/test_loopholes.py",
    "tests/policy/test_mismatch.py",
    "tests/policy/test_lint.py",
    "tests/policy/test_names_as_sent.py",
    "tests/policy/test_what_runs.py",
    "tests/policy/test_denied.py",
    "tests/policy/test_patterns.py",
    "tests/policy/test_lookalikes.py",
)

TARGETS: dict[str, tuple[str, ...]] = {
    "agenteval/shell/gate.py": (
        "tests/shell/test_gate.py",
        "tests/shell/test_leaves.py",
    ),
    "agenteval/policy/rules.py": _POLICY,
    "agenteval/policy/policy.py": _POLICY,
    "agenteval/trial/claims.py": ("tests/trial/test_claims.py",),
    "agenteval/trial/intents.py": (
        "tests/trial/test_likeness.py",
        "tests/trial/test_recovery_labels.py",
    ),
    "agenteval/trial/recovery.py": (
        "tests/trial/test_recovery.py",
        "tests/trial/test_recovery_labels.py",
    ),
    "agenteval/trial/call.py": ("tests/trial/test_outcome.py",),
    "agenteval/trial/summary.py": (
        "tests/stats/test_verdicts.py",
        "tests/stats/test_criteria.py",
        "tests/report/test_one_pairing.py",
    ),
    "agenteval/stats/rates.py": (
        "tests/stats/test_cluster_variance.py",
        "tests/stats/test_estimand.py",
        "tests/stats/test_rates.py",
    ),
    "agenteval/stats/promotion.py": (
        "tests/stats/test_alpha_spending.py",
        "tests/stats/test_verdicts.py",
        "tests/stats/test_criteria.py",
        "tests/stats/test_limit_tests.py",
    ),
    "agenteval/stats/criteria.py": (
        "tests/stats/test_verdicts.py",
        "tests/stats/test_criteria.py",
        "tests/config/test_gate_rules.py",
        "tests/test_plugins.py::test_a_criterion_whose_name_is_taken_or_that_would_never_happen_is_left_out",
        "tests/cli/test_gate_command.py::test_a_table_of_counts_by_scenario_and_trial_can_be_the_baseline",
    ),
    "agenteval/stats/limits.py": (
        "tests/stats/test_limit_tests.py",
        "tests/stats/test_guarded_tests.py",
    ),
    "agenteval/store/sql.py": (
        "tests/store/test_sql_store.py",
        "tests/store/test_moving.py",
        "tests/store/test_shards.py",
        "tests/store/test_reviews.py",
    ),
    "agenteval/store/location.py": (
        "tests/store/test_tables.py",
        "tests/store/test_sql_store.py",
        "tests/store/test_names.py",
        "tests/cli/test_bad_input.py",
        "tests/cli/test_host_faults.py",
    ),
    "agenteval/store/write.py": (
        "tests/store/test_tables.py",
        "tests/store/test_sql_store.py",
        "tests/store/test_moving.py",
        "tests/store/test_names.py",
        "tests/store/test_shards.py",
    ),
    "agenteval/store/summaries.py": (
        "tests/store/test_names.py",
        "tests/store/test_gate_reads.py",
        "tests/store/test_summaries.py",
        "tests/store/test_migration.py",
    ),
}
