"""Write the published schemas anew; with --check only say which are not as the types are."""

import sys

from json_schemas import DOCUMENTS, PLACE, text

PLACE.mkdir(exist_ok=True)
old = [
    name
    for name in DOCUMENTS
    if not (PLACE / f"{name}.json").is_file()
    or (PLACE / f"{name}.json").read_text(encoding="utf-8") != text(name)
]
if "--check" in sys.argv and old:
    sys.exit(f"schemas that are not as the types are: {', '.join(old)}; make format")
for name in old:
    (PLACE / f"{name}.json").write_text(text(name), encoding="utf-8")
