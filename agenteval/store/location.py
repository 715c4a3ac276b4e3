"""Where a store is: its URL, how it may be printed, and the schema that it must have."""

import re
from dataclasses import dataclass
from pathlib import Path

from agenteval.errors import UsageError

SCHEMA = 8  # raised with every change of a table; `store.migration` adds what an older one lacks
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Location:
    """Given as a SQLAlchemy URL or as a plain file path. PostgreSQL is spoken to by psycopg."""

    given: str

    @property
    def url(self) -> str:
        if "://" not in self.given:
            return f"{_SQLITE}{self.given}"
        return re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", self.given)

    @property
    def file(self) -> str | None:
        """The file of an SQLite database; None for any other."""
        return self.url.removeprefix(_SQLITE) if self.url.startswith(_SQLITE) else None

    @property
    def is_there(self) -> bool:
        """False for a file that does not exist; who speaks to a server finds out by asking."""
        return self.file is None or Path(self.file).is_file()

    def check_there(self) -> None:
        """Raises UsageError: who only reads must not make a store."""
        if not self.is_there:
            raise UsageError(
                f"--store {self}: no such file. Make a run first: agenteval run --model NAME"
            )

    def __str__(self) -> str:
        """As it may be printed: a database URL can hold a password."""
        return re.sub(r"(?<=://)([^:/@]+):[^@/]*@", r"\1:***@", self.given)
