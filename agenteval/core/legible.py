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


def visible(text: str) -> str:
    """The text with a sign for every character that would hide, or move what stands beside it.

    Control characters are pictures, as at a terminal; what turns the direction of writing, joins
    or has no width is its number. Ends of lines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _sign(one) for one in text)


def _sign(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def shortened(text: str, most: int) -> str:
    """Its first characters, and how many more there are."""
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]} ({rest} more characters)"
