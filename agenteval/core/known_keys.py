"""Keys known by their value, removed from everything that a server or a program writes.

A server may repeat the key that it was sent: in a reply, an error, the arguments of a call. A key
is looked for as it is and as programs write it: in JSON, URLs, HTML, base64 and hexadecimal.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

MARK = "redacted-key"  # one word: a command that has it in the place of a key is still one
SHORTEST = 8  # characters; what is shorter, such as "none" or "EMPTY", stands in too many texts
_DEEPEST = 100
_NAMES = re.compile(
    r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PGPASS|CREDENTIALS?|AUTH|COOKIE|_PAT|_PW)"
    r"(?:_?(?:ID|\d+))?$"
)
_PASSWORD = re.compile(r"://[^/\s@]*@")


def is_secret(name: str, value: str) -> bool:
    """Return True if a variable holds a key, by its name, or if its value has a URL password."""
    return bool(_NAMES.search(name) or _PASSWORD.search(value))


def secrets_of(variables: Mapping[str, str]) -> Iterator[str]:
    """The keys in these variables, and the passwords of the URLs in them."""
    for name, value in variables.items():
        if _NAMES.search(name):
            yield value.strip()
        yield from passwords_in(value)


def passwords_in(text: str) -> Iterator[str]:
    """The passwords, and the secrets in the query, of a URL; none where the text is no URL."""
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return
    if "://" not in text:
        return
    values = [option.partition("=")[2] for option in parts.query.split("&")]
    for value in filter(None, (password, *values)):
        yield value
        yield unquote(value)


def shown_url(url: str) -> str:
    """Return a URL, or a text meant as one, as it may be printed: no user, password or query."""
    known, mark, _ = re.sub(r"(?s)(^[^/]*//|^).*@", r"\1***@", url).partition("?")
    return f"{known}?***" if mark else known


@dataclass(frozen=True)
class KnownKeys:
    """These values; what is shorter than SHORTEST is none of them."""

    values: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> "KnownKeys":
        return cls(tuple(dict.fromkeys(one for one in values if len(one) >= SHORTEST)))

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The forms that they can have in a text, longest first: one may be part of another."""
        forms = {form for value in self.values for form in _forms(value) if len(form) >= SHORTEST}
        return tuple(sorted(forms, key=len, reverse=True))

    @cached_property
    def _forms_of_bytes(self) -> tuple[bytes, ...]:
        return tuple(form.encode("utf-8", "surrogateescape") for form in self.forms)

    @cached_property
    def _beginnings(self) -> frozenset[bytes]:
        return frozenset(form[:end] for form in self._forms_of_bytes for end in range(1, len(form)))

    def text(self, text: str) -> str:
        for form in self.forms:
            text = text.replace(form, MARK)
        return text

    def content(self, content: bytes) -> bytes:
        for form in self._forms_of_bytes:
            content = content.replace(form, MARK.encode())
        return content

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same of every text in a JSON value, keys of objects among them."""
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEEPEST:
            return None
        if isinstance(value, Mapping):
            return {self.text(str(k)): self.value(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return value

    def json(self, text: str) -> str:
        r"""JSON text without them, though a letter of one may be written as `\u0041`."""
        text = self.text(text)
        if not self.values or "\\" not in text:
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        clean = self.value(value)
        return text if clean == value else json.dumps(clean)

    def begun(self, content: bytes) -> int:
        """Return how many bytes at the end of the content may be the beginning of a key."""
        longest = max(map(len, self._forms_of_bytes), default=1) - 1
        lengths = range(min(longest, len(content)), 0, -1)
        return next((n for n in lengths if content[-n:] in self._beginnings), 0)

    def hide(self, error: BaseException | None) -> None:
        """Remove them from the message of an error, and of each error that caused it."""
        visited: set[int] = set()
        while error is not None and id(error) not in visited:
            visited.add(id(error))
            clean = tuple(self._hidden(value) for value in error.args)
            if clean != error.args:
                error.args = clean
            for name, value in vars(error).items():
                if isinstance(value, str | bytes) and self._hidden(value) != value:
                    setattr(error, name, self._hidden(value))
            error = error.__cause__ or error.__context__

    def _hidden(self, value: Any) -> Any:
        return self.content(value) if isinstance(value, bytes) else self.value(value)


def _forms(value: str) -> Iterator[str]:
    content = value.encode("utf-8", "surrogateescape")
    yield value
    for is_ascii in (True, False):
        written = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield from (written, written.replace("/", "\\/"), json.dumps(written)[1:-1])
    yield from (html.escape(value), html.escape(value, quote=False), repr(value)[1:-1])
    for escaped in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield from (escaped, re.sub("%..", lambda found: found[0].lower(), escaped))
    yield from ("".join(f"%{byte:02X}" for byte in content), content.hex(), content.hex().upper())
    units = "".join(f"\\u{ord(one):04x}" for one in value)
    yield from (units, units.replace("\\u", "\\\\u"))
    yield from _in_base64(content)


def _in_base64(content: bytes) -> Iterator[str]:
    """Yield it in base64 behind 0, 1 or 2 other bytes, as in `user:key`, whatever follows."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + content).decode()
        whole = written[(before * 8 + 5) // 6 : (before + len(content)) * 8 // 6]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))
