"""The evaluator: the month must be right; and it wants the runner-up, which nobody knows at first.

So the first attempt never passes, however good it is, and its feedback says what is missing.
"""

import json
import sys

sys.path.insert(0, "scripts")

from stages import judge
from world import connect, row

MORE = "One month is not enough to rank by: name the runner-up too, after it: MONTH, MONTH."

given = json.loads(sys.argv[1])

with connect(writable=True) as world:
    answer = row(world, "attempts", given["attempt"])["answer"] or ""
    months = [month.strip() for month in answer.split(",")]
    feedback = "Right, both of them."
    if months == [given["answer"]]:
        feedback = f"The month is right. {MORE}"
    elif months != [given["answer"], given["runner_up"]]:
        feedback = f"{answer!r} is not what the readings say. {MORE}"
    passed = months == [given["answer"], given["runner_up"]]
    judge(world, given["attempt"], passed=passed, feedback=feedback)
