"""The same scripted habits through every arm, in the same worlds: `make arms` writes docs/arms.md.

python tests/measure_arms.py [--write] [--trials N] [SCENARIO...]
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from habits import BEGINS, GIVES_UP, HABITS, LEAVES, Habitual, Searcher

from agenteval.config.files import DEFAULT_ARM
from agenteval.config.prompts import arms, load_setting
from agenteval.play.run import trial_keys
from agenteval.sandbox.backends import choose
from agenteval.trial.tally import score
from agenteval.trial.trial import Trial
from agenteval.workflows.prove import played
from agenteval.workflows.stages import _arm_card, load_stages

PAGE = Path(__file__).resolve().parents[1] / "docs" / "arms.md"
HEAD = """\
# What an arm provokes

`make arms` writes this page: one scripted model plays every scenario under each arm, in the same
worlds. It knows the solution, and makes no error of its own. It has twelve habits, and follows one
only where a text that it is sent asks for it, by the words that the texts of real harnesses have:
{habits}.
Where one sentence asks for a thing and another forbids it, as the rules of a prompt do, half of the
chance is left.

So the figures say what the texts ask for, and how far the arms lie apart; they say nothing of how
often a real model obeys. The model is *simulated*.

{said}

{table}

## What two sentences do at a wall

In each scenario of `ralf/` the task speaks of a quick web search, and there is none.
Another scripted model tries one in {begins:g} % of its trials, half as often where it reads that
there are no other tools.
After each denial it leaves it at that in {untold:g} % of cases, in {told:g} % where it reads what
to do after a denial, and else searches in another way; after {gives_up} searches it stops.
What else it does is right. {walls_of}:

{walls}

With a model of your own: `agenteval run --model NAME ralf --prompt-variant five`, and so on for
`five+tools`, `five+after` and `five+tools+after`; then `agenteval show` with the four runs.

## The arms

{cards}
"""
WALLS = ("five", "five+tools", "five+after", "five+tools+after")
SAID = {
    "five": "neither",
    "five+tools": "no such tool",
    "five+after": "what to do",
    WALLS[3]: "both",
}


async def measured(
    targets: Sequence[str], trials: int, names: Sequence[str]
) -> dict[str, list[Trial]]:
    stages = load_stages(targets)
    scenarios = [stage.scenario for stage in stages]
    keys = trial_keys([one.name for one in scenarios], trials, 1)
    backend = await choose(None, prefork=True)
    found = {}
    for name in names:
        setting = load_setting(name, None, "start", "0")
        found[name] = [
            *(await played(stages, keys, Habitual(scenarios), backend, setting)).values()
        ]
    return found


async def at_walls(trials: int, targets: Sequence[str] = ("ralf",)) -> dict[str, list[Trial]]:
    """The searching model in ralf, under each of the four variants."""
    stages = load_stages(targets)
    scenarios = [stage.scenario for stage in stages]
    keys = trial_keys([one.name for one in scenarios], trials, 1)
    backend = await choose(None, prefork=True)
    found = {}
    for name in WALLS:
        setting = load_setting(DEFAULT_ARM, name, "start", "0")
        done = await played(stages, keys, Searcher(scenarios), backend, setting)
        found[name] = [*done.values()]
    return found


def walls(found: Mapping[str, list[Trial]]) -> list[str]:
    """What each variant did to the wall that is met, to stall and to recovery."""
    rows = [("told", "met the wall", "stalled there", "recovered in the next turn", "calls")]
    rows.append(("---", *["---:"] * 4))
    for name, trials in found.items():
        counted = score(trials).counted
        met = [one for one in counted if one.errors]
        denials = [each for one in met for each in one.recovery.answerable]
        at_once = sum(one.turns == 1 for one in denials)
        stalled = sum(not one.completed for one in met)
        shares = (_share(len(met), len(counted)), _share(stalled, len(counted)))
        calls = str(sum(one.calls for one in counted))
        rows.append((SAID[name], *shares, _share(at_once, len(denials)), calls))
    return [f"| {' | '.join(row)} |" for row in rows]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} % of {whole}" if whole else "none"


def per_100(trials: Sequence[Trial]) -> tuple[Mapping[str, float], float, int, int]:
    """Errors per 100 calls by class and in all, the calls, and the trials that were completed."""
    counted = score(trials)
    calls = [call for trial in trials for call in trial.calls]
    classes = Counter(call.verdict.primary.failure_class for call in calls if call.verdict.primary)
    done = sum(one.completed for one in counted.counted)
    rates = {name: 100 * count / len(calls) for name, count in classes.items()}
    return rates, 100 * sum(classes.values()) / len(calls), len(calls), done


def table(found: Mapping[str, list[Trial]]) -> list[str]:
    of = {name: per_100(trials) for name, trials in found.items()}
    classes = sorted({each for rates, *_ in of.values() for each in rates})
    rows = [
        ("errors per 100 calls", [f"`{name}`" for name in of]),
        ("---", ["---:"] * len(of)),
        *((each, [f"{rates.get(each, 0):.1f}" for rates, *_ in of.values()]) for each in classes),
        ("**total**", [f"**{total:.1f}**" for _, total, *_ in of.values()]),
        ("calls", [str(calls) for *_, calls, _ in of.values()]),
        ("trials completed", [f"{one[3]} of {len(found[name])}" for name, one in of.items()]),
    ]
    return [f"| {' | '.join((first, *others))} |" for first, others in rows]


def cards(targets: Sequence[str], names: Sequence[str]) -> list[str]:
    stages = load_stages(targets)
    told = [_arm_card(stages, load_setting(name, None, "start", "0")).told for name in names]
    return [f"* {one}." for one in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--walls", type=int, default=15, help="trials of each ralf scenario (15)")
    given = parser.parse_args()
    names = [*arms()]
    found = asyncio.run(measured(given.targets, given.trials, names))
    chances = ", ".join(f"{name} ({100 * one.chance:g} %)" for name, one in HABITS.items())
    scenarios = len({trial.scenario for trial in next(iter(found.values()))})
    said = f"{scenarios} scenarios, {given.trials} trials of each, seed 1:"
    told = cards(given.targets, names)
    ralf = asyncio.run(at_walls(given.walls))
    page = HEAD.format(
        habits=chances,
        said=said,
        table="\n".join(table(found)),
        cards="\n".join(told),
        begins=100 * BEGINS,
        gives_up=GIVES_UP,
        told=100 * LEAVES[True],
        untold=100 * LEAVES[False],
        walls_of=f"{given.walls} trials of each, seed 1, arm `{DEFAULT_ARM}`",
        walls="\n".join(walls(ralf)),
    )
    print(page)  # noqa: T201 -- what the script is for
    if given.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
