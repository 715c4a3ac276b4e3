"""Removal of what must not leave a machine from texts: keys, addresses, names, home folders.

A pattern finds only what looks like one: read a text before you pass it on. Matches are counted by
kind, and never repeated.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agenteval.core.known_keys import MARK, KnownKeys

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
_DEEPEST = 100


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

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same of every text in a JSON value, keys of objects among them."""
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEEPEST:
            return None
        if isinstance(value, Mapping):
            return {self.text(str(k)): self.value(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, depth + 1) for one in value]
        return value

    def listed(self) -> list[str]:
        """Return a line for each kind that was found, the most frequent first."""
        return [f"{count} x {kind}" for kind, count in self.counts.most_common()]

    def _mark(self, kind: str, match: re.Match[str]) -> str:
        secret = match.groupdict().get("value") or match[0]
        self.counts[kind] += 1
        if (kind, secret) not in self._marks:
            self._marked[kind] += 1
            self._marks[kind, secret] = f"redacted-{kind.replace(' ', '-')}-{self._marked[kind]}"
        return f"{match[0][: -len(secret)]}{self._marks[kind, secret]}"
