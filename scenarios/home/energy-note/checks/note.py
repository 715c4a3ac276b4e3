"""The week's note: the right circuit, and its kWh in both weeks, whatever else it says."""

import re
from pathlib import Path

from agenteval_test import known

text = Path(f"notes/energy/{known['monday']}.md").read_text(encoding="utf-8").lower()
lines = dict(re.findall(r"^[\s*_-]*(circuit|before|now)[*_]*\s*:[*_\s]*(.+)$", text, re.MULTILINE))
assert re.sub(r"[^\w\s]", "", lines["circuit"]).strip() == known["circuit"], lines
for key in ("before", "now"):
    numbers = [float(n.replace(",", ".")) for n in re.findall(r"\d+(?:[.,]\d+)?", lines[key])]
    assert len(numbers) == 1, lines
    assert abs(numbers[0] - float(known[key])) < 0.06, lines
