"""Does the query file give the rows that the ticket asks for, whatever lies in the tables?"""

from functools import partial
from pathlib import Path

from agenteval_test import known, select

query = Path(f"queries/{known['name']}.sql").read_text(encoding="utf-8")
kind, month, threshold = known["kind"], known["month"], known["threshold"]
asked = partial(select, database="data/tracker.db")


def expected(before: list[tuple[str, list[object]]]) -> list[list[object]]:
    _, booked = asked(
        "SELECT person, day, kind, minutes FROM work_log JOIN tickets ON tickets.id = ticket_id",
        before=before,
    )
    sums: dict[str, int] = {}
    for person, day, ticket_kind, minutes in booked:
        if ticket_kind == kind and day.startswith(month):
            sums[person] = sums.get(person, 0) + minutes
    rows = [[person, minutes] for person, minutes in sums.items() if minutes > threshold]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def same(before: list[tuple[str, list[object]]]) -> bool:
    columns, rows = asked(query, before=before)
    return columns == ["person", "minutes"] and rows == expected(before)


_, tickets = asked("SELECT id, kind FROM tickets ORDER BY id")
ticket = next(number for number, its_kind in tickets if its_kind == kind)
other = next(number for number, its_kind in tickets if its_kind != kind)
year, number = month.split("-")
far = f"{int(year) - 1}-{number}-05"
more = [
    ("INSERT INTO work_log (person, ticket_id, day, minutes) VALUES (?, ?, ?, ?)", row)
    for row in [
        ["zora", ticket, f"{month}-01", 500],
        ["yuri", ticket, f"{month}-28", 500],
        ["at the threshold", ticket, f"{month}-03", threshold],
        ["just above", ticket, f"{month}-04", threshold + 1],
        ["other kind", other, f"{month}-04", 900],
        ["other year", ticket, far, 900],
    ]
]
assert same([])
assert same(more)
assert same([*more, ("DELETE FROM work_log", [])])
