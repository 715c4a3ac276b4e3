"""The changes that the denied calls of stored runs suggest: options, rules, prompt sentences.

Counts only: `whatif` estimates the effect of rules, and a new run shows that of a prompt.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from agenteval.bounded import read_text, write_whole
from agenteval.core.call import Denied
from agenteval.core.plain import as_word
from agenteval.core.policy.relaxation import Relaxation
from agenteval.core.prompt.setting import HEADING, NAMED, VARIANTS
from agenteval.core.run import Run
from agenteval.errors import CutOffError, UsageError
from agenteval.workflows.evaluate import run_models
from agenteval.workflows.stages import plan_of
from agenteval.workflows.views import check_usable, loaded

INVENTED: Final = (
    *("hallucinated-flag", "hallucinated-sub-command", "hallucinated-value"),
    *("hallucinated-script", "hallucinated-tool"),
)
# What a prompt would say of a class; `{{ bash }}` is the tool's name in the arm.
SENTENCES: Final[Mapping[str, str]] = {
    "pipe-to-filter": "Do not trim output (`| head`, `| grep`, `| jq`): read all of it.",
    "pipe": "Do not pipe one command into another.",
    "stderr-redirect": "Do not redirect or suppress errors (`2>&1`, `2>/dev/null`).",
    "shell-chain": "One command per {{ bash }} call: no `&&`, `||` or `;`.",
    "control-flow": "One command per {{ bash }} call: no loops and no conditions.",
    "file-redirect": "Do not make files by {{ bash }}: no `>`.",
    "heredoc": "No here-documents: a long value is one quoted argument.",
    "heredoc-to-file": "Do not make files by {{ bash }}: no here-documents.",
    "command-substitution": "No command substitution (`$( )`): give the value itself.",
    "env-assignment": "Set no variables before a command.",
    "wrapper-prefix": "No prefixes such as `timeout`, `env` or `sudo`.",
    "background": "Start nothing in the background.",
    "bare-binary": "Call no other programs than the listed scripts: no ls, cat, find or python.",
    "inline-code": "Run no code of your own (`python -c`): use a listed script.",
    "unlisted-script": "Run listed scripts only, whatever else lies there.",
    "wrong-runner": "Call a script as it is listed, with the same words before it.",
    "hallucinated-flag": "Use an option only if the list or `--help` has it.",
    "hallucinated-sub-command": "Use a sub-command only if the list or `--help` has it.",
    "hallucinated-script": "Call a script by its listed path only.",
    "hallucinated-tool": "Call only the tools that you were given; scripts are run by {{ bash }}.",
    "blocked-path": "Open files of this workspace only, by paths from its root.",
}


@dataclass(frozen=True, slots=True)
class _Invention:
    """A part of calls that does not exist: its text, its place, its count, and the models."""

    failure_class: str
    part: str
    where: str
    count: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence for a prompt.

    `denied` counts the calls of its class, and `already_told` those whose prompt had such a rule.
    """

    failure_class: str
    text: str
    denied: int
    already_told: int


@dataclass(frozen=True, slots=True)
class Suggested:
    """Both by how often they would have been to the point."""

    inventions: Sequence[_Invention]
    sentences: Sequence[_Sentence]
    without: int  # denied calls of which no sentence speaks


def suggest(names: Sequence[str], store: str) -> Suggested:
    """By the judgement that is in force. Raises UsageError."""
    runs = loaded(names, store)
    return Suggested(tuple(_inventions(runs)), *_sentences(runs))


def _denied(runs: Sequence[Run]) -> Iterator[tuple[Run, str, Denied]]:
    """Yield the run of each denied call, the start of the call, and its verdict."""
    for run in runs:
        for trial in run.trials:
            parts = () if trial.cause else (trial.calls, *(one.calls for one in trial.agents))
            for record in chain.from_iterable(parts):
                if isinstance(record.verdict, Denied):
                    yield run, _start(record.call.command or ""), record.verdict


def _start(command: str) -> str:
    """The script that a command names, or its program."""
    words = command.split()
    scripts = (word for word in words if word.endswith((".py", ".sh")))
    return next(scripts, words[0] if words else "")


def _inventions(runs: Sequence[Run]) -> Iterator[_Invention]:
    counts: Counter[tuple[str, str, str]] = Counter()
    by: dict[tuple[str, str, str], set[str]] = {}
    for run, start, verdict in _denied(runs):
        primary = verdict.primary
        if primary.failure_class in INVENTED:
            key = (primary.failure_class, primary.evidence.text.strip(), start)
            counts[key] += 1
            by.setdefault(key, set()).add(run.model.name)
    for key in sorted(counts, key=lambda one: (-len(by[one]), -counts[one], one)):
        yield _Invention(*key, counts[key], tuple(sorted(by[key])))


def _sentences(runs: Sequence[Run]) -> tuple[tuple[_Sentence, ...], int]:
    denied: Counter[str] = Counter()
    already_told: Counter[str] = Counter()
    for run, _, verdict in _denied(runs):
        name = verdict.primary.failure_class
        denied[name] += 1
        already_told[name] += name in _named(run)
    sentences = tuple(
        _Sentence(name, SENTENCES[name], count, already_told[name])
        for name, count in denied.most_common()
        if name in SENTENCES
    )
    return sentences, denied.total() - sum(one.denied for one in sentences)


def _named(run: Run) -> frozenset[str]:
    """The classes that the rules of its prompt name, where those are some of ours."""
    variant = (run.options and run.options.prompt_variant) or ""
    return frozenset(name for part in variant.split("+") for name in NAMED.get(part, ()))


def write_prompt(run: str, store: str, sentences: Sequence[_Sentence], file: Path) -> None:
    """The rules of the run's prompt with these sentences, as `--prompt-variant` takes them."""
    (stored,) = loaded([run], store)
    if not sentences:
        raise UsageError(f"{stored.id}: no call was denied of which a sentence could speak")
    if file.exists():
        raise UsageError(f"{file}: is there already: name a new file, or move that one away")
    named = (stored.options and stored.options.prompt_variant) or "none"
    before = VARIANTS.get(named)
    if before is None:
        before = read_text(Path(named)).strip()
    lines = [*filter(None, [before or HEADING]), "", *(f"- {each.text}" for each in sentences)]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, "\n".join(lines) + "\n")


def tried(run: str, store: str, *, prompt: Path | None, more: Relaxation) -> str:
    """Play the run again with this prompt or these rules, in the same task instances; its id.

    Raises UsageError, and CutOffError.
    """
    (original,) = loaded([run], store)
    if original.options is None:
        raise UsageError(f"{original.id}: made before runs could be played again: begin a new one")
    if original.options.harness:
        raise UsageError(
            f"{original.id}: a real harness has a prompt of its own, which is not changed"
        )
    options = replace(original.options, model=(original.model.name,))
    if prompt is not None:
        options = replace(options, prompt_variant=str(prompt))
    sides, interrupted = run_models(replace(plan_of(options, store), more=more))
    run_ids = [side.run_and_score[0].id for side in sides]
    if interrupted:
        stored = (
            f"what was played is stored: agenteval show {as_word(run_ids[0])}"
            if run_ids
            else "nothing began"
        )
        raise CutOffError(f"Cut off, and not compared; {stored}")
    check_usable(sides)
    return run_ids[0]
