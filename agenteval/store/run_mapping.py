"""Between rows and runs with their looks: every field goes down and comes back as it was."""

from collections.abc import Mapping
from dataclasses import asdict

from agenteval.core.run import Effort, Look, ModelCard, Options, Run
from agenteval.core.trial import Trial
from agenteval.store.rows import LookRow, RunRow


def run_row(run: Run) -> RunRow:
    return RunRow(
        id=run.id,
        model=run.model.name,
        simulated=run.model.simulated,
        started=run.started,
        seed=run.seed,
        trials_planned=run.trials_planned,
        max_turns=run.max_turns,
        concurrency=run.concurrency,
        sandbox=run.sandbox,
        prefork=run.prefork,
        protocol=run.protocol,
        taxonomy=run.taxonomy,
        complete=run.complete,
        seconds=run.effort.seconds if run.effort else None,
        joules=run.effort.joules if run.effort else None,
        second_reader=dict(run.second_reader),
        card=asdict(run.model),
        policies=dict(run.policies),
        options=asdict(run.options) if run.options else {},
        scenarios=dict(run.scenarios),
        per_token=run.per_token,
    )


def run_value(
    row: RunRow,
    trials: tuple[Trial, ...],
    looks: tuple[Look, ...] = (),
    replaced: Mapping[str, int] | None = None,
) -> Run:
    return Run(
        id=row.id,
        model=ModelCard(**row.card),
        started=row.started,
        seed=row.seed,
        trials_planned=row.trials_planned,
        max_turns=row.max_turns,
        concurrency=row.concurrency,
        sandbox=row.sandbox,
        prefork=row.prefork,
        protocol=row.protocol,
        taxonomy=row.taxonomy,
        policies=row.policies,
        complete=row.complete,
        second_reader=row.second_reader,
        trials=trials,
        looks=looks,
        options=Options(**row.options) if row.options else None,
        scenarios=row.scenarios,
        per_token=row.per_token,
        replaced=replaced or {},
        effort=None if row.seconds is None else Effort(row.seconds, row.joules),
    )


def look_row(run_id: str, look: Look) -> LookRow:
    return LookRow(run_id=run_id, **asdict(look))


def look_value(row: LookRow) -> Look:
    return Look(**row.model_dump(exclude={"id", "run_id"}))
