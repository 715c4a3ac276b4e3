"""Does src/logparse.py read the lines of the new runner, and only those?"""

from datetime import datetime, timedelta
from functools import partial

from agenteval_test import call, known

mark, order, stamp = known["mark"], known["order"].split(), known["stamp"]
codes = dict(zip(("info", "warning", "error"), known["levels"].split(), strict=True))
parse = partial(call, "src/logparse.py", "parse")


def line(**fields: str) -> str:
    return mark.join([*(fields[name] for name in order), fields["message"]])


messages = [
    "started",
    f"no{mark}answer{mark}at all",
    "a, b; c: 'd' \"e\"",
    "50 % | 3 > 2 ~ 1 :: 0 ; x",
]
start = datetime(2024, 2, 28, 22, 5, 9)
for number, message in enumerate(messages * 3):
    moment = start + timedelta(hours=31 * number)
    level = list(codes)[number % 3]
    fields = {"time": moment.strftime(stamp), "level": codes[level], "agent": f"agent-{number}"}
    got = parse(line(**fields, message=message))
    expected = {
        "time": moment.strftime("%Y-%m-%dT%H:%M:%S"),
        "level": level,
        "agent": f"agent-{number}",
        "message": message,
    }
    assert got == expected, (got, expected)

good = {
    "time": start.strftime(stamp),
    "level": codes["info"],
    "agent": "scout",
    "message": "started",
}
last = datetime(2023, 1, 31).strftime(stamp)
wrong = [
    "",
    "started",
    mark.join(good[name] for name in order),
    line(**good | {"level": "loud"}),
    line(**good | {"agent": ""}),
    line(**good | {"time": "yesterday"}),
    line(**good | {"time": last.replace("31", "32", 1)}),
    line(**good | {"time": last.replace("01", "13", 1)}),
]
for text in wrong:
    assert parse(text) is None, text
