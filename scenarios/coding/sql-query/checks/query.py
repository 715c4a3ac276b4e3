"""Does the query file give the rows that the ticket asks for, whatever lies in the tables?"""

import json
import sqlite3
import sys
from pathlib import Path

asked = json.loads(sys.argv[1])
query = Path(f"queries/{asked['name']}.sql").read_text(encoding="utf-8")
kind, month, threshold = asked["kind"], asked["month"], asked["threshold"]
world = sqlite3.connect(":memory:")
with sqlite3.connect("file:data/tracker.db?mode=ro", uri=True) as stored:
    stored.backup(world)


def expected() -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for person, day, ticket_kind, minutes in world.execute(
        "SELECT person, day, kind, minutes FROM work_log JOIN tickets ON tickets.id = ticket_id"
    ):
        if ticket_kind == kind and day.startswith(month):
            sums[person] = sums.get(person, 0) + minutes
    rows = [(person, minutes) for person, minutes in sums.items() if minutes > threshold]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def same() -> bool:
    cursor = world.execute(query)
    columns = [column[0] for column in cursor.description]
    return columns == ["person", "minutes"] and cursor.fetchall() == expected()


assert same()
(ticket,) = world.execute("SELECT id FROM tickets WHERE kind = ?", [kind]).fetchone()
(other,) = world.execute("SELECT id FROM tickets WHERE kind <> ?", [kind]).fetchone()
year, number = month.split("-")
far = f"{int(year) - 1}-{number}-05"
for person, day, where, minutes in [
    ("zora", f"{month}-01", ticket, 500),
    ("yuri", f"{month}-28", ticket, 500),
    ("at the threshold", f"{month}-03", ticket, threshold),
    ("just above", f"{month}-04", ticket, threshold + 1),
    ("other kind", f"{month}-04", other, 900),
    ("other year", far, ticket, 900),
]:
    world.execute(
        "INSERT INTO work_log (person, ticket_id, day, minutes) VALUES (?, ?, ?, ?)",
        [person, where, day, minutes],
    )
assert same()
world.execute("DELETE FROM work_log")
assert same()
