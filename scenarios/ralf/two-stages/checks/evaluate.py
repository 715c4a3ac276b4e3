"""The evaluator of both stages: the recorded answer must be what this world's readings say."""

import json
import sys

sys.path.insert(0, "scripts")

from stages import judge
from world import connect, row

given = json.loads(sys.argv[1])


def is_right(answer: str, title: str) -> bool:
    if title == given["next_title"]:
        return (
            answer.strip().replace(".", "", 1).isdigit() and float(answer) == given["next_answer"]
        )
    return answer.strip() == given["answer"]


with connect(writable=True) as world:
    answer = row(world, "attempts", given["attempt"])["answer"] or ""
    passed = is_right(answer, given["title"])
    feedback = "Right." if passed else f"{answer!r} is not what the readings say. Look again."
    judge(world, given["attempt"], passed=passed, feedback=feedback)
