"""Settings of a harness with our hook in them, and without: edits of their text. Pure.

Only what is ours is put in and taken out: order, indentation and comments stay, so that a hook put
in and taken out leaves every byte as it was.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agenteval.errors import UsageError

_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<mark>[{}\[\],:])|(?P<word>[^\s{}\[\],:\"]+)",
    re.DOTALL,
)
_INDENT: Final = re.compile(r'\n([ \t]+)"')
WAY: Final = ("hooks", "PreToolUse")


@dataclass(frozen=True, slots=True)
class _Value:
    """The place of a value: from `start` with its key, from `value` without it."""

    start: int
    value: int
    end: int
    key: str
    members: tuple["_Value", ...] = ()


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise UsageError(f"{where}: no JSON from character {at} on: mend it first")
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup or "", match[0], at))
            at = match.end()
        self.at = 0

    def value(self, start: int = -1, key: str = "") -> _Value:
        kind, text, at = self._next()
        begin = at if start < 0 else start
        if text not in {"{", "["}:
            if kind == "mark":
                raise self._fault(at)
            return _Value(begin, at, at + len(text), key)
        closing, members = {"{": "}", "[": "]"}[text], []
        while self._peek() != closing:
            members.append(self._member(is_table=text == "{"))
            if self._peek() != closing and self._next()[1] != ",":
                raise self._fault(at)
        if any([one.key for one in members].count(key) > 1 for key in WAY):
            raise self._fault(at, f"{' or '.join(WAY)} stands twice in the object")
        _, _, end = self._next()
        return _Value(begin, at, end + 1, key, tuple(members))

    def _member(self, *, is_table: bool) -> _Value:
        if not is_table:
            return self.value()
        kind, key, start = self._next()
        if kind != "text" or self._next()[1] != ":":
            raise self._fault(start)
        return self.value(start, json.loads(key))

    def _next(self) -> tuple[str, str, int]:
        if self.at == len(self.tokens):
            raise self._fault(self.tokens[-1][2] if self.tokens else 0)
        self.at += 1
        return self.tokens[self.at - 1]

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _fault(self, at: int, what: str = "no JSON") -> UsageError:
        return UsageError(f"{self.where}: {what} at character {at}: mend it first")


def _root(text: str, where: str) -> _Value:
    reader = _Reader(text, where)
    try:
        root = reader.value()
    except RecursionError as error:
        raise UsageError(f"{where}: nests too deeply: mend it first") from error
    if reader.at != len(reader.tokens) or text[root.value] != "{":
        raise UsageError(f"{where}: expected one JSON object: mend it first")
    return root


def with_hook(text: str, entry: Mapping[str, Any], *, mark: str, where: str) -> str:
    """The settings with this entry, in the place of one that is there. Raises UsageError."""
    text = without_hook(text, mark=mark, where=where)
    text = text if text.strip() else "{}\n"
    step = found[1] if (found := _INDENT.search(text)) else "  "
    inside, ways = _root(text, where), list(WAY)
    while ways and (member := _member(inside, ways[0])):
        if text[member.value] != ("{" if len(ways) > 1 else "["):
            raise UsageError(f"{where}: {ways[0]} has another form than it should: mend it first")
        inside = member
        ways.pop(0)
    lead = f"\n{step * (len(WAY) - len(ways) + 1)}"
    nested = ({ways[1]: [entry]} if ways[1:] else [entry]) if ways else entry
    body = json.dumps(nested, indent=step, ensure_ascii=False)
    key = f"{json.dumps(ways[0])}: " if ways else ""
    after = "," if inside.members else lead[: -len(step)]
    at = inside.value + 1
    return text[:at] + lead + key + body.replace("\n", lead) + after + text[at:]


def without_hook(text: str, *, mark: str, where: str) -> str:
    """Return the settings without entries of ours, which name `mark`. Raises UsageError.

    What held nothing else goes with them.
    """
    while text.strip():
        root = _root(text, where)
        hooks = _member(root, WAY[0])
        listed = _member(hooks, WAY[1]) if hooks else None
        own_entries = [one for one in listed.members if _names(text, one, mark)] if listed else []
        if not own_entries or hooks is None or listed is None:
            break
        chain = ((root, hooks), (hooks, listed), (listed, own_entries[0]))
        depth, (outer, inner) = next(
            (at, pair) for at, pair in enumerate(chain, 1) if _only(pair[1], own_entries[0])
        )
        text = _cut(text, outer, inner, depth)
    return text


def _only(value: _Value, entry: _Value) -> bool:
    """Return True if nothing but the entry stands in the value."""
    while value is not entry:
        if len(value.members) != 1:
            return False
        value = value.members[0]
    return True


def _cut(text: str, outer: _Value, inner: _Value, depth: int) -> str:
    """Without the member: what `with_hook` put in where it stands first, else it and its comma."""
    place = outer.members.index(inner)
    if place:
        return text[: outer.members[place - 1].end] + text[inner.end :]
    start, end = outer.value + 1, inner.end
    if len(outer.members) > 1:
        return text[:start] + text[text.index(",", end) + 1 :]
    blanks = inner.start - start - 1
    tail = "\n" + text[start + 1 : start + 1 + blanks * (depth - 1) // depth]
    return text[:start] + text[end:].removeprefix(tail)


def _member(value: _Value, key: str) -> _Value | None:
    return next((one for one in value.members if one.key == key), None)


def _names(text: str, entry: _Value, mark: str) -> bool:
    """Return True if an entry of a list runs our client, also where its path is escaped."""
    try:
        written: Any = json.loads(text[entry.value : entry.end])
    except ValueError:
        return mark in text[entry.value : entry.end]
    return mark in json.dumps(written, ensure_ascii=False)
