"""What stands behind the figures of a page: its trials and denied calls, how to play them again."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agenteval.core.outcome import Outcome
from agenteval.core.plain import shortened
from agenteval.core.run import Run
from agenteval.core.trial import CallRecord, Trial
from agenteval.report.transcripts import (
    AgentShown,
    TrialShown,
    denials,
    marked_text,
    shown_trial,
    worst_first,
)
from agenteval.report.view import RunView, View

INLINE = 90  # trials in the page itself, of all runs together
BESIDE = 100  # trials on a page beside it
CALLS = 40  # of one class and model in the page itself
CALL_SHOWN = 160  # characters before, in and after the evidence
LONG = 500  # characters of a message from which on it stands once in a page


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial of the list of all; `href` leads to its transcript."""

    trial: Trial
    place: str
    file: str  # that it stands in; empty for the page itself
    denials: int

    @property
    def href(self) -> str:
        return f"{self.file}#{self.place}"


@dataclass(frozen=True, slots=True)
class CallLine:
    """One denied call: where it stands, and its text with the evidence apart."""

    href: str
    where: str
    before: str
    marked: str
    after: str


@dataclass(frozen=True, slots=True)
class CallList:
    """The calls behind one figure; `left` are those that do not stand in the page."""

    place: str
    failure_class: str
    run: RunView
    calls: tuple[CallLine, ...]
    left: int

    @property
    def count(self) -> int:
        return len(self.calls) + self.left

    @property
    def command(self) -> str:
        return f"agenteval calls {self.run.run.id} --class {self.failure_class}"


@dataclass(frozen=True, slots=True)
class Beside:
    """A page beside the report: some trials of one run."""

    file: str
    run: RunView
    lines: tuple[TrialLine, ...]
    first: int  # the number of the first one, from 1

    @property
    def shown(self) -> list[TrialShown]:
        return [shown_trial(line.trial, line.place) for line in self.lines]


@dataclass(frozen=True, slots=True)
class Behind:
    """`lines` are all trials of each run, the worst first."""

    runs: tuple[RunView, ...]
    lines: tuple[tuple[TrialLine, ...], ...]
    inline: int  # of each run
    pages: tuple[Beside, ...]

    def shown(self) -> list[list[TrialShown]]:
        """The transcripts in the page itself."""
        return [
            [shown_trial(line.trial, line.place) for line in lines[: self.inline]]
            for lines in self.lines
        ]

    def calls(self) -> list[CallList]:
        """The denied calls that the rates count, by class and model."""
        found = [
            _call_list(failure_class, at, run, of)
            for at, (run, lines) in enumerate(zip(self.runs, self.lines, strict=True))
            for failure_class, of in _denied(lines).items()
        ]
        return sorted(found, key=lambda one: (one.failure_class, one.place))

    def scenario(self, run: int, name: str) -> str:
        """Where the worst trial of a scenario stands; empty where it was not played."""
        lines = (line for line in self.lines[run] if line.trial.scenario == name)
        return next((line.href for line in lines), "")


def behind(view: View, folder: str) -> Behind:
    """`folder` is that of the pages beside it, as the page names it."""
    inline = INLINE // max(1, len(view.runs))
    several = sum(len(run.run.trials) for run in view.runs) > INLINE
    lines, pages = [], []
    for at, run in enumerate(view.runs):
        worst = worst_first(run.run.trials)
        keep = inline if several else len(worst)
        kept = []
        for number, trial in enumerate(worst):
            part = (number - keep) // BESIDE + 1
            file = "" if number < keep else f"{folder}/trials-{at + 1}-{part}.html"
            kept.append(TrialLine(trial, f"t{at}-{number}", file, denials(trial)))
        lines.append(tuple(kept))
        for start in range(keep, len(kept), BESIDE):
            some = tuple(kept[start : start + BESIDE])
            pages.append(Beside(some[0].file, run, some, start + 1))
    return Behind(view.runs, tuple(lines), inline if several else INLINE, tuple(pages))


Denied = dict[str, list[tuple[TrialLine, CallRecord]]]


def _denied(lines: Sequence[TrialLine]) -> Denied:
    """By class, those that the rates count: the first agent's, in trials that are not void."""
    found: Denied = {}
    for line in lines:
        for record in line.trial.calls if line.trial.outcome is not Outcome.VOID else ():
            if record.verdict.primary is not None:
                found.setdefault(record.verdict.primary.failure_class, []).append((line, record))
    return found


def calls_place(run: int, failure_class: str) -> str:
    return f"c{run}-{failure_class}"


def _call_list(
    failure_class: str, at: int, run: RunView, found: Sequence[tuple[TrialLine, CallRecord]]
) -> CallList:
    calls = tuple(_call_line(line, record) for line, record in found[:CALLS])
    return CallList(
        calls_place(at, failure_class), failure_class, run, calls, len(found) - len(calls)
    )


def _call_line(line: TrialLine, record: CallRecord) -> CallLine:
    before, marked, after = marked_text(record.call, record.verdict)
    if marked and len(before) > CALL_SHOWN:
        before = f"(...) {before[-CALL_SHOWN:]}"
    return CallLine(
        f"{line.href}-{record.turn + 1}",
        f"{line.trial.scenario} #{line.trial.number}, turn {record.turn + 1}",
        *(shortened(part, CALL_SHOWN + 6) for part in (before, marked, after)),
    )


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
    }
    words += [f"--{name} {quoted(str(value))}" for name, value in given.items() if value]
    return " ".join(words) + ("" if asked.prefork else " --no-prefork")


def quoted(word: str) -> str:
    """As a shell reads it back."""
    plain = word and all(one.isalnum() or one in "-_./:+,@=" for one in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"
