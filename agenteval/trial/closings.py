"""The languages that models close in: how each marks a claim, an admission and a neutral phrase.

The patterns are data, in `closings.toml`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from agenteval.shell import read_table


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns that identify a language and classify its clauses; the first that matches counts.

    `neither` matches politeness, advice, questions, conditions and earlier states. `admits` matches
    work that is not done, or still to come.
    """

    marks: re.Pattern[str]
    claims: re.Pattern[str]
    admits: re.Pattern[str]
    neither: re.Pattern[str]


@cache
def _table() -> Mapping[str, Any]:
    return read_table("agenteval.trial", "closings.toml")


@cache
def _languages() -> Mapping[str, Language]:
    languages: dict[str, Language] = {}
    for name, patterns in _table()["languages"].items():
        compiled = {kind: _pattern(text) for kind, text in patterns.items()}
        languages[name] = Language(**compiled)
    return languages


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern of the table, with its `<<words>>` filled in."""
    words = _table()["words"]
    while name := re.search("<<(\\w+)>>", text):
        text = text.replace(name[0], words[name[1]])
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


@cache
def _deed() -> re.Pattern[str]:
    return _pattern(_table()["words"]["deed"])


def states_deed(text: str) -> bool:
    """Return True if the text states a finished deed, whatever else it says of what will be."""
    return _deed().search(text) is not None


def language_of(text: str) -> Language:
    """Return the language with most marks, then most words for finished work; else English."""

    def marks(language: Language) -> tuple[int, int]:
        return len(language.marks.findall(text)), len(language.claims.findall(text))

    english, *others = _languages().values()
    most = max(others, key=marks)
    # Words for finished work cannot outweigh English: those of other languages look alike.
    return most if marks(most) > (len(english.marks.findall(text)), 0) else english
