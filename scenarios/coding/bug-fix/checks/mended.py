"""Do the modules do what their docstrings and the ticket say, and is the rest as it was?"""

from functools import partial

from agenteval_test import Raised, call, call_in_place, known

number = known["number"]
intervals, shares, rotation = (
    partial(call, f"src/{name}.py") for name in ("intervals", "shares", "rotation")
)
if known["module"] == "intervals":
    merge = partial(intervals, "merge")
    spans = [[200, 300], [0, 90], [10, 20], [30, 95]]
    merged, after = call_in_place("src/intervals.py", "merge", spans)
    assert merged == [[0, 95], [200, 300]]
    assert after == [spans]
    assert merge([[0, 5], [5 + number, 9 + number]]) == [[0, 9 + number]]
    assert merge([[0, 5], [6 + number, 99]]) == [[0, 5], [6 + number, 99]]
    assert merge([[0, 50], [3, 4], [5, 6], [50 + number, 400]]) == [[0, 400]]
    assert merge([]) == []
    assert intervals("minutes", [[0, 100], [10, 20], [1000, 1001]]) == 101
else:
    assert intervals("merge", [[5, 9], [0, 4]]) == [[0, 4], [5, 9]]
    assert intervals("minutes", [[0, 4], [4, 9]]) == 9
if known["module"] == "shares":
    for people in (1, 2, 3, 7, 11):
        for cents in (0, 1, 99, 1000, 12345):
            paid = shares("shares", cents, people)
            assert (len(paid), sum(paid)) == (people, cents + number)
            assert paid == sorted(paid, reverse=True)
            assert paid[0] - paid[-1] <= 1
else:
    assert shares("shares", 90, 3) == [30, 30, 30]
assert shares("text", 1205) == "12.05"
people = ["ada", "ben", "cleo", "dario"]
if known["module"] == "rotation":
    for week in range(-9, 60):
        assert rotation("on_duty", people, week) == people[(week - number) % 4]
    assert rotation("plan", people, 6) == [*people, "ada", "ben"]
else:
    assert rotation("on_duty", people, 2) == "ada"
for name, ask in (
    ("shares", partial(shares, "shares", [], 0)),
    ("rotation", partial(rotation, "on_duty", [], 1)),
):
    kinds: list[str] = []
    try:
        ask()
    except Raised as error:
        kinds = error.kinds
    assert {"ValueError", "TypeError"} & {*kinds}, f"{name} takes nobody for an answer"
