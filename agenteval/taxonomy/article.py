"""The eleven rows of the published table, and which of our classes each of them holds."""

from collections.abc import Mapping
from types import MappingProxyType

_FILTERS = "pipe to head / tail / grep / jq / sed"
_STDERR = "stderr redirect (2>&1, 2>/dev/null)"
_CHAIN = "shell chain (&&, or-fallbacks)"
_HEREDOC = "heredoc into uv run / python"
_TIMEOUT = "`timeout N uv run ...` prefix"
_BINARY = "bare disallowed binary (ls, head, cat, find)"
_CODE = '`uv run python -c "..."`'
_SCRIPT = "`uv run` of a script not on the allow list"
_OTHER = "other bash (argument quoting, complex uv run)"
_PATH = "read tool with a blocked path"
_TOOL = "hallucinated tool name"

ARTICLE_ROWS = (
    _FILTERS, _STDERR, _CHAIN, _HEREDOC, _TIMEOUT, _BINARY, _CODE, _SCRIPT, _OTHER, _PATH, _TOOL
)  # fmt: skip

_ROWS: Mapping[str, str] = MappingProxyType(
    {
        "hallucinated-tool": _TOOL,
        "blocked-path": _PATH,
        "heredoc": _HEREDOC,
        "pipe-to-filter": _FILTERS,
        "shell-chain": _CHAIN,
        "stderr-redirect": _STDERR,
        "wrapper-prefix": _TIMEOUT,
        "inline-code": _CODE,
        "hallucinated-script": _SCRIPT,
        "unlisted-script": _SCRIPT,
        "bare-binary": _BINARY,
    }
)


def article_row(failure_class: str) -> str:
    """The row that counts a class; what the table has no row for is its other bash."""
    return _ROWS.get(failure_class, _OTHER)
