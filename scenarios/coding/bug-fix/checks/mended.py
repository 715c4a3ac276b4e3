"""Do the modules do what their docstrings and the ticket say, and is the rest as it was?"""

import atexit
import json
import os
import sys
from pathlib import Path

asked = json.loads(sys.argv[1])
atexit.register(os._exit, 1)  # a module that ends the program is no pass
number = asked["number"]


def module(name: str) -> dict[str, object]:
    found: dict[str, object] = {"__name__": name}
    exec(compile(Path(f"src/{name}.py").read_text(encoding="utf-8"), name, "exec"), found)
    return found


intervals, shares, rotation = (module(name) for name in ("intervals", "shares", "rotation"))
if asked["module"] == "intervals":

    def merge(spans: list[list[int]]) -> object:
        """As run_tests.py compares it, to which tuples are lists."""
        return json.loads(json.dumps(intervals["merge"](spans)))

    spans = [[200, 300], [0, 90], [10, 20], [30, 95]]
    assert merge(spans) == [[0, 95], [200, 300]]
    assert spans == [[200, 300], [0, 90], [10, 20], [30, 95]]
    assert merge([[0, 5], [5 + number, 9 + number]]) == [[0, 9 + number]]
    assert merge([[0, 5], [6 + number, 99]]) == [[0, 5], [6 + number, 99]]
    assert merge([[0, 50], [3, 4], [5, 6], [50 + number, 400]]) == [[0, 400]]
    assert merge([]) == []
    assert intervals["minutes"]([[0, 100], [10, 20], [1000, 1001]]) == 101
else:
    assert intervals["merge"]([[5, 9], [0, 4]]) == [[0, 4], [5, 9]]
    assert intervals["minutes"]([[0, 4], [4, 9]]) == 9
if asked["module"] == "shares":
    for people in (1, 2, 3, 7, 11):
        for cents in (0, 1, 99, 1000, 12345):
            paid = shares["shares"](cents, people)
            assert (len(paid), sum(paid)) == (people, cents + number)
            assert paid == sorted(paid, reverse=True)
            assert paid[0] - paid[-1] <= 1
else:
    assert shares["shares"](90, 3) == [30, 30, 30]
assert shares["text"](1205) == "12.05"
people = ["ada", "ben", "cleo", "dario"]
if asked["module"] == "rotation":
    on_duty = rotation["on_duty"]
    for week in range(-9, 60):
        assert on_duty(people, week) == people[(week - number) % 4]
    assert rotation["plan"](people, 6) == [*people, "ada", "ben"]
else:
    assert rotation["on_duty"](people, 2) == "ada"
for name, call in (("shares", ([], 0)), ("rotation", ([], 1))):
    try:
        {"shares": shares["shares"], "rotation": rotation["on_duty"]}[name](*call)
    except (ValueError, TypeError):
        continue
    raise AssertionError(f"{name} takes nobody for an answer")
atexit.unregister(os._exit)
