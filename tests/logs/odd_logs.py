"""Odd inputs of each format, made from a good log: cut, half written, mixed, hostile."""

import json
from collections.abc import Iterator

DEEP = "[" * 50_000 + "]" * 50_000
HUGE = "9" * 400
HOSTILE = "\x00\x1b]0;x\x07\u202e<script>'; DROP TABLE call;--\ud800\udfff %s {{ x }}"
WRONG = (None, True, -1, 10**400, 1e308, "", HOSTILE, "x" * 9_000, [], [None], {}, {"": {}}, 0.5)


def odd(content: str | bytes) -> Iterator[tuple[str, bytes]]:
    """What is odd, and the bytes of the file."""
    whole = content if isinstance(content, bytes) else content.encode()
    for at in range(1, 13):
        yield f"cut off at {at}/13", whole[: len(whole) * at // 13]
    yield from _of_bytes(whole)
    if isinstance(content, str):
        yield from _of_text(content)
        yield from _of_values(content)


def _of_bytes(whole: bytes) -> Iterator[tuple[str, bytes]]:
    half = len(whole) // 2
    yield "empty", b""
    yield "blanks", b" \n\t\r\n" * 9
    yield "zeros", bytes(5_000)
    yield "zeros in the middle", whole[:half] + bytes(300) + whole[half:]
    yield "what is no text", bytes(range(256)) * 20
    yield "what is no text in the middle", whole[:half] + b"\xff\xfe\x80" + whole[half:]
    yield "twice", whole + whole
    for at in range(0, len(whole), len(whole) // 48):
        yield f"another byte at {at}", whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
    yield "a gzip that ends early", b"\x1f\x8b\x08\0\0\0\0\0\0\3" + whole[:100]
    yield "a zip that is none", b"PK\3\4" + whole
    yield "a database that is none", b"SQLite format 3\0" + whole
    yield "a database of zeros", b"SQLite format 3\0" + bytes(9_000)


def _of_text(text: str) -> Iterator[tuple[str, bytes]]:
    yield "UTF-16 with its mark", text.encode("utf-16")
    yield "UTF-16 without it", text.encode("utf-16-le")
    yield "a mark before UTF-8", b"\xef\xbb\xbf" + text.encode()
    yield "other ends of lines", text.replace("\n", "\r\n").encode()
    yield "old ends of lines", text.replace("\n", "\r").encode()
    yield "UTF-16 behind UTF-8", text.encode() + text.encode("utf-16-le")
    yield "a line of another program", f"{text}{{}}\n[]\n1\nnull\nhello\n".encode()
    yield "half a line before", f'{{"type": "assis\n{text}'.encode()
    yield "no ends of lines", text.replace("\n", "").encode()
    yield "nested too deep", f"{text}{DEEP}\n".encode()
    yield "nested too deep at first", f"{DEEP}\n{text}".encode()
    yield "a number too long", f'{text}{{"type": {HUGE}}}\n'.encode()
    yield "numbers that are none", f'{text}{{"type": NaN, "time": -Infinity}}\n'.encode()
    yield "a key twice", text.replace('{"', '{"type": 1, "type": {}, "', 1).encode()


def _of_values(text: str) -> Iterator[tuple[str, bytes]]:
    """Each kind of field, with a value of each wrong kind."""
    is_lines = text.count("\n") > 1
    values = [json.loads(one) for one in (text.splitlines() if is_lines else [text])]
    for name in sorted({key for one in values for key in _keys(one)}):
        for wrong in WRONG:
            made = [json.dumps(_with(one, name, wrong)) for one in values]
            yield f"{name} is {str(wrong)[:20]!r}", ("\n".join(made) + "\n").encode()


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for one in _inner(value):
        yield from _keys(one)


def _inner(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _with(value: object, name: str, wrong: object) -> object:
    if isinstance(value, dict):
        return {
            key: wrong if key == name else _with(one, name, wrong) for key, one in value.items()
        }
    return [_with(one, name, wrong) for one in value] if isinstance(value, list) else value
