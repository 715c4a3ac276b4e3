"""The evaluator: the month must be right; and it wants the runner-up, which nobody knows at first.

So the first attempt never passes, however good it is, and its feedback says what is missing.
"""

import sys

sys.path.insert(0, "scripts")

from agenteval_test import known
from stages import judge
from world import connect, row

MORE = "One month is not enough to rank by: name the runner-up too, after it: MONTH, MONTH."

with connect(writable=True) as world:
    answer = row(world, "attempts", known["attempt"])["answer"] or ""
    months = [month.strip() for month in answer.split(",")]
    feedback = "Right, both of them."
    if months == [known["answer"]]:
        feedback = f"The month is right. {MORE}"
    elif months != [known["answer"], known["runner_up"]]:
        feedback = f"{answer!r} is not what the readings say. {MORE}"
    passed = months == [known["answer"], known["runner_up"]]
    judge(world, known["attempt"], passed=passed, feedback=feedback)
