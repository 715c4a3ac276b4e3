"""Removal of what must not leave a machine from texts: keys, addresses, names, home folders.

`KnownKeys` removes keys by their value from everything that a server or a program writes: a
server may repeat the key that it was sent, in a reply, an error, the arguments of a call. A key
is looked for as it is and as programs write it: in JSON, URLs, HTML, base64 and hexadecimal.

`Redactor` also finds by patterns what only looks like a secret: read a text before you pass it
on. Matches are counted by kind, and never repeated.
"""

import base64
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

_DEEPEST = 100  # levels of a JSON value
MARK = "redacted-key"  # one word: a command that has it in the place of a key is still one
SHORTEST = 8  # characters; what is shorter, such as "none" or "EMPTY", stands in too many texts

_NAMES = re.compile(
    r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PGPASS|CREDENTIALS?|AUTH|COOKIE|_PAT|_PW)"
    r"(?:_?(?:ID|\d+))?$"
)
_PASSWORD = re.compile(r"://[^/\s@]*@")


def is_secret(name: str, value: str) -> bool:
    """Return True if a variable holds a key, by its name, or if its value has a URL password."""
    return bool(_NAMES.search(name) or _PASSWORD.search(value))


def secrets_of(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys in these variables, and the passwords of the URLs in them."""
    for name, value in variables.items():
        if _NAMES.search(name):
            yield value.strip()
        yield from _passwords_in(value)


def _passwords_in(text: str) -> Iterator[str]:
    """Yield the passwords of a URL, and the secrets in its query; none if the text is no URL."""
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return
    if "://" not in text:
        return
    values = [option.partition("=")[2] for option in parts.query.split("&")]
    for value in (password, *values):
        if value:
            yield value
            yield unquote(value)


def shown_url(url: str) -> str:
    """Return a URL, or a text meant as one, as it may be printed: no user, password or query."""
    without_user = re.sub(r"(?s)(^[^/]*//|^).*@", r"\1***@", url)
    address, mark, _ = without_user.partition("?")
    return f"{address}?***" if mark else address


@dataclass(frozen=True)
class KnownKeys:
    """These values; what is shorter than SHORTEST is none of them."""

    values: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> "KnownKeys":
        long_enough = [value for value in values if len(value) >= SHORTEST]
        return cls(tuple(dict.fromkeys(long_enough)))

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The forms that they can have in a text, longest first: one may be part of another."""
        forms: set[str] = set()
        for value in self.values:
            forms.update(form for form in _forms(value) if len(form) >= SHORTEST)
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

    def value(self, value: Any) -> Any:
        """The same of every text in a JSON value, keys of objects among them."""
        return _replaced(value, self.text)

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
        for length in range(min(longest, len(content)), 0, -1):
            if content[-length:] in self._beginnings:
                return length
        return 0

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


def _replaced(value: Any, replace: Callable[[str], str], depth: int = 0) -> Any:
    """Return a JSON value with each text replaced; null for what is nested too deep."""
    if isinstance(value, str):
        return replace(value)
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {replace(str(k)): _replaced(v, replace, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, replace, depth + 1) for item in value]
    return value


def _forms(value: str) -> Iterator[str]:
    content = value.encode("utf-8", "surrogateescape")
    yield value
    for is_ascii in (True, False):
        written = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield written
        yield written.replace("/", "\\/")
        yield json.dumps(written)[1:-1]  # JSON within JSON
    yield html.escape(value)
    yield html.escape(value, quote=False)
    yield repr(value)[1:-1]
    for escaped in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield escaped
        yield re.sub("%..", lambda code: code[0].lower(), escaped)
    yield "".join(f"%{byte:02X}" for byte in content)
    yield content.hex()
    yield content.hex().upper()
    units = "".join(f"\\u{ord(character):04x}" for character in value)
    yield units
    yield units.replace("\\u", "\\\\u")
    yield from _in_base64(content)


def _in_base64(content: bytes) -> Iterator[str]:
    """Yield it in base64 behind 0, 1 or 2 other bytes, as in `user:key`, whatever follows."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + content).decode()
        whole = written[(before * 8 + 5) // 6 : (before + len(content)) * 8 // 6]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))


# What looks like a secret.

# The order matters: a key within an address is a key, and an e-mail has a host in it. A pattern
# begins where its run of characters begins, or at a word: from each place in a run it would take a
# time that grows with the square of a text's length.
_KINDS: Mapping[str, str] = {
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "key": (
        r"\b(?:sk-[\w-]{16,}|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
        r"|xox[abeoprs]-[\w-]{10,}|A[KSB]IA[0-9A-Z]{16}|AIza[\w-]{30,}|hf_\w{20,}|npm_\w{30,}"
        r"|pypi-[\w-]{20,}|[rsp]k_(?:live|test)_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|ya29\.[\w-]{20,}"
        r"|do[opr]_v1_\w{40,}|dckr_pat_[\w-]{20,}|dapi[0-9a-f]{32}|gsk_\w{30,}|xai-\w{40,}"
        r"|shpat_\w{30,}|lin_api_\w{30,}|AGE-SECRET-KEY-1\w{50,}|\d{8,10}:AA[\w-]{33})"
    ),
    "token": (
        r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
        r"|(?i:(?<=bearer )[\w.~+/=-]{8,})"
        r"|(?i:(?<=authorization: basic )[\w+/=-]{8,})"
    ),
    "secret": (
        r"(?i:(?:(?:api|access|private|account)[_-]?key|secret|token|passw(?:or)?d|credential)s?"
        r"(?:[\"']?\s*[=:]\s*[\"']?|(?:(?<=-token)|(?<=-key)|(?<=-password)|(?<=-secret))\s+[\"']?(?!-)))"
        r"(?!redacted-)(?P<value>[^\s\"'&;|<>,)}\\]{6,})"
    ),
    "password": (
        r"(?<=://)(?!redacted-)(?:[^\s/:@<>]+:)?[^\s/:@<>]+(?=@)"
        r"|\bcurl\s(?:[^\n;|&]{0,99}?\s)?(?:-u|--user)\s[\"']?"
        r"(?!redacted-)(?P<value>[^\s:/@\"']+:[^\s\"']{3,})"
    ),
    "e-mail": r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+\b",
    "user": (
        r"(?:(?<![\w.])/(?:home|Users|export/home)/|\b[A-Za-z]:\\{1,2}Users\\{1,2}"
        r"|(?<=-)(?:Users|home)-|(?<![^\s\"'=:])~(?=[a-z][\w-]*/))(?!redacted-)(?P<value>[^\s/\\\"':;,<>|)-]+)"
    ),
    "address": (
        r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}"
        r"(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\w)"
        r"|(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){4,7}[0-9A-Fa-f]{1,4}(?![\w:])"
        r"|(?<![\w:])(?=[A-Fa-f:]{0,9}\d)(?:[0-9A-Fa-f]{1,4}:){1,6}"
        r"(?::[0-9A-Fa-f]{1,4}){1,6}(?![\w:])"
        r"|(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])"
    ),
    "host": (
        r"(?:(?<=://)|(?<=://redacted-password-\d@)|(?<=://redacted-password-\d\d@))"
        r"(?!localhost\b|127\.|\[|redacted-)[A-Za-z0-9.-]+(?=[:/\s\"'?#]|\Z)"
        r"|(?<![\w.-])(?:[a-z0-9-]+\.)+(?:internal|intranet|corp|lan|local)\b"
        r"(?!\.(?:json|ya?ml|toml|env|py|[jt]s|md|txt|sh)\b)(?:\.[a-z0-9-]+)*"
        r"|(?<![\w./-])(?:[a-z0-9-]+\.){2,}[a-z]{2,}(?=:\d{2,5}\b)"
        r"|\b(?:ssh|sftp|scp|rsync|mosh)\s[^\n;|&]{0,99}?[\w.-]@(?!redacted-)(?P<value>[\w.-]+)"
        r"|(?<=@)(?!redacted-)[a-z0-9-]+(?:\.[a-z0-9-]+)*(?=:)"
    ),
}
_EXPRESSIONS = {kind: re.compile(text, re.DOTALL) for kind, text in _KINDS.items()}
KEYS = ("private key", "key", "token", "secret", "password")  # kinds that open something


@dataclass(slots=True)
class Redactor:
    """The redactor of all texts of one output. `counts` has its matches by kind.

    `kinds` are those that it looks for, `known` the keys that are known by their value.
    The same thing has the same mark everywhere, such as `redacted-host-2`, so that a reader can
    still see what belongs together; a mark is one word, and a command with it is still one.
    """

    kinds: Sequence[str] = tuple(_KINDS)
    known: KnownKeys = field(default_factory=lambda: KnownKeys(()))
    counts: Counter[str] = field(default_factory=Counter)
    _marks: dict[tuple[str, str], str] = field(default_factory=dict)
    _marked: Counter[str] = field(default_factory=Counter)

    def text(self, text: str) -> str:
        for form in self.known.forms:
            if form in text:
                self.counts["known key"] += text.count(form)
                text = text.replace(form, MARK)
        for kind in self.kinds:
            text = _EXPRESSIONS[kind].sub(partial(self._mark, kind), text)
        return text

    def value(self, value: Any) -> Any:
        """The same of every text in a JSON value, keys of objects among them."""
        return _replaced(value, self.text)

    def listed(self) -> list[str]:
        """Return a line for each kind that was found, the most frequent first."""
        return [f"{count} x {kind}" for kind, count in self.counts.most_common()]

    def _mark(self, kind: str, match: re.Match[str]) -> str:
        secret = match.groupdict().get("value") or match[0]
        self.counts[kind] += 1
        if (kind, secret) not in self._marks:
            self._marked[kind] += 1
            word = kind.replace(" ", "-")
            self._marks[kind, secret] = f"redacted-{word}-{self._marked[kind]}"
        before = match[0].removesuffix(secret)
        return f"{before}{self._marks[kind, secret]}"
