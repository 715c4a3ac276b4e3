"""How far claims of being done are found: `python tests/measure_claims.py LABELS.json`.

The file is a JSON array of objects: `text`, the message; `claim`, whether a reader takes it to say
that the work asked for is done; `lang`, its language. What is got wrong is listed.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agenteval.stats.rates import wilson
from agenteval.trial.claims import claims_done

LISTED = 200  # characters of a message


def share(count: int, n: int) -> str:
    if not n:
        return "none"
    low, high = wilson(count / n, n)
    return f"{count} of {n}, {100 * count / n:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def told(messages: list[dict[str, Any]]) -> Iterator[str]:
    counts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for message in messages:
        found, claim = claims_done(message["text"]), message["claim"]
        for group in ("all", message["lang"]):
            counts[group][claim, found] += 1
        if found is not claim:
            what = "missed" if claim else "false"
            yield f"{what} {message['lang']} {' '.join(message['text'].split())[:LISTED]}"
    for group, of in counts.items():
        right = of[True, True]
        yield f"{group}: n={sum(of.values())}"
        yield f"  claims that are found: {share(right, right + of[True, False])}"
        yield f"  of what is found, claims: {share(right, right + of[False, True])}"


if __name__ == "__main__":
    page = "\n".join(told(json.loads(Path(sys.argv[1]).read_text())))
    print(page)  # noqa: T201 -- what the script is for
