"""Here-documents put in other words, for texts in which the parse tree gets them wrong."""

import re
from typing import NamedTuple

from agenteval.core.span import Place

HEREDOC = re.compile(
    r"(?<!<)<<(-?)([ \t]*+)(?:(['\"])([^'\"\n\\$`]*+)\3|\\?+([^\s;&|()<>'\"\\$`]++))"
    r"(?=[\s;&|()<>]|\Z)"
)


class Hidden(NamedTuple):
    """A here-document that was put in other words, and its body."""

    start: int
    body: Place
    expanded: bool


def without_heredocs(text: str) -> tuple[str, list[Hidden]]:
    """Input from a file in place of each here-document, and blanks in place of what it holds."""
    hidden: list[Hidden] = []
    at = end = 0
    line = -1
    while found := HEREDOC.search(text, at):
        head, at = found.start(), found.end()
        text = text[:head] + "<".ljust(at - head, "_") + text[at:]
        begin = text.find("\n", at)
        if begin < 0:
            continue
        if begin == line:
            begin = end  # behind the body of the one before it on this line
        else:
            line = begin
        tabs, word = r"\t*" if found[1] else "", found[4] or found[5] or ""
        last = re.compile(rf"\n{tabs}{re.escape(word)}(?=\n|\Z)").search(text, begin)
        end = last.end() if last else len(text)
        body = begin + 1, max(last.start() + 1 if last else end, begin + 1)
        hidden.append(Hidden(head, body, word == found[0].lstrip("<- \t")))
        text = text[: begin + 1] + " " * (end - begin - 1) + text[end:]
    return text, hidden
