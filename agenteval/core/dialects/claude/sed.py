"""What Claude Code takes a `sed` for: one that prints, that replaces, or that may do more."""

import re
from collections.abc import Sequence

from agenteval.core.dialects.claude.words import Word

_PRINTS = re.compile(r"(?:[0-9]+(?:,[0-9]+)?)?p(?:; *(?:[0-9]+(?:,[0-9]+)?)?p)*")
_REPLACES = re.compile(
    r"\s*s/(?:[^/{};#\n\\\x80-\U0010ffff]|\\[^/{};#%@|\n])*"
    r"/(?:[^/{};#\n\\\x80-\U0010ffff]|\\[^/{};#%@|\n])*/[gpimIM]*[1-9]?[gpimIM]*\s*"
)
_FILES = re.compile(r"[ \t][wWeE]")
_MARKS = re.compile(r"[wWeE]")
_Y = re.compile(r"y[^\\\n]")
_S = re.compile(r"(?=s([^\\\n]))s")
_QUIET = frozenset(("-n", "--quiet", "--silent", "-nE", "-En", "-nr", "-rn"))
_OPTIONS = _QUIET | {"-E", "-r", "--posix", "--regexp-extended"}
_IN_PLACE = frozenset(("-i", "--in-place"))


def replaces_in_place(words: Sequence[Word]) -> bool:
    """Whether it is a `sed` that only replaces text, in one file at most."""
    options, others = _taken_apart(words)
    return (
        words[0].text == "sed"
        and 1 <= len(others) <= 2
        and options <= (_OPTIONS - _QUIET) | _IN_PLACE
        and _REPLACES.fullmatch(others[0]) is not None
        and not any(map(_may_write, others))
    )


def _taken_apart(words: Sequence[Word]) -> tuple[set[str], list[str]]:
    """Its options, and all other words: the script, then files."""
    texts = [word.text for word in words[1:]]
    options = {text for text in texts if text.startswith("-")}
    return options, [text for text in texts if text not in options]


def _may_write(text: str) -> bool:
    """Whether a word of a `sed`, its file too, could be taken for a script that writes or runs."""
    if _FILES.search(text) or (_Y.search(text) and _MARKS.search(text)):
        return True
    for found in _S.finditer(text):
        second = text.find(found[1], found.end() + 1)
        third = text.find(found[1], second + 1)
        if 0 <= second < third:
            return _MARKS.search(text, third + 1) is not None
    return False


def prints_only(words: Sequence[Word]) -> bool:
    """Whether it is a `sed` that only prints lines by their numbers."""
    options, scripts = _taken_apart(words)
    return (
        options <= _OPTIONS
        and not options.isdisjoint(_QUIET)
        and bool(scripts)
        and _PRINTS.fullmatch(scripts[0]) is not None
    )


def is_free_sed(words: Sequence[Word]) -> bool:
    """Whether it needs no rule: it prints lines, or replaces in what it is handed."""
    if prints_only(words):
        return True
    options, scripts = _taken_apart(words)
    return (
        options <= _OPTIONS - _QUIET
        and len(scripts) == 1
        and not any(mark in scripts[0] for mark in "$`")
        and _REPLACES.fullmatch(scripts[0]) is not None
        and not _may_write(scripts[0])
    )
