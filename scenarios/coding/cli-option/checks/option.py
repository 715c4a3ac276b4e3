"""Does src/worktimes.py have the option that the ticket asks for, and all else as before?"""

from agenteval_test import known, run, select

names = (f"--{known['option']}", f"-{known['short']}")
_, rows = select(
    "SELECT day, person, ticket_id, minutes, kind FROM work_log "
    "JOIN tickets ON tickets.id = ticket_id ORDER BY day, work_log.id",
    database="data/tracker.db",
)
person = rows[7][1]


def printed(*words: str) -> str:
    done = run("src/worktimes.py", *words)
    assert done.code == 0, done.errors
    return done.output.strip()


def expected(month: str = "", who: str = "", least: int = 0, kinds: tuple[str, ...] = ()) -> str:
    shown = [
        row
        for row in rows
        if row[0].startswith(month)
        and who in ("", row[1])
        and row[3] >= least
        and (not kinds or row[4] in kinds)
    ]
    lines = [f"{day}  {name}  T-{ticket}  {minutes}" for day, name, ticket, minutes, _ in shown]
    return "\n".join([*lines, f"total {sum(row[3] for row in shown)}"])


assert printed() == expected()
assert printed("--month", "2025-02", "--person", person) == expected("2025-02", person)
assert names[0] in printed("--help")
for name in names:
    if known["metavar"] == "MINUTES":
        assert printed(name, "60") == expected(least=60)
        assert printed("--person", person, name, "100") == expected(who=person, least=100)
        assert printed(name, "0") == expected()
        assert printed(name, "1000", "--month", "2025-01") == "total 0"
    else:
        assert printed(name, "bug") == expected(kinds=("bug",))
        both = printed(name, "chore", "--month", "2025-02", name, "question")
        assert both == expected("2025-02", kinds=("chore", "question"))
