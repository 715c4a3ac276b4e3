"""Faults of a text as such: marks of a template, typographic characters, what is open."""

import json
import re
import unicodedata

from agenteval.core.shell.source import without_heredocs
from agenteval.core.shell.words import compiled

# What chat templates put around a call, and servers take away: elements, and tokens of a tokenizer.
_NAMED = (
    r"(?:\w{0,20}tool_\w{1,20}|\w{0,20}function\w{0,20}|invoke|param(?:eter)?s?|arg(?:ument)?s?"
    r"|arg_\w{1,20}|command|bash|think(?:ing)?|thought|reasoning|answer|escape"
    r"|(?:start|end)_of_\w{1,20}|bos|eos|pad|unk|0x[0-9A-F]{2}|s)"
)
_VALUES = r"(?:=[\w.-]{1,80})?(?:\s+[\w-]{1,20}=\"[^\"<>\n]{0,80}\")*"
_BAR = "[|\uff5c]"
_MARK = (
    rf"(?:</?(?:\w{{1,20}}[:|])?{_NAMED}{_VALUES}>|</?{_BAR}\w{{1,20}}{_BAR} ?\w{{1,20}}{_VALUES}>"
    rf"|<\|(?:open|close)\|>[^<>\n]{{0,80}}<\|sep\|>|<{_BAR}[^\s<>]{{1,80}}>|<\w{{3,40}}\|>"
    r"|\]<\]minimax\[>\[(?:</?[\w.-]+>)?|<!\[CDATA\[|\]\]>"
    r"|\[/?(?:TOOL_CALLS?|TOOL_RESULTS|ARGS|INST|THINK)\])"
)
_THOUGHT = (
    r"<(?P<thought>think(?:ing)?|thought|reasoning)>[^<]*+(?:<(?!/?(?P=thought)>)[^<]*+)*+"
    r"</(?P=thought)>"
)
_HOST = r"[\w.-]{1,40}@[\w.-]{1,60}"
_WHERE = rf"{_HOST}:[^\s'\"]{{0,99}}|\[{_HOST} [^\s\]]{{1,99}}\]|(?:ba)?sh-[0-9.]{{1,9}}"
_PROMPT = rf"(?:(?:{_WHERE})[$#]|[$%])[ \t]+(?=\S)"
_SHELL = r"\[\s*+\"(?:/\w{1,9}){0,3}/?(?:ba|z)?sh\"\s*+,"  # of a command as JSON's list of words
_BEFORE = compiled(
    rf"\s*+(?:(?:```|~~~)\w*|{_PROMPT}|{_THOUGHT}|{_MARK}|{_SHELL}"
    r"|\{\s*+\"(?:command|cmd|name|arguments)\"\s*+:)"
)
_BEHIND = compiled(rf"(?:(?:{_MARK}\}}?)+|```|~~~)\s*\Z")
# What stands for a value, apart from the word before it; some tokens look like it.
_PLACEHOLDER = compiled(r"[ \t](?:<(?!(?:s|bos|eos|pad|unk)>)[a-z]+>|\[ARGS\])")
_LONGEST_TOKEN = 120
_OF_JSON = compiled(
    r"\"(?:\s*+,\s*+\"\w{1,30}\"\s*+:\s*+(?:\"[^\"\n]*+\"|[\w.]++))*+\s*+\}{1,3}\s*+\]?\s*\Z"
)


def residue(text: str) -> tuple[int, int] | None:
    """Return the place of marks of a template before or behind a command, or None."""
    if (text.lstrip()[:1] in _FIRST or _MORE.match(text)) and (match := _BEFORE.match(text)):
        start = match.end() - len(match[0].lstrip())
        return start, start + len(match[0].strip())
    if text.rstrip()[-1:] in _LAST and (
        match := _BEHIND.search(text, max(len(text.rstrip()) - _LONGEST_TOKEN, 0))
    ):
        start, end = match.start(), match.start() + len(match[0].rstrip())
        return None if _PLACEHOLDER.fullmatch(text, start - 1, end) else (start, end)
    return _json_behind(text)


def _json_behind(text: str) -> tuple[int, int] | None:
    """Return where the call's JSON goes on behind a command: it closes a quote that is not open."""
    if text.rstrip()[-1:] not in {"}", "]"}:
        return None
    match = _OF_JSON.search(text, max(len(text.rstrip()) - _LONGEST_TOKEN, 0))
    before = text[: match.start()] if match else ""
    if not match or "{" in before or left_open(before) or not left_open(text):
        return None
    return match.start(), match.start() + len(match[0].rstrip())


_FIRST, _LAST = frozenset("`$<[{]~%"), frozenset("`>][~")
_MORE = compiled(r"\s*+[\w.-]{1,40}[@$#]")  # a prompt that begins with a name
# With escaped quotes: they begin nothing, and each would be looked behind to the end.
_QUOTED = compiled(r"\\['\"\\]|'[^']*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
_TYPOGRAPHIC = compiled(
    "(?<=\\s)[\u2010-\u2015\u2212]+(?=[A-Za-z])|[\u200b-\u200d\u2060\ufeff]+"
    "|[\u00a0\u2000-\u200a\u202f\u3000]+|[\u201c\u201d]|(?<!\\w)[\u2018\u2019]"
)


def typographic(text: str) -> tuple[int, int] | None:
    """Return the place of a typographic character outside quotes, or None."""
    if text.isascii():
        return None
    bare = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    match = _TYPOGRAPHIC.search(bare)
    return match.span() if match else None


def without_residue(text: str) -> str:
    """The command that stands between marks of a template, or in the JSON of the call."""
    while found := residue(text):
        if text.startswith(("{", '["'), found[0]):
            return _in_json(text)
        text = (text[: found[0]] + text[found[1] :]).strip()
    return text


def _in_json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        value = value.get("arguments", value)
    if isinstance(value, dict):
        value = value.get("command", value.get("cmd", ""))
    if isinstance(value, list) and len(value) == 3 and str(value[1]) in {"-c", "-lc"}:
        value = value[2]  # what a shell is given
    return value if isinstance(value, str) else ""


def plain_for(character: str) -> str:
    """Return the clause that says what should stand in place of a typographic character."""
    if unicodedata.category(character) == "Cf":
        return "stands where nothing should"
    plain = {"Pd": "--", "Zs": "a plain blank"}.get(unicodedata.category(character), "' or \"")
    return f"stands where {plain} should"


_URL = compiled(r"(?<!\S)(?=[^\s&]*&)[a-z]+://[^\s'\"\\|;<>()$`]+(?!\S)")


def with_quoted_urls(text: str) -> str:
    """The command with each URL in quotes that an & would cut in two."""
    return _URL.sub(lambda found: f"'{found[0]}'", text)


_PLAIN = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}


def untyped(text: str) -> str:
    """Return the command with plain characters in place of typographic ones."""
    while place := typographic(text):
        character = text[place[0]]
        kind = unicodedata.category(character)
        plain = _PLAIN.get(character) or {"Pd": "--", "Zs": " ", "Sm": "--"}.get(kind, "")
        if character in _PLAIN:
            place = (place[0], place[0] + 1)
        text = text[: place[0]] + plain + text[place[1] :]
    return text


_OPENS = {"if": "fi", "do": "done", "case": "esac", "{": "}", "[[": "]]", "(": ")", "$(": ")"}
_CLOSES = frozenset(_OPENS.values())
_GOES_ON = frozenset(("then", "else", "elif", "do", "while", "until", "if", "!", "{", "(", "$("))
_PIECE = compiled(
    r"\\(?s:.)|'[^']*+'|\"(?:[^\"\\]++|\\(?s:.))*+\"|`[^`]*+`|(?<!\S)#[^\n]*+"
    r"|(?P<quote>['\"`])|(?P<joint>[;&|\n]++)|(?P<bracket>\$?\(|\))|(?P<word>[^\s;&|()'\"`\\]++)"
)


def left_open(text: str) -> str:
    """Return what is never closed in a text, or closes what nothing began, or ""."""
    opened: list[str] = []
    is_start = True  # of a command
    for piece in _PIECE.finditer(without_heredocs(text)[0]):
        mark = piece["word"] or piece["bracket"] or ""
        if piece["quote"]:
            return f"{piece['quote'].replace('`', 'a backquote')} is never closed"
        is_keyword = bool(piece["bracket"]) or is_start or mark in {"]]", "}", "do"}
        if is_keyword and mark in _CLOSES and not (mark == ")" and opened[-1:] == ["case"]):
            if not opened:
                return f"{mark} closes nothing"
            if _OPENS[opened[-1]] != mark:
                break
            opened.pop()
        elif is_keyword and mark in _OPENS:
            opened.append(mark)
        is_start = bool(piece["joint"]) or mark in _GOES_ON or mark == ")"
    return f"{opened[-1]} is never closed by {_OPENS[opened[-1]]}" if opened else ""
