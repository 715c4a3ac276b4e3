"""From two servers to a verdict, as a user would type it: models whose rates are known.

`AGENTEVAL_RECORD=FILE` keeps what is typed and what the screen shows: docs/promote.md has it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from caller import PIPED, chain
from llama import got, llama_server
from markov import write_weights
from places import AbsentError

CLOSES = 0.4  # of all calls
WORSE = 0.3  # of the candidate's calls are piped
SAMPLING = "sampling = { temperature = 1, top_p = 1, top_k = 0, min_p = 0 }\n"


@pytest.fixture
def servers(tmp_path_factory):
    """The addresses of two: of `steady`, and of `hasty`, which pipes five times as often."""
    try:
        root = got()
    except AbsentError as absent:
        pytest.skip(str(absent))
    folder = tmp_path_factory.mktemp("two")
    for name, piped in (("steady", PIPED), ("hasty", WORSE)):
        write_weights(folder / f"{name}.gguf", chain(piped=piped, closes=CLOSES))
    with (
        llama_server(root, folder / "steady.gguf", slots=4, name="steady") as steady,
        llama_server(root, folder / "hasty.gguf", slots=4, name="hasty") as hasty,
    ):
        yield f"{steady}/v1", f"{hasty}/v1"


def typed(*arguments: str) -> tuple[int, str]:
    """Its exit code and what stands on the screen then; kept in a file where one is named."""
    done = subprocess.run(
        [sys.executable, "-m", "agenteval", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    if record := os.environ.get("AGENTEVAL_RECORD"):
        with Path(record).open("a") as kept:
            kept.write(f"$ agenteval {' '.join(arguments)}\n{done.stderr}{done.stdout}\n")
    return done.returncode, done.stdout


@pytest.mark.slow
def test_a_hasty_candidate_is_not_promoted_over_a_steady_model(servers, project: Path) -> None:
    scenario = project / "scenarios" / "known" / "rates" / "scenario.toml"
    drawn = scenario.read_text()
    scenario.write_text(drawn.replace("from = 1000, to = 98000", "from = 1000, to = 1000"))
    code, told = typed("init", *servers)
    assert (code, told.splitlines()[0]) == (0, "wrote agenteval.toml, with steady, hasty")
    written = (project / "agenteval.toml").read_text()
    assert [url for url in servers if url in written] == list(servers)
    (project / "agenteval.toml").write_text(written.replace("model = ", SAMPLING + "model = "))

    code, told = typed("promote", "hasty", "--over", "steady", "known/rates", "--trials", "40")
    verdict, meaning = told.splitlines()[-2:]
    assert (code, verdict) == (1, "FAIL")
    assert meaning.startswith("hasty must not replace steady. Beyond its limit: ")
    assert "errors" in meaning
    (margin,) = [line for line in told.splitlines() if line.startswith("margin ")]
    low, high = margin.split("[")[1].split("]")[0].split(",")
    assert float(low) <= 100 * (WORSE - PIPED) <= float(high), margin
