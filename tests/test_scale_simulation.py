"""The simulation of docs/scale.md bends where the closed form says, and the page shows it."""

from pathlib import Path

import pytest
from scale_simulation import Costs, closed_form, narrow, rows, simulated

PAGE = Path(__file__).parent.parent / "docs/scale.md"
BENDS = {
    "slots": Costs(model=2.0, core=0.001, store=0.0001, slots=4),
    "cores": Costs(model=0.2, core=0.1, store=0.0001, slots=32),
    "store": Costs(model=0.2, core=0.001, store=0.05, slots=32),
}


@pytest.mark.parametrize("bound", BENDS)
def test_a_long_run_takes_as_long_as_its_narrowest_part_says(bound) -> None:
    costs = BENDS[bound]
    ratio = simulated(20_000, 4, costs) / closed_form(20_000, 4, costs)
    assert (narrow(20_000, 4, costs), 0.98 < ratio < 1.1) == (bound, True)


def test_a_trial_in_one_piece_is_a_fair_account_of_one_call_after_another() -> None:
    whole, by_call = (simulated(20_000, 8, steps=steps) for steps in (1, 10))
    assert abs(whole / by_call - 1) < 0.1


def test_the_page_shows_what_is_simulated() -> None:
    text = PAGE.read_text()
    assert [row for row in rows((10_000, 100_000)) if row not in text] == []
