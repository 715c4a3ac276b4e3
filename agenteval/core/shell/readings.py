"""A text walked over, and walked over again in other words where the parser gets it wrong."""

import re
from collections.abc import Iterator, Sequence

from agenteval.core.shell.draft import Gathered
from agenteval.core.shell.facts import Heredoc
from agenteval.core.shell.source import Hidden, Source, without_heredocs
from agenteval.core.shell.walk import Walk
from agenteval.core.span import Place

_MOST_MISREAD = 4  # times that the parser is told what it misread
_LONGEST = 16_384  # characters of a text that is read again
_IN_WORD = re.compile(  # a@b; where a command begins: {a, [a and --a=b
    r"(?<=\w)[@#%]|(?:(?m:^)|(?<=[;&|(]))[ \t]*+(?:[{\[](?=[^\s;|&()<>{\[])|-[\w-]++=)"
)
_BEFORE_HEREDOC = re.compile(r"(?<!\S)[0-9](?=<<)")
_INSTEAD = str.maketrans("@#%={[", "______")


def gathered(source: Source) -> Gathered:
    """Gather the parts of a text, by the first reading without an error if there is one."""
    reading = _walked(source)
    if len(source.text) > _LONGEST:
        return reading
    for _ in range(_MOST_MISREAD):
        if not reading.misread:
            break
        source = _in_other_words(source, _blanked(source, reading.misread))
        reading = _walked(source)
    if reading.errors or reading.misread or reading.is_glued:
        for other, hidden in _readings(source.parsed_as):
            again = _walked(_in_other_words(source, other), hidden)
            if not again.errors:
                return again
    return reading


def _walked(source: Source, hidden: Sequence[Hidden] = ()) -> Gathered:
    reading = Gathered()
    walk = Walk(source, reading)
    walk.run()
    for start, body, expanded in hidden:
        span = source.span(start, body[1])
        reading.heredocs.append(Heredoc(source.span(*body), span, expanded))
        if expanded:
            walk.read_embedded(*body)
    return reading


def _in_other_words(source: Source, parsed_as: str) -> Source:
    return Source(source.text, source.base, source.stand_in, parsed_as)


def _blanked(source: Source, places: Sequence[Place]) -> str:
    text = source.parsed_as
    for start, end in places:
        at = start - source.base
        text = text[:at].ljust(at + end - start, "_") + text[at + end - start :]
    return text


def _readings(text: str) -> Iterator[tuple[str, Sequence[Hidden]]]:
    """The text in other words of the same length, and the here-documents that these leave out."""
    other = _IN_WORD.sub(lambda odd: odd[0].translate(_INSTEAD), text)
    other = _BEFORE_HEREDOC.sub(" ", other).replace("<<<", "<  ")  # behind a redirect
    if other != text:
        yield other, ()
    if "<<" in other:
        yield without_heredocs(other)
