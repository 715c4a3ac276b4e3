"""The column type for text exactly as a model wrote it."""

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from agenteval.store.exact import from_column, to_column


class ExactText(TypeDecorator[str]):
    r"""A text column that keeps NUL characters and lone surrogates.

    SQLite cannot encode the one, PostgreSQL refuses the other; a model writes both, as `\u0000`
    and `\udcff` in its JSON.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else to_column(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else from_column(value)
