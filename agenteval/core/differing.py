"""Differences between runs: those that forbid a comparison, and those that may explain one."""

from collections.abc import Collection, Sequence

from agenteval.core.cards import NOT_OBSERVABLE
from agenteval.core.run import ALLOW_LISTS, READ_BY_THE_MODEL, Conditions, Texts

NAMED = 3  # scenarios
TOLD_WITH_VALUES = 60  # characters; a longer one says no more than that it differs


def differing_arms(conditions: Sequence[Conditions]) -> list[str]:
    """Return the differences in what the models read, with the values if they are short."""
    differences = _differing([one.asked for one in conditions])
    named = [name for name in READ_BY_THE_MODEL if name in differences] or ["prompts"]
    return [_with_values(name, differences[name]) for name in named if name in differences]


def differing_asked(conditions: Sequence[Conditions], *, across_arms: bool = False) -> list[str]:
    """Return the differences in tasks and judging of the runs, with the values if they are short.

    `across_arms` leaves out what their models read.
    """
    differences = _differing([one.asked for one in conditions])
    if across_arms or any(name in differences for name in READ_BY_THE_MODEL):
        differences.pop("prompts", None)
    if across_arms:
        differences = {
            name: values for name, values in differences.items() if name not in READ_BY_THE_MODEL
        }
    lists = _differing_lists(conditions)
    return [*(_with_values(name, values) for name, values in differences.items()), *lists]


def _differing_lists(conditions: Sequence[Conditions]) -> list[str]:
    """Return the allow lists that judged a scenario of several runs differently.

    The lists of all scenarios together say little: runs of some scenarios alone have fewer. Lists
    of one name are compared only if it is unknown which of them judged which scenario.
    """
    if not all(one.judged or not one.policies for one in conditions):
        return [
            f"{ALLOW_LISTS} ({name})" for name in _differing([it.policies for it in conditions])
        ]
    differences = _differing([one.judged for one in conditions])
    sides = [", ".join(_named(one, differences)) for one in conditions]
    lists = [side for side in dict.fromkeys(sides) if side]
    return [_with_values(ALLOW_LISTS, lists)] if differences else []


def _named(one: Conditions, whose: Collection[str]) -> list[str]:
    names = {digest: name for name, digest in one.policies.items()}
    return sorted({names.get(one.judged[who], "?") for who in whose if who in one.judged})


def unlike_classes(conditions: Sequence[Conditions]) -> list[str]:
    """The failure classes that the server of one run keeps its model from, and another's does not.

    A run whose server was not probed differs from none.
    """
    known = [set(one.cannot_occur) for one in conditions if one.cannot_occur is not None]
    return sorted(set().union(*known) - set(known[0]).intersection(*known)) if known else []


def differing_other(conditions: Sequence[Conditions]) -> list[str]:
    """Return all other differences of the runs."""
    differences = _differing([one.other for one in conditions])
    differences |= _differing([one.told for one in conditions])
    changed = list(_differing([one.scenarios for one in conditions]))
    more = ", ..." if len(changed) > NAMED else ""
    scenarios = f"what is asked in {', '.join(changed[:NAMED])}{more} ({len(changed)} in all)"
    return [
        *(_with_values(name, values) for name, values in differences.items()),
        *([scenarios] if changed else []),
    ]


def distinctions(conditions: Sequence[Conditions]) -> list[str]:
    """Return for each run how it differs from the others, in a few words; may be empty."""
    texts = [{**one.asked, **one.other} for one in conditions]
    differences = _differing(texts)
    if any(name in differences for name in READ_BY_THE_MODEL):
        differences.pop("prompts", None)
    short = [
        name for name, values in differences.items() if max(map(len, values)) <= TOLD_WITH_VALUES
    ]
    return [
        ", ".join(f"{name} {run_texts[name]}" for name in short if run_texts.get(name))
        for run_texts in texts
    ]


def _differing(sides: Sequence[Texts]) -> dict[str, list[str]]:
    """Return the values, each once, of every name that has several."""
    names = dict.fromkeys(name for side in sides for name in side)
    seen = {name: list(dict.fromkeys(side.get(name, "") for side in sides)) for name in names}
    unknown = {"", NOT_OBSERVABLE}
    known = {name: [one for one in values if one not in unknown] for name, values in seen.items()}
    return {name: values for name, values in known.items() if len(values) > 1}


def _with_values(name: str, values: Sequence[str]) -> str:
    told = " / ".join(values)
    return f"{name} ({told})" if len(told) <= TOLD_WITH_VALUES else name
