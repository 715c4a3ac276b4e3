"""The eleven rows of the published table, and which of our classes each of them holds."""

from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.registry import ArticleRow

ARTICLE_ROWS = tuple(row.value for row in ArticleRow)
_ROWS = {each.id: each.article.value for each in failure_classes()}


def article_row(failure_class: str) -> str:
    """The row that counts a class; what the table has no row for is its other bash."""
    return _ROWS.get(failure_class, ArticleRow.OTHER.value)
