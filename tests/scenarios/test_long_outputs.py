"""What a real tool prints at length is long: 30 to 200 kB, of which little is wanted."""

import pytest

from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.config.trust import roots
from agenteval.sandbox.maker import fill, render

RUN = "uv run scripts/"
# Each is what its scenario tells of, without the option that makes it short.
LONG = {
    "data/hung-import": f"{RUN}log.py --job {{{{ job }}}}",
    "data/meter-total": f'{RUN}db_query.py --sql "SELECT * FROM readings"',
    "data/pantry-audit": f"{RUN}pantry_export.py",
    "data/slow-export": f"{RUN}run_export.py --page 1",
    "home/energy-note": f"{RUN}meter.py readings",
    "media/transcripts": f"{RUN}video_index.py --command show-transcript --id {{{{ video }}}}",
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_the_whole_of_it_has_the_length_that_a_real_one_has(name, seed, workspace, play) -> None:
    (scenario,) = load_scenarios([name], roots=roots())
    workspace(load_fixture(scenario, seed, roots=roots()))
    done = play(fill(LONG[name], render(scenario, seed).variables))
    assert (done.returncode, 30_000 <= len(done.stdout) <= 200_000) == (0, True), done.stdout[-300:]


def test_the_hours_of_a_circuit_add_up_to_its_days(workspace, play) -> None:
    (scenario,) = load_scenarios(["home/energy-note"], roots=roots())
    workspace(load_fixture(scenario, 1, roots=roots()))
    known = render(scenario, 1).variables
    circuit, monday, sunday = known["circuit"], known["monday"], known["sunday"]
    rows = [
        line.rsplit("  ", 2)
        for line in play(f'{RUN}meter.py readings --circuit "{circuit}"').stdout.splitlines()
    ]
    hours = [float(kwh) for _, hour, kwh in rows if monday <= hour[:10] <= sunday]
    total = f'{RUN}meter.py total --circuit "{circuit}" --first {monday} --last {sunday}'
    assert len(hours) == 7 * 24
    assert play(total).stdout.startswith(f"{circuit}: {sum(hours):.1f} kWh on 7 days")
