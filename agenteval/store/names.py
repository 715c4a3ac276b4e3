"""Which stored run a word means: its id, the beginning of its id, or `last`."""

from collections.abc import Sequence

from agenteval.errors import UsageError

SHOWN = 5


def meant(word: str, runs: Sequence[str], tables: Sequence[str] = (), *, where: str) -> str:
    """The id of a run, or of imported counts; both are given newest first.

    Raises UsageError where the word means none of them, or several.
    """
    known = (*runs, *tables)
    if word == "last" and runs:
        return runs[0]
    fitting = [one for one in known if one == word] or [
        one for one in known if one.startswith(word)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(
            f"{word!r} begins the ids of {len(fitting)} runs in {where} (newest: "
            f"{', '.join(fitting[:SHOWN])}); give more of the one you mean"
        )
    raise UsageError(
        f"no run {word!r} in {where} (newest: {', '.join(known[:SHOWN]) or 'none yet'}); "
        "`agenteval show` lists all"
    )
