"""Where a store is: its URL, how it may be printed, and the schema that it must have."""

import re
from dataclasses import dataclass

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

    def __str__(self) -> str:
        """As it may be printed: a database URL can hold a password."""
        return re.sub(r"(?<=://)([^:/@]+):[^@/]*@", r"\1:***@", self.given)
