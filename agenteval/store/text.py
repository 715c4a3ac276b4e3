"""Text exactly as a model wrote it, in columns that cannot hold all of it."""

import json

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

MARK = "\x02json:"


class ExactText(TypeDecorator[str]):
    r"""A text column that keeps NUL characters and lone surrogates.

    SQLite cannot encode the one, PostgreSQL refuses the other; a model writes both, as `\u0000`
    and `\udcff` in its JSON. Such a text is stored as MARK and its JSON in ASCII, all
    others as they are.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        if value is None or not (value.startswith(MARK) or "\0" in value or _has_surrogate(value)):
            return value
        return MARK + json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        if value is None or not value.startswith(MARK):
            return value
        return str(json.loads(value.removeprefix(MARK)))


def _has_surrogate(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
