r"""Text that can be sent, stored and shown, whatever came in its place.

A lone surrogate is half of a character: no UTF-8 holds it, so no request and no page could. It
comes from an escape that breaks off (`\ud83d`), and stands here for a byte that is no UTF-8 too.
"""

REPLACEMENT = "\ufffd"


def decoded(content: bytes) -> str:
    """Bytes as text, whatever they are: a byte that is no UTF-8 becomes a lone surrogate."""
    return content.decode("utf-8", "surrogateescape")


def is_legible(text: str) -> bool:
    """Whether no lone surrogate stands in it."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def paired(text: str) -> str:
    """The text with the halves of one character, which came apart, put together."""
    if is_legible(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def legible(text: str) -> str:
    """The text with U+FFFD for what is no character."""
    if is_legible(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
