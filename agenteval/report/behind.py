"""What stands behind the figures of a page: its trials and denied calls, how to play them again."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from agenteval.core.run import Run
from agenteval.core.shell.words import quoted
from agenteval.core.trial import Trial
from agenteval.report.denied_calls import CALLS, CallList, Calls, TrialLine, call_lists, gather
from agenteval.report.transcripts import (
    AgentShown,
    TrialShown,
    rank,
    shown_trial,
)
from agenteval.report.view import RunView, View

INLINE = 90  # trials in the page itself, of all runs together
BESIDE = 100  # trials on a page beside it
MOST = 2500  # trials of all runs together, up to which each is written
LONG = 500  # characters of a message from which on it stands once in a page


@dataclass(frozen=True, slots=True)
class Beside:
    """A page beside the report: some trials of one run."""

    file: str
    at: int  # which run
    run: RunView
    lines: tuple[TrialLine, ...]
    first: int  # the number of the first one, from 1, among those that are written


@dataclass(frozen=True, slots=True)
class Behind:
    """`lines` are all trials of each run, the worst first; `calls` the denied ones by class.

    `inline` has those calls, by the place of their list, whose trials stand in the page itself.
    """

    lines: tuple[tuple[TrialLine, ...], ...]
    shown: tuple[list[TrialShown], ...]  # the transcripts in the page itself
    pages: tuple[Beside, ...]
    calls: tuple[CallList, ...]
    inline: Calls

    def beside(self, run: int) -> list[TrialLine]:
        """The trials that stand on pages beside this one."""
        return [one for one in self.lines[run] if one.file]

    def unwritten(self, run: int) -> int:
        return sum(not one.written for one in self.lines[run])

    def scenario(self, run: int, name: str) -> str:
        """Where the worst trial of a scenario stands; empty where it was not played."""
        lines = (line for line in self.lines[run] if line.trial.scenario == name)
        return next((line.href for line in lines), "")


def behind(view: View, folder: str) -> Behind:
    """`folder` is that of the pages beside it, as the page names it."""
    total = sum(run.played for run in view.runs)
    keep = INLINE // max(1, len(view.runs)) if total > INLINE else INLINE
    parts = [
        _of_run(run, at, keep, folder, everything=total <= MOST) for at, run in enumerate(view.runs)
    ]
    calls = (one for part in parts for one in part.calls)
    return Behind(
        lines=tuple(lines for part in parts for lines in part.lines),
        shown=tuple(shown for part in parts for shown in part.shown),
        pages=tuple(page for part in parts for page in part.pages),
        calls=tuple(sorted(calls, key=lambda one: (one.failure_class, one.place))),
        inline={place: of for part in parts for place, of in part.inline.items()},
    )


def _of_run(run: RunView, at: int, keep: int, folder: str, *, everything: bool) -> Behind:
    worst = worst_first(run, at)
    wanted = {one.place for one in _wanted(worst, keep)}
    written = {one.place for one in worst} if everything else wanted
    lines = _placed(worst, keep, written, f"{folder}/trials-{at + 1}")
    beside = [one for one in lines if one.file]
    pages = (
        Beside(some[0].file, at, run, tuple(some), keep + start + 1)
        for start in range(0, len(beside), BESIDE)
        for some in [beside[start : start + BESIDE]]
    )
    read = list(read_trials(run, [one for one in lines if one.place in wanted]))
    shown = [shown_trial(trial, line.place) for line, trial in read if not line.file]
    inline: Calls = {}
    found: Calls = {}
    for line, trial in read:
        gather(found, at, line, trial)
        if not line.file:
            gather(inline, at, line, trial)
    lists = tuple(call_lists(run, at, found, folder if everything else "")) if worst else ()
    return Behind((lines,), (shown,), tuple(pages), lists, inline)


def worst_first(run: RunView, at: int) -> list[TrialLine]:
    """Those that did not complete, then the void, then the others; each by their denials."""
    if run.tallies is None:
        return []
    tallies = run.tallies.trials
    counted, void = ([one for one in tallies if one.void is kind] for kind in (False, True))
    played = zip((*run.score.counted, *run.score.voids), (*counted, *void), strict=True)
    found = sorted(played, key=lambda one: (rank(one[0].outcome), -one[1].denied))
    return [
        TrialLine(trial, tally.denied, f"t{at}-{number}")
        for number, (trial, tally) in enumerate(found)
    ]


def _wanted(lines: Sequence[TrialLine], keep: int) -> list[TrialLine]:
    """Those that the page shows or leads to.

    These are its own, the worst of each scenario, and those with the first calls of each class.
    """
    seen: Counter[str] = Counter()
    scenarios: set[str] = set()
    found = []
    for number, line in enumerate(lines):
        errors = {} if line.trial.void else line.trial.errors
        rare = any(seen[name] < CALLS for name, count in errors.items() if count)
        if number < keep or rare or line.trial.scenario not in scenarios:
            found.append(line)
        scenarios.add(line.trial.scenario)
        seen.update(errors)
    return found


def _placed(
    lines: Sequence[TrialLine], keep: int, written: Collection[str], file: str
) -> tuple[TrialLine, ...]:
    """With the file that each is written into, a number of them in one."""
    beside = [one.place for one in lines[keep:] if one.place in written]
    files = {place: f"{file}-{at // BESIDE + 1}.html" for at, place in enumerate(beside)}
    return tuple(
        replace(one, file=files.get(one.place, ""), written=number < keep or one.place in files)
        for number, one in enumerate(lines)
    )


def read_trials(run: RunView, lines: Sequence[TrialLine]) -> Iterator[tuple[TrialLine, Trial]]:
    """Their transcripts; one that was played again meanwhile has none any more."""
    by_world = {line.trial.world: line for line in lines}
    for trial in run.transcripts(list(by_world)) if run.transcripts else ():
        if line := by_world.get((trial.scenario, trial.number, trial.seed)):
            yield line, trial


def prompts_of(trials: Sequence[TrialShown]) -> dict[str, str]:
    """The long messages that these trials began with, each with its place in the page."""
    said = dict.fromkeys(text for one in trials for text in _told(one) if len(text) >= LONG)
    return {text: f"p{at}" for at, text in enumerate(said)}


def _told(shown: TrialShown | AgentShown) -> Iterator[str]:
    yield from (text for _, text in shown.prompt)
    asked = (agent for turn in shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*asked, *shown.agents):
        yield from _told(agent)


def repeat_line(run: Run) -> str:
    """The command that plays the run again, in the same worlds; empty where nobody kept it."""
    asked = run.options
    if asked is None:
        return ""
    words = ["agenteval run", *(f"--model {quoted(name)}" for name in (run.model.name,))]
    words += [quoted(target) for target in asked.targets]
    words += [f"--trials {asked.trials}", f"--seed {asked.seed}"]
    words.append(f"--concurrency {run.concurrency}")
    given = {
        "base-url": re.sub(r"(?<=://)[^/]*@", "", asked.base_url or ""),  # a password
        "max-turns": asked.max_turns,
        "arm": asked.arm,
        "prompt-variant": asked.prompt_variant,
        "rules": asked.rules if asked.rules != "start" else None,
        "context": asked.context if asked.context != "0" else None,
        "sandbox": asked.sandbox,
        "harness": asked.harness or None,
        "allowlist": asked.allowlist or None,
    }
    words += [f"--{name} {quoted(str(value))}" for name, value in given.items() if value]
    return " ".join(words) + ("" if asked.prefork else " --no-prefork")
