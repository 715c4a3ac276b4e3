"""Failure classes of redirects: where a command's output and errors go, and its input is from."""

from agenteval.core.shell.facts import RedirectKind
from agenteval.taxonomy.denied import ALONE, DeniedCall, redirected
from agenteval.taxonomy.failure_class import ArticleRow, Seen, failure_class


@failure_class(
    bad=[
        "uv run scripts/notes.py list 2>&1",
        "uv run scripts/notes.py list 2>/dev/null",
        "uv run scripts/notes.py list &> out.txt",
    ],
    good=["uv run scripts/notes.py add '2>&1'", "uv run scripts/notes.py add 2"],
    cure=ALONE + "; its errors are shown to you anyway.",
    seen_in=[RedirectKind.STDERR],
    slip="{} 2>&1",
    article=ArticleRow.STDERR,
)
def stderr_redirect(call: DeniedCall) -> Seen | None:
    """Error output moved or thrown away.

    Errors are what tells the agent how to go on. They are already part of each result.
    """
    return redirected(call, RedirectKind.STDERR)


@failure_class(
    bad=[
        "uv run scripts/notes.py list > notes.txt",
        "uv run scripts/notes.py list >> notes.txt",
        "uv run scripts/notes.py add - < notes.txt",
        "uv run scripts/notes.py list <>notes.txt",
        "exec 3<>notes.txt",
    ],
    good=[
        "uv run scripts/notes.py search 'a > b'",
        "uv run scripts/db_query.py --sql 'select 1<2'",
    ],
    cure=ALONE + " and read its output.",
    seen_in=[RedirectKind.FILE, RedirectKind.INPUT],
    slip="{} > out.txt",
)
def file_redirect(call: DeniedCall) -> Seen | None:
    """Input or output redirected from or to a file.

    It reads or writes a path that the rules for reading and writing never saw.
    """
    return redirected(call, RedirectKind.FILE, RedirectKind.INPUT)
