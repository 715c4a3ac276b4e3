"""Which rule denies a command, or one that it runs behind wrappers and in texts for a shell."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from agenteval.core.policy.patterns import CommandPattern
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.shell.programs import base_name
from agenteval.core.shell.wrappers import is_prefix, unwrap

# Words of commands, and characters of texts, that are looked at for one command. Each word behind
# a wrapper is tried as the first one: some seven hundred of them use it up.
_MOST = 1 << 18


class _Command(NamedTuple):
    """`dynamic` numbers the words bash still expands; what is behind it follows if `is_behind`."""

    argv: Sequence[str]
    dynamic: Collection[int]
    is_behind: bool = False


_UNKNOWN = _Command(("*",), (0,))  # any rule may be about it


def denial(
    denied: Sequence[CommandPattern], argv: Sequence[str], dynamic: Collection[int]
) -> CommandPattern | None:
    """The rule that denies the command, or one that it runs as far as wrappers are known.

    What cannot be read, or is more than is looked at, is denied by the first rule.
    """
    left = _MOST
    for part in _parts(_Command(argv, dynamic)):
        left -= len(part) if isinstance(part, str) else len(part.argv)
        if left < 0:
            return denied[0]
        if not isinstance(part, str):
            for rule in denied:
                if rule.names(part.argv, part.dynamic):
                    return rule
    return None


def _parts(command: _Command) -> Iterator[_Command | str]:
    """The command, and all that it runs: commands, and texts for a shell."""
    within: list[Iterator[_Command | str]] = [iter((command,))]
    while within:
        part = next(within[-1], None)
        if part is None:
            within.pop()
        else:
            yield part
            within.append(_in_text(part) if isinstance(part, str) else _run_by(part))


def _in_text(text: str) -> Iterator[_Command]:
    split = read_leaves(text)
    leaves = split.leaves if isinstance(split, Leaves) else ()
    return iter([_Command(leaf.argv, leaf.dynamic) for leaf in leaves] or [_UNKNOWN])


def _run_by(command: _Command) -> Iterator[_Command | str]:
    argv, dynamic, is_behind = command
    if is_prefix(argv[0]):
        if not is_behind:
            yield from _behind(argv, dynamic)
        return
    for start, stop, is_text in unwrap(tuple(argv)):
        inner = argv[start:stop]
        if is_text:
            yield " ".join(inner)
        else:  # find puts names in place of {}
            holes = {number for number, word in enumerate(inner) if "{}" in word}
            yield _Command(inner, holes | {n - start for n in dynamic if start <= n < stop})


def _behind(argv: Sequence[str], dynamic: Collection[int]) -> Iterator[_Command | str]:
    """What a wrapper may run. Where its own words end is not asked: each may be the first.

    Wrappers behind it run nothing else; xargs puts words behind those that stand there.
    """
    more = argv
    for start in range(1, len(argv)):
        if base_name(argv[start - 1]) == "xargs":
            more = (*argv, "*")
        open_words = {n - start for n in (*dynamic, *range(len(argv), len(more))) if n >= start}
        if argv[start]:
            yield _Command(more[start:], open_words, is_behind=True)
        if " " in argv[start]:
            yield from dict.fromkeys((" ".join(argv[start:]), " ".join(more[start:])))
