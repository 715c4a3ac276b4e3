"""The evaluator of both stages: the recorded answer must be what this world's readings say."""

import sys

sys.path.insert(0, "scripts")

from agenteval_test import known
from stages import judge
from world import connect, row


def is_right(answer: str, title: str) -> bool:
    if title == known["next_title"]:
        return (
            answer.strip().replace(".", "", 1).isdigit() and float(answer) == known["next_answer"]
        )
    return answer.strip() == known["answer"]


with connect(writable=True) as world:
    answer = row(world, "attempts", known["attempt"])["answer"] or ""
    passed = is_right(answer, known["title"])
    feedback = "Right." if passed else f"{answer!r} is not what the readings say. Look again."
    judge(world, known["attempt"], passed=passed, feedback=feedback)
