"""Whatever is wrong with what the user gave is one line: what, where, how to mend it; exit 2."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from program import agenteval

JSON = "application/json"
SIM = ("run", "-m", "sim/qwen3.5-27b", "--trials", "1")


def one_line(said) -> str:
    """The error, when it is what a user may be shown; before it, which names hide shipped ones."""
    lines = [
        line for line in said.err.splitlines(keepends=True) if " hides the shipped" not in line
    ]
    assert (said.code, len(lines), "Traceback" in said.err) == (2, 1, False), said.err
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "-m", "nobody"), ["'nobody'", "agenteval.toml", "--base-url", "sim/"]),
        (("run", "-m", "sim/nobody"), ["'sim/nobody'", "sim/qwen3.5-27b"]),
        (("run", "-m", "x", "--base-url", "here:80"), ["'here:80'", "http://"]),
        (("run", "-m", "x", "--base-url", "http://127.0.0.1:9/v1"), ["127.0.0.1:9", "vllm serve"]),
        (("run", "-m", "x", "--base-url", "http://[::1"), ["'http://[::1'"]),
        (("models", "--base-url", "http://here:99999/v1"), ["'http://here:99999/v1'"]),
        ((*SIM, "--report", "."), ["--report .", "not a file"]),
        (("show", "article", "--report", "/proc/x.html"), ["--report /proc/x.html"]),
        (("show", "last", "article"), ["stands alone"]),
        (("show", "x", "--store", "postgresql+nothing://u:secret@h/x"), ["u:***@h"]),
        ((*SIM, "no-such-scenario"), ["'no-such-scenario'", "ralf/handshake"]),
        ((*SIM, "--sandbox", "chroot"), ["chroot", "bubblewrap"]),
        ((*SIM, "--store", "mongodb://x/y"), ["--store mongodb://x/y"]),
        (("show", "no-such-run"), ["reports/agenteval.db: no such file", "agenteval run"]),
        (("show", "--store", ""), ["--store ''", "keeps no run", "name a file"]),
        (("whatif", "last", "--budget", "-5"), ["--budget", "-5.0 is not in the range"]),
        (("show", "--store", "typo.db"), ["--store typo.db: no such file", "agenteval run"]),
        (("compare", "a", "b", "--store", "typo.db"), ["--store typo.db: no such file"]),
        ((*SIM, "--context", "9999999k"), ["--context 9999999k", "at most 10000000"]),
        ((*SIM, "--job", "7"), ["--job", "--shard K/N"]),
        ((*SIM, "--lease", "9"), ["--lease", "--shard K/N"]),
        ((*SIM, "--base-url", "http://h/v1"), ["--base-url", "sim/qwen3.5-27b", "on no server"]),
        (("speed", "last", "--store", "typo.db"), ["--store typo.db: no such file"]),
        (("run", "--resume", "last", "--store", "typo.db"), ["--store typo.db: no such file"]),
        (("runs", "import", "typo.db"), ["agenteval: typo.db: no such file"]),
        (("runs", "import", "notes.txt"), ["agenteval: notes.txt: not a store of"]),
        (("store", "check", "--store", "notes.txt"), ["agenteval: --store notes.txt: not a"]),
    ],
)
def test_a_name_that_is_not_there(cli, project, arguments, parts) -> None:
    (project / "notes.txt").write_text("no store, and long enough to be looked into\n" * 99)
    line = one_line(cli(*arguments))
    assert [part for part in parts if part not in line] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("allowlist", "lint", "a" * 5000), "no allow list 'aaa"),
        (("scenarios", "show", "a" * 5000), "cannot be read or written: File name too long"),
        (("scenarios", "show", "loop"), "loop: cannot be read or written: Too many levels of sym"),
        (("gate", "--explain"), "gate.toml: cannot be read"),
        (("show", "--store", "http://[::1"), "--store http://[::1: cannot be opened"),
    ],
)
def test_what_the_machine_refuses_is_one_line_too(cli, project, arguments, said) -> None:
    (project / "loop").symlink_to("loop")
    (project / "gate.toml").symlink_to("nowhere")
    assert said in one_line(cli(*arguments))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compare", "x.csv", "--report", b"none\xff.html"), (0, "Report: none⟨U+DCFF⟩.html")),
        (("show", "--store", b"none\xff"), (2, "agenteval: --store none⟨U+DCFF⟩: no such file")),
    ],
)
def test_bytes_that_are_no_text_are_a_sign_in_one_line(project, arguments, told) -> None:
    (project / "x.csv").write_text("model,calls,class,errors\na,9,x,1\nb,9,x,2\n")
    ended = agenteval(project, *arguments, env={"PYTHONIOENCODING": "utf-8:strict"})
    last = (ended.stdout + ended.stderr).splitlines()[-1]
    assert (ended.returncode, last[: len(told[1])]) == told


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run", "--modle", "x"), "run: no such option: --modle; did you mean --model?"),
        (("gate", "--zzz"), "gate: no such option: --zzz."),
        (("run", "--trials", "x"), "run: --trials: 'x' is not a whole number."),
        (("run", "--trials", "0"), "run: --trials: 0 is not in the range x>=1."),
        (("speed", "--window", "x"), "speed: --window: 'x' is not a number."),
        (("run", "--rules", "mid"), "run: --rules: 'mid' is not one of 'start', 'end', 'both'."),
        (("compare",), "compare: missing argument 'runs'."),
        (("doctor", "now"), "doctor: got unexpected extra argument(s) (now)."),
        (("scenarios", "shw"), "scenarios: no such command 'shw'. Did you mean 'show'?"),
    ],
)
def test_an_argument_that_no_command_takes(cli, arguments, line) -> None:
    command = line.split(":", maxsplit=1)[0]
    assert one_line(cli(*arguments)) == f"agenteval: {line} See agenteval {command} --help\n"


def test_an_option_without_its_value_is_told_before_the_command_is_known(cli) -> None:
    told = "agenteval: option --trials requires an argument. See agenteval --help\n"
    assert one_line(cli("run", "--trials")) == told


def test_no_command_at_all_prints_the_help_and_no_complaint(cli) -> None:
    said = cli("import")
    assert (said.code, "counts" in said.out, said.err) == (2, True, "")


@pytest.mark.parametrize("variable", ["AGENTEVAL_BASE_URL", "OPENAI_BASE_URL"])
def test_the_environment_goes_before_the_file_and_a_flag_before_both(
    cli, project, monkeypatch, variable
) -> None:
    (project / "agenteval.toml").write_text(
        "[models.m]\nbase_url = 'http://127.0.0.1:7/v1'\nmodel = 'm'\n"
    )
    from_file = one_line(cli("run", "-m", "m", "ralf/handshake"))
    monkeypatch.setenv(variable, "http://127.0.0.1:8/v1")
    from_environment = one_line(cli("run", "-m", "m", "ralf/handshake"))
    from_flag = one_line(
        cli("run", "-m", "m", "--base-url", "http://127.0.0.1:9/v1", "ralf/handshake")
    )
    said = [from_file, from_environment, from_flag]
    assert [line.split("127.0.0.1:")[1][0] for line in said] == ["7", "8", "9"]


@pytest.mark.parametrize(
    ("path", "old", "new", "parts"),
    [
        ("agenteval.toml", "", "[models", ["agenteval.toml", "not valid TOML"]),
        (
            "agenteval.toml",
            "",
            "[models.a]\nmodel = 'm'\nbase_url = 'http://x/v1'\nurl = 1",
            ["unknown key models.a.url"],
        ),
        ("agenteval.toml", "", "[models]\na = 1", ["models.a: expected a table"]),
        (
            "scenarios/ralf/handshake/scenario.toml",
            'policy = "ralf"',
            'policy = "ralph"',
            ["'ralph'", "ralf", "pantry"],
        ),
        (
            "scenarios/ralf/handshake/scenario.toml",
            'fixture = "ralf"',
            'fixture = "ralph"',
            ["'ralph'", "fixture"],
        ),
        (
            "scenarios/ralf/handshake/scenario.toml",
            "max_turns = ",
            "max_turn = ",
            ["scenario.toml", "max_turn"],
        ),
        ("allowlists/ralf.toml", "", "[bash", ["allowlists/ralf.toml", "not valid TOML"]),
        ("fixtures/ralf/world.sql", "CREATE TABLE", "CREATE TABEL", ["world.sql", "TABEL"]),
    ],
)
def test_a_file_that_is_broken(cli, own_project, path, old, new, parts) -> None:
    file = own_project / path
    file.write_text(file.read_text().replace(old, new, 1) if old else new)
    # A simulated run needs no agenteval.toml, and no broken one stops it.
    command = ("models",) if path == "agenteval.toml" else (*SIM, "ralf/handshake")
    line = one_line(cli(*command))
    assert [part for part in parts if part not in line] == []


def test_a_fixture_that_is_gone(cli, own_project) -> None:
    shutil.rmtree(own_project / "fixtures" / "ralf")
    file = own_project / "scenarios/ralf/handshake/scenario.toml"
    file.write_text(file.read_text().replace('fixture = "ralf"', 'fixture = "gone"'))
    assert "'gone'" in one_line(cli(*SIM, "ralf/handshake"))


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (("401 Unauthorized", JSON, "{}"), ["401", "OPENAI_API_KEY"]),
        (("500 Oops", JSON, "cuda error"), ["500", "cuda error"]),
        (("200 OK", "text/html", "<html>router"), ["no model list", "<html>router"]),
        (("200 OK", JSON, '{"data": [{"id": "other"}]}'), ["does not serve 'm' but other"]),
    ],
)
def test_a_server_that_is_not_ready_for_the_model(cli, answering, reply, answer, parts) -> None:
    with answering(reply(*answer)) as url:
        line = one_line(cli("run", "-m", "m", "--base-url", url, "ralf/handshake"))
    assert [part for part in [url, *parts] if part not in line] == []


def test_a_key_that_no_header_can_carry_names_its_variable(cli, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "kéy")
    assert "OPENAI_API_KEY" in one_line(
        cli("run", "-m", "m", "--base-url", "http://127.0.0.1:9/v1", "ralf/handshake")
    )


@pytest.mark.parametrize("bytes_", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_a_server_that_says_nothing_or_half(cli, answering, bytes_) -> None:
    with answering(bytes_) as url:
        assert url in one_line(cli("run", "-m", "m", "--base-url", url, "ralf/handshake"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (("500 Oops", JSON, "cuda error"), "500: 'cuda error'"),
        (("200 OK", "text/html", "<html>"), "the reply is no chat completion"),
        (("200 OK", JSON, '{"choices": [{"mess'), "the reply is no chat completion"),
        (
            ("200 OK", "text/event-stream", 'data: {"choices": [{"de'),
            "a broken event in the stream",
        ),
    ],
)
def test_a_server_that_breaks_in_a_trial_makes_voids_with_their_reason(
    cli, answering, reply, answer, reason
) -> None:
    with answering(reply(*answer), models=reply("200 OK", JSON, '{"data": []}')) as url:
        said = cli("run", "-m", "m", "--base-url", url, "--trials", "3", "--json", "ralf/handshake")
    run = json.loads(said.out)["runs"][0]
    assert [reason in void["reason"] for void in run["voids"]] == [True] * 3
    assert (said.code, "m: all 3 trials are void, nothing was measured" in said.err) == (5, True)


def test_a_model_that_the_server_forgot_ends_the_run_and_keeps_the_store(
    cli, answering, reply
) -> None:
    with answering(
        reply("404 Not Found", JSON, "{}"), models=reply("200 OK", JSON, '{"data": []}')
    ) as url:
        said = cli("run", "-m", "m", "--base-url", url, "--trials", "1", "ralf/handshake")
    assert (said.code, "404 for model 'm'" in said.err.splitlines()[-1]) == (2, True)
    listed = cli("show").out
    assert "0 of 1 trials  not finished" in listed
    assert "0 of 1 trials are here, and 1 that were cut off" in cli("show", listed.split()[0]).out


@pytest.mark.slow
def test_a_reader_who_goes_away_ends_a_command_without_a_failure(project, cli) -> None:
    """As `agenteval show | head -1` does. What a gate found, its exit code tells all the same."""
    for _ in range(2):
        cli(*SIM, "ralf/handshake", "--trials", "1")
    runs = [run["id"] for run in json.loads(cli("show", "--json").out)["runs"]]
    gate = ("gate", "--baseline", runs[0], "--candidate", runs[1], "--allow-simulated")
    commands = {("show",): 0, ("show", "last"): 0, ("explain",): 0, gate: 3}
    ends = {words: unread(project, *words) for words in commands}
    assert ends == {words: (code, "") for words, code in commands.items()}


def unread(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code and the errors of a command whose output nobody reads."""
    read, write = os.pipe()
    os.close(read)
    ended = agenteval(folder, *words, stdout=write)
    os.close(write)
    return ended.returncode, ended.stderr


def test_an_exit_code_is_the_same_when_nobody_reads_what_was_found(project) -> None:
    (project / "calls.jsonl").write_text('{"command": "ls | head"}\nnone\n')
    (project / "same.toml").write_text('stated = ["nope"]\n[bash]\nallow = ["ls"]\n')
    found = [
        ("classify", "ls | head", "--exit-code"),
        ("classify", "--jsonl", "calls.jsonl"),
        ("allowlist", "lint", "same.toml"),
    ]
    assert [unread(project, *words)[0] for words in found] == [1, 2, 1]


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_an_exit_code_is_the_same_where_an_output_is_closed(project, closed) -> None:
    asked = (("classify 'ls | head' --exit-code", 1), ("show", 0), ("--version", 0), ("gate", 2))
    for words, code in asked:
        shell = f"{sys.executable} -m agenteval {words} {closed}"
        ended = subprocess.run(shell, shell=True, check=False, cwd=project, capture_output=True)
        assert (words, ended.returncode, b"Traceback" in ended.stderr) == (words, code, False)


def test_a_list_that_warns_of_no_class_there_is_gets_a_remark(cli, project) -> None:
    (project / "odd.toml").write_text('stated = ["nope", "pipe"]\n[bash]\nallow = ["ls"]\n')
    said = cli("allowlist", "lint", "odd.toml")
    told = "there is no such failure class; `agenteval explain` lists them"
    assert (said.code, said.out) == (1, f"odd.toml: `stated nope` never matches: {told}\n")
