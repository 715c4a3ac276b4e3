"""Marks of a template around a command and typographic characters in it, and it without them."""

import json
import re
import unicodedata

_MARK = (
    r"(?:</?(?:tool_call|tool_response|function|parameter|invoke|think|s)(?:=[\w.-]+)?>"
    r"|<\|\w+\|>|\[/?TOOL_CALLS?\])"
)
_BEFORE = re.compile(
    rf"\s*+(?:```\w*|\$[ \t]+(?=\S)|{_MARK}|\{{\s*+\"(?:command|cmd|name|arguments)\"\s*+:)"
)
_BEHIND = re.compile(rf"(?:{_MARK}|```)\s*\Z")
_LONGEST_TOKEN = 80


def residue(text: str) -> tuple[int, int] | None:
    """Where marks of a template stand before or behind a command."""
    if text.lstrip()[:1] in _FIRST and (found := _BEFORE.match(text)):
        start = found.end() - len(found[0].lstrip())
        return start, start + len(found[0].strip())
    if text.rstrip()[-1:] in _LAST and (
        found := _BEHIND.search(text, max(len(text.rstrip()) - _LONGEST_TOKEN, 0))
    ):
        return found.start(), found.start() + len(found[0].rstrip())
    return None


_FIRST, _LAST = frozenset("`$<[{"), frozenset("`>]")
_QUOTED = re.compile(r"'[^']*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
_TYPOGRAPHIC = re.compile(
    "(?<=\\s)[\u2010-\u2015\u2212]+(?=[A-Za-z])|[\u200b-\u200d\u2060\ufeff]+"
    "|[\u00a0\u2000-\u200a\u202f\u3000]+|[\u201c\u201d]|(?<!\\w)[\u2018\u2019]"
)


def typographic(text: str) -> tuple[int, int] | None:
    """Where a typographic character stands outside quotes, in place of a plain one."""
    if text.isascii():
        return None
    bare = _QUOTED.sub(lambda found: "_" * len(found[0]), text)
    found = _TYPOGRAPHIC.search(bare)
    return found.span() if found else None


def without_residue(text: str) -> str:
    """The command that stands between marks of a template, or in the JSON of the call."""
    while found := residue(text):
        if text.startswith("{", found[0]):
            return _in_json(text)
        text = (text[: found[0]] + text[found[1] :]).strip()
    return text


def _in_json(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    found = found.get("arguments", found)
    found = found.get("command", found.get("cmd", "")) if isinstance(found, dict) else ""
    return found if isinstance(found, str) else ""


_PLAIN = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}


def untyped(text: str) -> str:
    """The command with plain characters in place of typographic ones."""
    while found := typographic(text):
        one = text[found[0]]
        kind = unicodedata.category(one)
        plain = _PLAIN.get(one) or {"Pd": "--", "Zs": " ", "Sm": "--"}.get(kind, "")
        if one in _PLAIN:
            found = (found[0], found[0] + 1)
        text = text[: found[0]] + plain + text[found[1] :]
    return text
