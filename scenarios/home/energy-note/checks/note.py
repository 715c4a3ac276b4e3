"""The week's note: the right circuit, and its kWh in both weeks, whatever else it says."""

import re
from pathlib import Path

from agenteval_test import known

text = Path(f"notes/energy/{known['monday']}.md").read_text(encoding="utf-8").lower()
lines = dict(re.findall(r"^[\s*_-]*(circuit|before|now)[*_]*\s*:[*_\s]*(.+)$", text, re.MULTILINE))
assert known["circuit"] in lines["circuit"], lines
for key in ("before", "now"):
    numbers = [float(n.replace(",", ".")) for n in re.findall(r"\d+(?:[.,]\d+)?", lines[key])]
    assert any(abs(number - float(known[key])) < 0.06 for number in numbers), lines
