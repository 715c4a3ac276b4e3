"""A job of Harbor: a folder for each trial, in which each call counts once, in its own trial."""

import json
from collections import Counter
from pathlib import Path

from agenteval.logs.formats import FORMATS
from agenteval.logs.ingest import take_in
from agenteval.trial.session import Skipped

MODEL = "some-model"


def step(number, *calls, **more):
    made = [
        {"tool_call_id": f"call_{number}_{at}", "function_name": name, "arguments": given}
        for at, (name, given) in enumerate(calls)
    ]
    shared = {"step_id": number, "source": "agent", "message": "on", "tool_calls": made}
    return {**shared, "observation": {"results": [{"content": f"screen {number}"}]}, **more}


def typed(keys):
    return ("bash_command", {"keystrokes": keys, "duration": 0.1})


def trajectory(steps, **more):
    agent = {"name": "terminus-2", "version": "2.0", "model_name": MODEL}
    return {"schema_version": "ATIF-v1.7", "agent": agent, "steps": steps, **more}


USER = {"step_id": 1, "source": "user", "message": "go"}
FIRST = step(2, typed("ls\n"), typed("C-c"))
COPIED = {**FIRST, "is_copied_context": True}


def job(folder: Path) -> Path:
    """As `harbor run` leaves it: two trials of one task by Terminus, one by mini-swe-agent."""
    files = {"config.json": {"job_name": "j"}, "result.json": {"n_total_trials": 3}}
    for name in ("hello__a1", "hello__b2", "hello__c3"):
        files[f"{name}/config.json"] = {"trial_name": name}
        files[f"{name}/result.json"] = {
            "task_name": "hello",
            "trial_name": name,
            "agent_info": {"name": "mini", "version": "1", "model_info": {"name": "m"}},
            "verifier_result": {"rewards": {"reward": 1.0}},
        }  # fmt: skip
        files[f"{name}/verifier/reward.json"] = {"reward": 1.0}
    whole = trajectory(
        [USER, FIRST], session_id="s1", continued_trajectory_ref="trajectory.cont-1.json"
    )
    files["hello__a1/agent/trajectory.json"] = whole
    files["hello__a1/agent/trajectory.cont-1.json"] = trajectory(
        [COPIED, step(3, typed("cat a | head\n"))], session_id="s1-cont-1"
    )
    files["hello__a1/agent/trajectory.summarization-1-summary.json"] = trajectory(
        [USER, COPIED, step(3)], session_id="s1-summarization-1-summary"
    )
    inner = trajectory([USER, step(2, ("Bash", {"command": "id"}))], trajectory_id="t9")
    files["hello__b2/agent/trajectory.json"] = trajectory(
        [USER, FIRST], session_id="s2", subagent_trajectories=[inner]
    )
    bare = trajectory([USER, step(2, ("bash_command", {"command": "w"}))])
    bare["agent"] = {"name": "mini", "version": "1"}
    files["hello__c3/agent/trajectory.json"] = bare
    files["hello__c3/agent/mini-swe-agent.trajectory.json"] = {"info": {}, "messages": []}
    for name, value in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(value))
    return folder


def test_each_call_of_a_job_is_counted_once_and_in_its_own_trial(tmp_path) -> None:
    found = [
        one
        for file in FORMATS["atif"].find_files(job(tmp_path / "jobs/j"))
        for one in FORMATS["atif"].read(file)
    ]
    assert [one for one in found if isinstance(one, Skipped)] == []
    calls = Counter(call.call.command or call.call.name for one in found for call in one.calls)
    assert calls == {"ls": 2, "bash_command": 2, "cat a | head": 1, "id": 1, "w": 1}
    assert len({one.id for one in found if one.turns}) == 6
    assert {one.project for one in found} == {"hello"}
    assert [call.said for one in found for call in one.calls if call.call.command == "w"] == [
        "screen 2"
    ]


def test_a_sub_agent_that_is_embedded_is_a_session_of_its_own(tmp_path) -> None:
    found = [*FORMATS["atif"].read(job(tmp_path) / "hello__b2/agent/trajectory.json")]
    told = [(one.id, one.parent, one.model, len(one.calls)) for one in found]
    own = "s2/trajectory.json"
    assert told == [(f"{own}/t9", own, MODEL, 1), (own, "", MODEL, 2)]


def test_a_fault_in_an_embedded_trajectory_has_a_place(tmp_path) -> None:
    inner = trajectory([{"sourse": "agent"}])
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(trajectory([USER], subagent_trajectories=[inner])))
    skipped = [one for one in FORMATS["atif"].read(path) if isinstance(one, Skipped)]
    assert [one.at for one in skipped] == ["sub-agent 1, step 1"]


def test_what_is_no_trajectory_is_named(tmp_path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text("{}")
    assert [one.reason for one in FORMATS["atif"].read(path) if isinstance(one, Skipped)] == [
        "no ATIF trajectory: no step in it"
    ]


def test_a_job_becomes_runs_by_model_and_is_taken_in_once(tmp_path) -> None:
    folder, store = str(job(tmp_path / "jobs")), f"{tmp_path}/store.db"
    first = take_in("atif", [folder], store)
    told = {one.model: sum(one.recorded.values()) for one in first.runs.values()}
    assert (told, first.skipped) == ({MODEL: 6, "m": 1}, [])
    assert not take_in("atif", [folder], store).has_news
