"""The evidence behind a report's figures: trials, denied calls, and how to play them again."""

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
    """A separate page next to the report, with some trials of one run."""

    file: str
    at: int  # which run
    run: RunView
    lines: tuple[TrialLine, ...]
    first: int  # the number of the first one, from 1, among those that are written


@dataclass(frozen=True, slots=True)
class Behind:
    """The trials and denied calls of a report.

    `lines` are all trials of each run, the worst first. `calls` are the denied calls by class.
    `inline` has the calls of the trials in the page itself, by the place of their list.
    """

    lines: tuple[tuple[TrialLine, ...], ...]
    transcripts: tuple[list[TrialShown], ...]  # those in the page itself
    pages: tuple[Beside, ...]
    calls: tuple[CallList, ...]
    inline: Calls

    def lines_on_other_pages(self, run: int) -> list[TrialLine]:
        """Return the trials that are on separate pages."""
        return [one for one in self.lines[run] if one.file]

    def unwritten(self, run: int) -> int:
        return sum(not one.written for one in self.lines[run])

    def scenario(self, run: int, name: str) -> str:
        """Return the link to the worst trial of a scenario; empty if it was not played."""
        lines = (line for line in self.lines[run] if line.trial.scenario == name)
        return next((line.href for line in lines), "")


def behind(view: View, folder: str) -> Behind:
    """Collect the evidence of a view; `folder` has the separate pages, relative to the report."""
    total = sum(run.played for run in view.runs)
    keep = INLINE // max(1, len(view.runs)) if total > INLINE else INLINE
    parts = [
        _of_run(run, at, keep, folder, everything=total <= MOST) for at, run in enumerate(view.runs)
    ]
    calls = (one for part in parts for one in part.calls)
    return Behind(
        lines=tuple(lines for part in parts for lines in part.lines),
        transcripts=tuple(of_run for part in parts for of_run in part.transcripts),
        pages=tuple(page for part in parts for page in part.pages),
        calls=tuple(sorted(calls, key=lambda one: (one.failure_class, one.place))),
        inline={place: of for part in parts for place, of in part.inline.items()},
    )


def _of_run(run: RunView, at: int, keep: int, folder: str, *, everything: bool) -> Behind:
    worst = worst_first(run, at)
    linked = {one.place for one in _linked_lines(worst, keep)}
    written = {one.place for one in worst} if everything else linked
    lines = _placed(worst, keep, written, f"{folder}/trials-{at + 1}")
    on_other_pages = [one for one in lines if one.file]
    pages = (
        Beside(some[0].file, at, run, tuple(some), keep + start + 1)
        for start in range(0, len(on_other_pages), BESIDE)
        for some in [on_other_pages[start : start + BESIDE]]
    )
    read = list(read_trials(run, [one for one in lines if one.place in linked]))
    transcripts = [shown_trial(trial, line.place) for line, trial in read if not line.file]
    inline: Calls = {}
    calls: Calls = {}
    for line, trial in read:
        gather(calls, at, line, trial)
        if not line.file:
            gather(inline, at, line, trial)
    lists = tuple(call_lists(run, at, calls, folder if everything else "")) if worst else ()
    return Behind((lines,), (transcripts,), tuple(pages), lists, inline)


def worst_first(run: RunView, at: int) -> list[TrialLine]:
    """Return trials that did not complete, then void ones, then the others; most denials first."""
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


def _linked_lines(lines: Sequence[TrialLine], keep: int) -> list[TrialLine]:
    """Return the trials that the page shows or links to.

    These are the first `keep`, the worst of each scenario, and those with the first calls of each
    class.
    """
    errors_so_far: Counter[str] = Counter()
    scenarios: set[str] = set()
    linked = []
    for number, line in enumerate(lines):
        errors = {} if line.trial.void else line.trial.errors
        rare = any(errors_so_far[name] < CALLS for name, count in errors.items() if count)
        if number < keep or rare or line.trial.scenario not in scenarios:
            linked.append(line)
        scenarios.add(line.trial.scenario)
        errors_so_far.update(errors)
    return linked


def _placed(
    lines: Sequence[TrialLine], keep: int, written: Collection[str], file: str
) -> tuple[TrialLine, ...]:
    """Return the lines with the file that each is written to; a file has several of them."""
    on_other_pages = [one.place for one in lines[keep:] if one.place in written]
    files = {place: f"{file}-{at // BESIDE + 1}.html" for at, place in enumerate(on_other_pages)}
    return tuple(
        replace(one, file=files.get(one.place, ""), written=number < keep or one.place in files)
        for number, one in enumerate(lines)
    )


def read_trials(run: RunView, lines: Sequence[TrialLine]) -> Iterator[tuple[TrialLine, Trial]]:
    """Yield the lines with their transcripts, without trials that were replaced since."""
    by_world = {line.trial.world: line for line in lines}
    for trial in run.transcripts(list(by_world)) if run.transcripts else ():
        if line := by_world.get((trial.scenario, trial.number, trial.seed)):
            yield line, trial


def prompts_of(trials: Sequence[TrialShown]) -> dict[str, str]:
    """Return the long messages that these trials began with, each with its anchor in the page."""
    texts = dict.fromkeys(text for one in trials for text in _messages(one) if len(text) >= LONG)
    return {text: f"p{at}" for at, text in enumerate(texts)}


def _messages(shown: TrialShown | AgentShown) -> Iterator[str]:
    yield from (text for _, text in shown.prompt)
    agents = (agent for turn in shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*agents, *shown.agents):
        yield from _messages(agent)


def repeat_line(run: Run) -> str:
    """Return the command that repeats the run with the same task instances.

    Empty where its options were not stored.
    """
    options = run.options
    if options is None:
        return ""
    words = ["agenteval run", *(f"--model {quoted(name)}" for name in (run.model.name,))]
    words += [quoted(target) for target in options.targets]
    words += [f"--trials {options.trials}", f"--seed {options.seed}"]
    words.append(f"--concurrency {run.concurrency}")
    option_values = {
        "base-url": re.sub(r"(?<=://)[^/]*@", "", options.base_url or ""),  # a password
        "max-turns": options.max_turns,
        "arm": options.arm,
        "prompt-variant": options.prompt_variant,
        "rules": options.rules if options.rules != "start" else None,
        "context": options.context if options.context != "0" else None,
        "sandbox": options.sandbox,
        "harness": options.harness or None,
        "allowlist": options.allowlist or None,
    }
    words += [f"--{name} {quoted(str(value))}" for name, value in option_values.items() if value]
    return " ".join(words) + ("" if options.prefork else " --no-prefork")
