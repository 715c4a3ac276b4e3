"""The facts about a shell text, which explain why a call was denied.

`read_facts` reads flat text by patterns, which most denied commands are. Any other is parsed, its
tree walked, and walked again in other words where the parser is known to get it wrong. Wrappers and
nested shells are seen through last.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from agenteval.shell.facts import (
    Command,
    Gathered,
    Heredoc,
    Hidden,
    Redirect,
    RedirectKind,
    ShellFacts,
    Source,
    SubstitutionKind,
    Words,
    without_heredocs,
)
from agenteval.shell.gate import (
    PLAIN,
    RESERVED,
    VARIABLE,
    Place,
    Span,
    compiled,
    names,
    new,
    unreadable_text,
    word_value,
)
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.shell.wrappers import MAX_WRAPPED, base_name, is_wrapper, unwrap

_MOST_MISREAD = 4  # times that the parser is told what it misread
_LONGEST_READ_AGAIN = 16_384  # characters of a text that is read again
_IN_WORD = re.compile(  # a@b; where a command begins: {a, [a and --a=b
    r"(?<=\w)[@#%]|(?:(?m:^)|(?<=[;&|(]))[ \t]*+(?:[{\[](?=[^\s;|&()<>{\[])|-[\w-]++=)"
)
_BEFORE_HEREDOC = re.compile(r"(?<!\S)[0-9](?=<<)")


def _gather(source: Source) -> Gathered:
    """Gather the parts of a text, by the first reading without an error if there is one."""
    reading = _walk_once(source)
    if len(source.text) > _LONGEST_READ_AGAIN:
        return reading
    # What was misread is blanked, and the rest read again: that may show another mistake.
    for _ in range(_MOST_MISREAD):
        if not reading.misread:
            break
        source = _in_other_words(source, _blanked(source, reading.misread))
        reading = _walk_once(source)
    if reading.errors or reading.misread or reading.is_glued:
        for other, hidden in _readings(source.parsed_as):
            again = _walk_once(_in_other_words(source, other), hidden)
            if not again.errors:
                return again
    return reading


def _walk_once(source: Source, hidden: Sequence[Hidden] = ()) -> Gathered:
    from agenteval.shell.walk import Walk  # noqa: PLC0415 -- start-up: most texts need no tree

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
        begin, stop = start - source.base, end - source.base
        text = text[:begin].ljust(stop, "_") + text[stop:]
    return text


def _readings(text: str) -> Iterator[tuple[str, Sequence[Hidden]]]:
    """Yield the text in other words of the same length, and the here-documents that they hide."""
    other = _IN_WORD.sub(lambda odd: re.sub(r"[@#%={\[]", "_", odd[0]), text)
    other = _BEFORE_HEREDOC.sub(" ", other).replace("<<<", "<  ")  # behind a redirect
    if other != text:
        yield other, ()
    if "<<" in other:
        yield without_heredocs(other)


# Flat text: simple commands, their redirects and joints, without a tree.

_LONGEST = 16_384  # characters: the spans of a flat text never use up its room
_GAP = r"[ \t]++(?:\\\n[ \t]*+)*+"
_PROGRAM = r"[\w./][\w./+:-]*+(?=[ \t\n|&;]|\Z)"
_WORD = rf"(?!\#|[0-9]++[<>]){PLAIN}"
_DIRECTION = r"&>>?|>>|>&(?=[0-9](?:[ \t\n|&;]|\Z))|>\|?|<(?![<&>(])"
_EACH_REDIRECT = compiled(rf"([0-9]?)({_DIRECTION})[ \t]*+({_WORD})")
_REDIRECTS = rf"(?:{_GAP}[0-9]?(?:{_DIRECTION})[ \t]*+{_WORD})*+"
_HEREDOC = r"<<[ \t]*+(['\"]?)(\w++)\5"
_COMMAND = compiled(
    rf"(({_PROGRAM})(?:{_GAP}{_WORD})*+)"  # 1: its words; 2: the first of them
    rf"({_REDIRECTS}(?:[ \t]++({_HEREDOC})(?=[ \t\n]))?{_REDIRECTS})"  # 3: all; 4: of them
    rf"(?:{_GAP})?+(\|\|?(?![|&])|&&?(?![&>])|;(?![;&])|)"  # 7: joint
    rf"(?:{_GAP})?+((?:\n[ \t]*+)*+)"  # 8: lines
)
_LINES = compiled(r"(?:\n[ \t]*+)*+")
_VARIABLE = compiled(rf"""'[^']*+'|\\(?s:.)|({VARIABLE})|"((?:[^"\\]++|\\(?s:.))*+)\"""")
_VARIABLE_IN_DOUBLE = compiled(rf"\\(?s:.)|({VARIABLE})")
_EXPANDS = compiled(r"[$`\\]")


def _read_flat(
    source: Source, via: tuple[str, ...] = (), *, is_readable: bool = False
) -> ShellFacts | None:
    """Return the facts about a text as the walk over its tree would; None if it is not flat."""
    text = source.text
    if len(text) > _LONGEST or not (is_readable or unreadable_text(text) is None):
        return None
    commands: list[Command] = []
    joints: list[tuple[str, int]] = []  # what stands behind each: an operator, the end of a line
    redirects: list[Redirect] = []
    heredocs: list[Heredoc] = []
    background: list[Span] = []
    joint = ";"
    at = len(text) - len(text.lstrip(" \t\n"))
    while joint and (match := _COMMAND.match(text, at)):
        if match[2] in RESERVED:
            return None
        command = _flat_command(source, match, via)
        commands.append(command)
        redirects += command.redirects
        joint, joint_at = match[7], match.start(7)
        lines, at = match.start(8), match.end()
        if joint == "&":
            background.append(source.span(joint_at, joint_at + 1))
        if match[4]:
            if not (lines := _heredoc(source, match, heredocs)):
                return None
            behind = _LINES.match(text, lines)
            at = behind.end() if behind else lines
        if lines < at and joint in ("", "&"):
            joint, joint_at = "\n", text.rindex("\n", lines, at)
        joints.append((joint, joint_at))
    is_whole = at == len(text) and joint in ("", ";", "&", "\n")
    # What a stand-in shows has no place of its own to look for variables in.
    if not is_whole or ("$" in text and source.stand_in):
        return None
    pipelines, chains = _joined(source, commands, joints) if len(commands) > 1 else ([], [])
    variables = _variables(source, commands) if "$" in text else ()
    facts = (text, commands, pipelines, chains, redirects, heredocs, variables, (), background)
    return new(ShellFacts, facts + _NEVER_FLAT)


_NEVER_FLAT = ((),) * 4  # groups, control flow, negations, errors


def _flat_command(source: Source, match: re.Match[str], via: tuple[str, ...]) -> Command:
    start, end = match.span(1)
    redirects = tuple(_redirects(source, match)) if match.end(3) > end else ()
    words = Words(source, start, end, match[2])
    return new(Command, (words, source.place(start, end), (), redirects, via, False))


def _joined(
    source: Source, commands: Sequence[Command], joints: Sequence[tuple[str, int]]
) -> tuple[list[list[Command]], list[Span]]:
    """The pipelines and the chains that the joints between the commands make."""
    pipelines: list[list[Command]] = []
    chains: list[Span] = []
    pipeline = list(commands[:1])
    for (joint, at), command in zip(joints, commands[1:], strict=False):
        if joint == "|":
            pipeline.append(command)
            if len(pipeline) == 2:
                pipelines.append(pipeline)
        else:
            pipeline = [command]
            if joint != "&":
                chains.append(source.span(at, at + len(joint)))
    return pipelines, chains


def _variables(source: Source, commands: Sequence[Command]) -> list[tuple[SubstitutionKind, Span]]:
    """The $NAME in the words of commands and behind their redirects."""
    spans: list[Span] = []
    for command in commands:
        start, end = command.extent
        if command.redirects:
            end = command.redirects[-1].span.end
        places = _variable_places(source.text, start - source.base, end - source.base)
        spans += [source.span(*place) for place in places]
    return [(SubstitutionKind.PARAMETER, span) for span in spans]


def _variable_places(text: str, start: int, end: int) -> Iterator[Place]:
    for piece in _VARIABLE.finditer(text, start, end):
        if piece[1]:
            yield piece.span()
        elif piece[2]:
            inside = _VARIABLE_IN_DOUBLE.finditer(text, *piece.span(2))
            yield from (variable.span() for variable in inside if variable[1])


def _redirects(source: Source, command: re.Match[str]) -> list[Redirect]:
    start, end = command.span(3)
    if not command[4]:
        return _files(source, start, end)
    head, behind = command.span(4)
    span = source.span(head, behind)
    heredoc = new(Redirect, (RedirectKind.HEREDOC, span, command[6]))
    return [*_files(source, start, head), heredoc, *_files(source, behind, end)]


def _files(source: Source, start: int, end: int) -> list[Redirect]:
    redirects = []
    for found in _EACH_REDIRECT.finditer(source.text, start, end):
        kind, target = _kind_and_target(*found.group(1, 2, 3))
        redirects.append(new(Redirect, (kind, source.span(*found.span()), target)))
    return redirects


@lru_cache(maxsize=256)  # most are 2>&1 or 2>/dev/null
def _kind_and_target(
    number: str,
    operator: str,
    word: str,
) -> tuple[RedirectKind, str]:
    target = word_value(word)[0]
    return RedirectKind.of(number, operator, target), target


def _heredoc(
    source: Source,
    command: re.Match[str],
    heredocs: list[Heredoc],
) -> int:
    """Record a here-document in which nothing is expanded and return the offset behind it.

    Return 0 for any other.
    """
    text = source.text
    delimiter, quoted = command[6], command[5]
    lines = command.start(8)
    begin = lines + 1
    end = f"{text}\n".find(f"\n{delimiter}\n", lines) + 1
    expands = not quoted and _EXPANDS.search(text, begin, end)
    if end <= begin or expands or not text.startswith("\n", lines):
        return 0
    behind = end + len(delimiter)
    span = source.span(command.start(4), behind)
    heredocs.append(new(Heredoc, (source.span(begin, end), span, not quoted)))
    return behind


# All facts, and those of commands inside wrappers.

# Reserved words that only go on with, or end, what another one has begun.
_INNER = names("do done elif else esac fi in then }")


def read_facts(
    text: str,
    *,
    is_readable: bool = False,
    parsed_as: str = "",
) -> ShellFacts:
    """Return all facts that the taxonomy uses of a text, read by tree-sitter-bash. Never raises.

    Flat text is read without it, in a third of the time. `is_readable` when the gate has found no
    control character in it. `parsed_as` is the text in words that the parser gets right, each in
    its place.
    """
    source = Source(text, parsed_as=parsed_as)
    facts = None if parsed_as else _read_flat(source, is_readable=is_readable)
    return _with_inner(facts or _facts_of_walk(source, ()), text)


def _facts_of_walk(source: Source, via: tuple[str, ...]) -> ShellFacts:
    facts = _gather(source).freeze(source.text, via)
    # An error is our doing in a text that is cut, and the tree's where the splitter reads it all.
    if facts.errors and (source.is_cut or isinstance(read_leaves(source.text), Leaves)):
        facts = facts._replace(errors=())
    if not via and (strays := _strays(facts)):
        facts = facts._replace(errors=[*facts.errors, *strays])
    return facts


def _strays(facts: ShellFacts) -> list[Span]:
    """Return the reserved words that begin a command and have nothing to end there."""
    strays = []
    for command in facts.commands:
        if command.words.first not in _INNER or command.assignments:
            continue
        word = command.words[0].span
        is_first = all(redirect.span.start > word.start for redirect in command.redirects)
        if is_first and word.text in _INNER:  # not quoted
            strays.append(word)
    return strays


def _with_inner(facts: ShellFacts, whole: str) -> ShellFacts:
    """Return the facts with what stands behind wrappers, also in the text of a nested shell."""
    commands: list[Command] = []
    for command in facts.commands:
        commands.append(command)
        if is_wrapper(command.words.first):
            commands += _inside(command, whole)
    if len(commands) == len(facts.commands):
        return facts
    return new(ShellFacts, (facts.text, commands, *facts[2:]))


def _inside(outer: Command, whole: str) -> Iterator[Command]:
    if len(outer.via) == MAX_WRAPPED:
        return
    argv = outer.words.argv
    via = (*outer.via, base_name(argv[0]))
    for begin, stop, is_text in unwrap(argv):
        words = outer.words[begin:stop]
        if is_text:
            source = _nested_source(words, whole)
            facts = _read_flat(source, via) or _facts_of_walk(source, via)
            yield from _with_inner(facts, whole).commands
        else:
            command = new(Command, (words, words.extent, (), (), via, outer.nested))
            yield command
            if is_wrapper(words.first):
                yield from _inside(command, whole)


def _nested_source(words: Words, whole: str) -> Source:
    """The text a nested shell reads, placed where the whole text holds it as it is."""
    text = " ".join(words.argv)
    start, end = words.extent
    # Quotes and escapes inside it have no place of their own in the whole text.
    at = whole.find(text, start, end)
    if at >= 0:
        return Source(text, at)
    return Source(text, stand_in=Span(start, end, whole[start:end]))
