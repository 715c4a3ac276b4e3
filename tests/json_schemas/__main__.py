"""Write the published schemas anew."""

from json_schemas import DOCUMENTS, PLACE, text

PLACE.mkdir(exist_ok=True)
for name in DOCUMENTS:
    (PLACE / f"{name}.json").write_text(text(name), encoding="utf-8")
