"""`agenteval speed` as a user meets it."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from agenteval.workflows.preflight import levels_of

HEAD = "(APIServer pid=1) INFO 11-21 10:00:{:02} [loggers.py:271] Engine 000: "
LINE = (
    "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {} tokens/s, Running: {} reqs,"
    " Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 87.0%\n"
)
ASKED = 'INFO:     10.0.0.5:53422 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
LOG = "".join(
    [
        HEAD.format(0) + LINE.format("100.0", 2),
        *[ASKED] * 3,
        HEAD.format(10) + LINE.format("110.0", 2),
        HEAD.format(20) + LINE.format("120.0", 2),
        HEAD.format(30) + LINE.format("0.0", 0),
        ASKED,
    ]
)


def test_a_log_becomes_tables_by_what_was_running(cli, project) -> None:
    (project / "vllm.log").write_text(LOG)
    said = cli("speed", "ingest", "vllm.log")
    rows = [line.split() for line in said.out.splitlines() if line[:1].isdigit()]
    assert (said.code, rows[:-2]) == (
        0,
        [
            ["2", "3", "110", "110", "119", "120"],  # active
            ["2", "1", "110", "110", "110", "110"],  # sustained
            ["2", "3", "55.0", "55.0", "59.5", "60.0"],  # of each request
            ["0", "1", "0.000", "0.000", "0.000", "0.000"],  # completions a minute
            ["2", "3", "6.00", "0.000", "16.2", "18.0"],
        ],
    )


PROMPTS = (0.0, 4000.0, 0.0, 2000.0, 0.0)


def test_the_published_tables_come_out_of_a_log_of_known_values(cli, project) -> None:
    """Four requests at 30 tokens/s each in 5 windows, two prompts read; then one at 60 in three."""
    lines = [
        HEAD.format(10 * at % 60).replace("10:00:", f"10:{at // 6:02}:")
        + LINE.replace("prompt throughput: 0.0", f"prompt throughput: {prompt}").format(speed, many)
        + ASKED * answers
        for at, (prompt, speed, many, answers) in enumerate(
            [(prompt, 120.0, 4, 2) for prompt in PROMPTS] + [(0.0, 60.0, 1, 0)] * 3
        )
    ]
    (project / "vllm.log").write_text("".join(lines))
    found = json.loads(cli("speed", "ingest", "vllm.log", "--json", "--watts", "600").out)
    one, four = found["by_running"]

    def same(n: int, value: float) -> dict[str, float]:
        return {"n": n} | dict.fromkeys(("mean", "median", "p95", "peak"), value)

    assert (four["active"], four["sustained"], four["each"]) == (
        same(5, 120.0), same(3, 120.0), same(5, 30.0))  # fmt: skip
    assert (one["active"], one["sustained"], one["each"]) == (
        same(3, 60.0), same(1, 60.0), same(3, 60.0))  # fmt: skip
    prefill = four["prompt"], four["prompt_sustained"], one["prompt"], one["prompt_sustained"]
    assert [spread and (spread["n"], spread["mean"], spread["peak"]) for spread in prefill] == [
        (2, 3000.0, 4000.0), (5, 1200.0, 4000.0), None, (3, 0.0, 0.0)]  # fmt: skip
    assert [four["per_minute"]["mean"], one["per_minute"]["mean"]] == [9.6, 4.0]
    assert [part["tokens_per_kwh"] for part in (four, one)] == [720_000.0, 360_000.0]
    shown = cli("speed", "ingest", "vllm.log", "--watts", "600").out
    titles = ("of each request", "Prefill tokens/s, active", "Prefill tokens/s, sustained",
              "Completions per minute", "Generation tokens per kWh", "at 600 W")  # fmt: skip
    assert ([one for one in titles if one not in shown], "Power:" in shown) == ([], False)
    rows = [line.split() for line in shown.splitlines() if line[:1].isdigit()]
    assert rows[-3:-1] == [["1", "360,000"], ["4", "720,000"]]


def test_what_no_table_shows_is_said_below_them(cli, project) -> None:
    (project / "vllm.log").write_text(LOG)
    assert cli("speed", "ingest", "vllm.log").out.splitlines()[-4:] == [
        "4 engine lines make 4 windows; 4 completions, 0 requests refused or failed.",
        "1 completions after the last engine line are in no table.",
        "Power: not in such a log; --watts says what the machines draw.",
        "",
    ]


def test_a_log_becomes_json_whose_totals_add_up(cli, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LOG.encode())))
    found = json.loads(cli("speed", "ingest", "-", "--json").out)
    parts = found["by_running"]
    assert (
        found["windows"],
        found["completions"],
        found["unplaced"],
        [part["running"] for part in parts],
        sum(part["windows"] for part in parts),
        sum(part["completions"] for part in parts) + found["unplaced"],
    ) == (4, 4, 1, [0, 2], 4, 4)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[11:22:33 TP0] Decode batch. #running-req: 2, #token: 40, token usage: 0.1", "of SGLang"),
        ("slot print_timing: id  0 | task 0 | n_decoded = 36, tg = 11.9 t/s", "of llama.cpp"),
        ("[GIN] 2026/05/07 - 04:56:17 | 200 |  1.2s | POST /api/chat", "of Ollama"),
        ("[2026-05-07 04:56:17 DP0] Avg thr (in/out): 1.0 / 2.0 tokens/s", "of LMDeploy"),
        ("Avg prompt throughput: 5 tok/s", "in 1 lines (1 speak of it in a form not known here)"),
        ("hello", "no engine line in 1 lines; expected vLLM's"),
    ],
)
def test_a_log_of_another_server_is_told_by_its_name(cli, project, text, complaint) -> None:
    (project / "server.log").write_text(text + "\n")
    said = cli("speed", "ingest", "server.log")
    assert (said.code, complaint in said.err, said.err.count("\n")) == (2, True, 1), said.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name runs"),
        (("ingest",), "vLLM's log files"),
        (("nosuch",), "agenteval.db: no such file"),
        (("last", "-m", "sim/qwen3.5-27b"), "name runs, or a --model"),
        (("-m", "sim/qwen3.5-27b", "--concurrency", "0"), "numbers from 1 to 9999"),
        (("ingest", "none.log"), "none.log: cannot be read"),
        (("ingest", "agenteval.toml"), "no engine line in 0 lines"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(cli, arguments, complaint) -> None:
    said = cli("speed", *arguments)
    assert (said.code, complaint in said.err, said.out) == (2, True, "")


@pytest.mark.slow
def test_a_sweep_plays_one_run_at_each_level_and_speed_shows_them(cli) -> None:
    few = ("--trials", "2", "--concurrency", "1,2", "--json")
    said = cli("run", "-m", "sim/qwen3.5-27b", *few, "media/rendered-plot")
    runs = json.loads(said.out)["runs"]
    found = json.loads(cli("speed", *(run["id"] for run in runs), "--json").out)
    shown = cli("speed", *(run["id"] for run in runs)).out
    assert (
        [run["concurrency"] for run in runs],
        [(one["run"], one["concurrency"], one["simulated"]) for one in found],
        [one["requests"] for one in found],
        all(one["seconds"] > 0 and one["useful"] > 0 for one in found),
        [one["prefill"] for one in found],  # nothing says what was cached
        "SIMULATED" in shown,
        "Power: not observable." in shown,
    ) == (
        [1, 2],
        [(run["id"], run["concurrency"], True) for run in runs],
        [run["turns"] for run in runs],
        True,
        [None, None],
        True,
        True,
    )


@pytest.mark.slow
def test_a_sweep_ends_with_how_fast_each_level_was_served(cli) -> None:
    few = ("-m", "sim/qwen3.5-27b", "--trials", "1", "media/rendered-plot")
    tables = [
        "Speed by concurrency" in cli("run", *few, "--concurrency", levels).out
        for levels in ("1,2", "2")
    ]
    assert tables == [True, False]


@pytest.mark.parametrize("levels", ["0", "-1", "1,,2", "1;2", "", "99999", "\u0662"])
def test_a_level_that_is_no_number_is_refused(cli, levels) -> None:
    said = cli("run", "-m", "sim/qwen3.5-27b", "--concurrency", levels)
    assert (said.code, said.err.count("--concurrency"), said.out) == (2, 1, "")


def test_a_model_is_asked_at_each_level_with_prompts_of_the_wanted_length(cli) -> None:
    asked = ("--concurrency", "1,3", "--prompt-tokens", "500", "--requests", "4", "--json")
    found = json.loads(cli("speed", "-m", "sim/qwen3.5-27b", *asked).out)
    assert (
        [(one["concurrency"], one["requests"], one["failed"], one["run"]) for one in found],
        [one["prefill"]["n"] for one in found],  # no prompt can have been cached
        [(one["useful"], one["simulated"]) for one in found],
        all(one["tokens_per_second"] > 0 for one in found),
    ) == ([(1, 4, 0, ""), (3, 4, 0, "")], [4, 4], [(None, True)] * 2, True)


def test_a_server_that_never_replies_measures_nothing(cli, answering, reply) -> None:
    broken = reply("500 Internal Server Error", "application/json", '{"error": "out of memory"}')
    models = reply("200 OK", "application/json", '{"data": []}')
    with answering(broken, models=models) as url:
        said = cli("speed", "-m", "mine", "--base-url", url, "--requests", "1")
    assert (said.code, "mine: no reply to 1 requests" in said.err, said.out) == (2, True, "")


def test_a_real_server_that_counts_no_tokens_is_timed_all_the_same(cli, answering, reply) -> None:
    said = {"choices": [{"message": {"content": "A story."}, "finish_reason": "stop"}]}
    models = reply("200 OK", "application/json", '{"data": []}')
    with answering(reply("200 OK", "application/json", json.dumps(said)), models=models) as url:
        asked = ("--base-url", url, "--requests", "2", "--concurrency", "1", "--json")
        (found,) = json.loads(cli("speed", "-m", "mine", *asked).out)
    assert (found["requests"], found["completion_tokens"], found["prefill"]) == (2, 0, None)


def test_a_level_named_twice_is_played_once() -> None:
    assert levels_of("4, 1,4") == (4, 1)


def test_power_that_cannot_be_observed_is_said_and_the_run_goes_on(cli) -> None:
    few = ("--trials", "1", "--power", "--json")
    said = cli("run", "-m", "sim/qwen3.5-27b", *few, "media/rendered-plot")
    (found,) = json.loads(cli("speed", "last", "--json").out)
    assert (said.code, "power is not observable: a simulated model" in said.err) == (0, True)
    assert (found["joules"], found["tokens_per_kwh"]) == (None, None)
