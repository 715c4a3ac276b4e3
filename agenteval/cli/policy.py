"""Rules and verdicts: `allowlist`, `classify`, `rescore`, `explain`, `whatif` and `suggest`."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from typer import Argument, Exit, Option

from agenteval import logs, workflows
from agenteval.cli import options, output
from agenteval.cli.options import DEFAULT_STORE, Store, StoredRuns
from agenteval.cli.output import chosen, print_data, reader_may_go, say
from agenteval.dialects import NAMES
from agenteval.errors import UsageError
from agenteval.host import write_whole
from agenteval.policy.lint import NOTHING, Relaxation
from agenteval.trial.text import as_file_part, shortened

if TYPE_CHECKING:
    from agenteval.trial.call import ToolCall, Verdict
    from agenteval.workflows.reference import BadLine, Judged
    from agenteval.workflows.whatif import Relaxed, Suggested, Trials, WhatIf
allowlist = options.group(
    "Check an allow list, make one from scripts, or write it for another harness."
)
Given = Annotated[
    str,
    Argument(
        help="A name, a TOML path, or an opencode.json, agent .md, settings.json or .rules file."
    ),
]


@allowlist.command()
def lint(given: Given) -> None:
    """Find rules that can never match, that say nothing new, or that let more through.

    Exit code: 0 when there is nothing to say, 1 when there is.

    Examples:
    - `agenteval allowlist lint demo`

    - `agenteval allowlist lint .claude/settings.json`
    """
    remarks = workflows.reference.lint(given)
    with reader_may_go():
        for remark in remarks:
            said = f"`{remark.rule}` {remark.trouble.value}: {remark.reason}"
            say(f"{given}: {_in_one_line(said)}")
    if remarks:
        raise Exit(1)


@allowlist.command()
def convert(
    given: Given,
    *,
    to: Annotated[str, Option(help=f"For whom: {', '.join(NAMES)}, toml, or a plug-in's name.")],
) -> None:
    """Print an allow list as another harness writes it, and on standard error what got lost.

    Examples:
    - `agenteval allowlist convert demo --to opencode > opencode.json`

    - `agenteval allowlist convert .claude/settings.json --to toml > allowlists/mine.toml`
    """
    written = workflows.reference.convert(given, to)
    print_data(written.text)
    for line in written.lost:
        say(f"not carried over: {_in_one_line(line)}", err=True)


def _in_one_line(text: str) -> str:
    """Rules that a harness wrote down itself can hold whole scripts."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


@allowlist.command()
def derive(
    scripts: Annotated[Path, Argument(help="A folder of Python scripts, or one of them.")],
    *,
    file: Annotated[
        Path | None,
        Option("--file", help="Write it there, to a new file. Default: print it."),
    ] = None,
    runner: Annotated[str, Option(help="What stands before a script's path.")] = "uv run",
    sandbox: options.SandboxName = None,
) -> None:
    """Write an allow list from what scripts themselves say they take: argparse, click or typer.

    Each script is run in a sandbox up to the moment when it would read its command line; nothing
    after that happens. A script that does not come so far is a comment with the reason.

    Examples:
    - `agenteval allowlist derive fixtures/ralf/files/scripts`

    - `agenteval allowlist derive my-scripts/ --file allowlists/mine.toml`
    """
    if file and file.exists():
        raise UsageError(f"--file {file}: is there already. Name a new file, or move that one away")
    text = workflows.derive.derive_text(scripts, runner, sandbox)
    if file is None:
        print_data(text)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    say(f"wrote {file}")


# `agenteval classify`, `rescore` and `explain`.

AllowList = Annotated[
    str,
    Option(
        "--allowlist",
        "-a",
        envvar="AGENTEVAL_ALLOWLIST",
        help="An allow list by name or path; also an opencode.json, an OpenCode agent's .md, a "
        "Claude Code settings.json, a Codex .rules file.",
    ),
]
OneCommand = Annotated[str | None, Argument(help="The command; - reads it from standard input.")]
Jsonl = Annotated[str | None, Option(help="A file of tool calls, one JSON object a line; or -.")]
AsLines = Annotated[bool, Option("--json", help="Print a line of JSON a call.")]
SecondReader = Annotated[
    bool,
    Option(
        "--second-reader",
        help="Ask it about allowed commands, as a run does: what it reads otherwise is denied.",
    ),
]
ExitCode = Annotated[bool, Option("--exit-code", help="Exit 1 when any call is denied.")]


def classify(  # noqa: PLR0913 -- one parameter for each option
    command: OneCommand = None,
    *,
    jsonl: Jsonl = None,
    allowlist: AllowList = "demo",
    as_json: AsLines = False,
    taxonomy: options.Taxonomy = "full",
    second_reader: SecondReader = False,
    exit_code: ExitCode = False,
) -> None:
    """Say whether a tool call is allowed, and if it is denied, why.

    A line of --jsonl is `{"command": "ls"}`, a whole call such as
    `{"name": "read", "arguments": {"path": "x"}}`, or a message that holds calls as OpenAI's and
    Anthropic's APIs, Claude Code, OpenCode, Codex, Gemini and Qwen Code write them; the file may be
    packed. A line that is none of these is named on standard error; the others are still judged,
    and the exit code is 2.

    Exit code: 0 whatever the verdict; 1 when a call is denied and --exit-code is given; 2 for
    bad input.

    Examples:
    - `agenteval classify 'uv run scripts/notes.py list | head -5'`

    - `agenteval classify --json --taxonomy article 'ls -la'`

    - `agenteval classify --jsonl calls.jsonl --json | jq -r .class | sort | uniq -c`

    - `agenteval classify --allowlist allowlists/demo.toml - < command.sh`
    """
    show, flush = _printer(jsonl, taxonomy, as_json=as_json, all_count=exit_code)
    results = _results(command, jsonl, allowlist, second_reader=second_reader)
    bad, denied = _show_all(results, show, flush, source=jsonl)
    if bad or (exit_code and denied):
        raise Exit(2 if bad else 1)


def _results(
    command: str | None,
    jsonl: str | None,
    allowlist: str,
    *,
    second_reader: bool,
) -> "Iterator[Judged | BadLine]":
    return workflows.reference.classify(
        _calls(command, jsonl),
        allowlist,
        only_bash=jsonl is None,
        second_reader=second_reader,
        warn=_warn,
    )


def _warn(line: str) -> None:
    say(f"agenteval: {line}", err=True)


def _show_all(
    results: "Iterator[Judged | BadLine]",
    show: "Callable[[ToolCall, Verdict], None]",
    flush: "Callable[[], None]",
    *,
    source: str | None,
) -> tuple[bool, bool]:
    """Show each verdict as it is reached; return if a line was bad, and if a call was denied."""
    output.collect_rarely(_RARELY)
    bad = denied = False
    without_call = 0
    try:
        for result in results:
            if isinstance(result, tuple):
                call, verdict = result
                denied |= not verdict.allowed
                show(call, verdict)
            elif result.reason:
                bad = True
                _warn(f"{source}:{result.number}: {result.reason}")
            else:
                without_call += 1
    finally:
        flush()
    if without_call:
        _warn(f"{source}: {without_call} messages hold no tool call")
    return bad, denied


def _calls(command: str | None, jsonl: str | None) -> "Iterator[ToolCall | BadLine]":
    if (command is None) == (jsonl is None):
        raise UsageError("give one command, - or --jsonl FILE (see agenteval classify --help)")
    reading = workflows.reference
    if command is not None:
        text = reading.whole(_standard_input()) if command == "-" else command
        yield logs.tool_calls.bash_call(text)
    elif jsonl is not None:
        yield from reading.read_lines(
            reading.bounded_lines(_standard_input()) if jsonl == "-" else reading.file_lines(jsonl)
        )


def _standard_input() -> TextIO:
    return workflows.reference.text_of(sys.stdin.buffer)


def _printer(
    source: str | None,
    taxonomy: str,
    *,
    as_json: bool,
    all_count: bool,
) -> "tuple[Callable[[ToolCall, Verdict], None], Callable[[], None]]":
    """Return a function that shows a verdict, and one that shows those still waiting.

    The verdicts of a file are shown many at a time. With `all_count`, or of a file, calls are
    judged on when nobody reads the verdicts any more.
    """
    # Without a terminal the colours are left out by typer, but it knows no NO_COLOR.
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    row = workflows.reference.row_name(taxonomy)
    text_of = output.as_json if as_json else output.as_text
    waiting: list[str] = []

    def show(call: "ToolCall", verdict: "Verdict") -> None:
        waiting.append(text_of(call, verdict, row))
        # Who writes to our standard input may wait for each answer.
        if len(waiting) == _AT_ONCE or source == "-":
            flush()

    def flush() -> None:
        if waiting:
            with output.reader_may_go() if all_count or source != "-" else nullcontext():
                if as_json:
                    output.print_data("\n".join((*waiting, "")))
                else:
                    typer.echo("\n".join(waiting), color=color)
            waiting.clear()

    return show, flush


_RARELY = 100_000  # objects made between two rounds of gc: at each 700 it takes a sixth of the time
_AT_ONCE = 256  # lines: to write each by itself takes a third of the time


def rescore(
    runs: StoredRuns,
    *,
    allowlist: Annotated[
        str | None,
        Option("--allowlist", "-a", help="Another allow list, as `classify` takes it."),
    ] = None,
    own: Annotated[
        bool, Option("--own", help="The allow lists that the run was played under, as today.")
    ] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Judge the stored calls of runs again, by today's taxonomy or another allow list.

    Without --allowlist and --own, by the allow lists that judged them last. No model is asked. The
    judgement before is kept beside the new one, with the versions of both. How a trial ended, and
    what its calls did, stays as it happened.

    Examples:
    - `agenteval rescore last`

    - `agenteval rescore last --allowlist allowlists/demo.toml`

    - `agenteval rescore last --own`
    """
    for run in dict.fromkeys(chosen(runs, store)):
        done = workflows.rescore.rescore(run, store, allowlist=allowlist, own=own)
        say(f"{done.run_id}: {done.changed} of {done.calls} calls are judged differently")
        for (before, now), count in sorted(done.moves.items(), key=lambda move: -move[1]):
            say(f"  {count:6}  {before} -> {now}")


def explain(
    failure_class: Annotated[
        str | None, Argument(help="Its id, such as pipe-to-filter. Default: list all.")
    ] = None,
) -> None:
    """Tell what a failure class is, with examples, or a kind of malformed call.

    Examples:
    - `agenteval explain`

    - `agenteval explain pipe-to-filter`
    """
    if failure_class is None:
        for line in workflows.reference.titles():
            say(line)
    else:
        output.say_text(workflows.reference.page_of(failure_class))


# `agenteval whatif` and `suggest`.


def whatif(
    runs: StoredRuns,
    *,
    budget: Annotated[
        float | None,
        Option(min=0, help="The smallest set of rules with so many errors per 100."),
    ] = None,
    allowlist: Annotated[
        str | None, Option("--allowlist", "-a", help="Begin at another allow list.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Say which rules would remove most errors of stored runs, and what they would let run.

    No model is asked. What a model would have done after a call that it was then allowed nobody
    knows: the second figure counts of each trial only the first call that would change.

    Exit code: 0; 1 where no set of rules has so few errors as --budget asks.

    Examples:
    - `agenteval whatif last`

    - `agenteval whatif last --budget 5`
    """
    whatifs = workflows.whatif.whatif(chosen(runs, store), store, allowlist=allowlist)
    now = whatifs.relaxed(NOTHING)
    smallest, is_least = whatifs.smallest_set(budget) if budget is not None else (None, True)
    relaxations = whatifs.best() if budget is None else [smallest] if smallest else []
    with output.reader_may_go():
        if as_json:
            output.print_json({"now": _document(now),
                               "relaxed": [_document(one) for one in relaxations],
                               "is_smallest": is_least})  # fmt: skip
        else:
            for line in _relaxations(whatifs, now, relaxations, budget, is_least=is_least):
                say(line)
    if budget is not None and smallest is None:
        raise Exit(1)


def _relaxations(
    whatifs: "WhatIf",
    now: "Relaxed",
    relaxations: "Sequence[Relaxed]",
    budget: float | None,
    *,
    is_least: bool,
) -> Iterator[str]:
    simulated = " SIMULATED" if any(run.simulated for run in whatifs.runs) else ""
    yield f"now{simulated}: {now.rate.per_100()} errors per 100 calls"
    for one in relaxations:
        yield from _relaxed(one, now, whatifs.runs)
    if budget is not None and not relaxations:
        yield f"no set of rules has {budget:g} errors per 100 or fewer"
    elif not is_least:
        yield "a smaller set may do: there are too many to try all of them"


def _relaxed(relaxed: "Relaxed", now: "Relaxed", runs: "Sequence[Trials]") -> Iterator[str]:
    more = relaxed.more
    rules = more.description if more.size else "no rule more"
    yield f"{rules}: {now.rate.per_100()} -> {relaxed.rate.per_100()}"
    if len(relaxed.first) < len(relaxed.calls):
        first = f"{len(relaxed.first)} of {len(relaxed.calls)} changes are the first of their trial"
        yield f"    {first}; with these alone {relaxed.cautious.per_100()}"
    if len(runs) > 1:
        flips = [f"{after} then makes fewer than {before}" for before, after in relaxed.flips]
        yield f"    {'; '.join(flips) or 'the order of the models stays'}"
        for run, was, then in zip(runs, now.rates(), relaxed.rates(), strict=True) if flips else ():
            yield f"        {run.model}: {was.per_100()} -> {then.per_100()}"
    for command, count, harms in relaxed.let_through[:_SHOWN]:
        facets = f" ({', '.join(harms)})" if harms else ""
        yield f"    lets through{facets} {_times(count)}: {_brief(command)}"


def _brief(written: str) -> str:
    """Return a model's text on one line that a terminal has space for."""
    return _in_one_line(shortened(written, _WIDE))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


_SHOWN, _WIDE = 3, 100  # commands of each set of rules, and characters of each


def _document(relaxed: "Relaxed") -> dict[str, Any]:
    def rate(measured: Any) -> dict[str, Any]:
        return {"per_100": 100 * measured.value, "n": measured.n, "low": 100 * measured.low,
                "high": 100 * measured.high}  # fmt: skip

    models = zip(relaxed.runs, relaxed.rates(), relaxed.rates(relaxed.first), strict=True)
    return {
        "allow": sorted(f"{program} *" for program in relaxed.more.programs),
        "constructs": sorted(relaxed.more.constructs),
        "rate": rate(relaxed.rate),
        "first_changes_only": rate(relaxed.cautious),
        "models": [
            {"run": run.run, "model": run.model, "simulated": run.simulated, "rate": rate(all_of),
             "first_changes_only": rate(first)}
            for run, all_of, first in models
        ],
        "flips": [list(pair) for pair in relaxed.flips],
        "lets_through": [
            {"command": command, "count": count, "facets": list(harms)}
            for command, count, harms in relaxed.let_through
        ],
    }  # fmt: skip


Play = Annotated[
    Literal["prompt", "rules"] | None,
    Option("--try", help="Play the first run again with the sentences, or the rules."),
]
PromptFile = Annotated[
    Path | None, Option(help="Write the prompt's rules with these sentences there.")
]
Beside = Annotated[
    str | None, Option("--allowlist", "-a", help="Look for rules beside this list's.")
]


def suggest(
    runs: StoredRuns,
    *,
    play: Play = None,
    prompt: PromptFile = None,
    allowlist: Beside = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Say what the denied calls of runs ask for: options, rules, sentences of a prompt.

    What several models guess independently may deserve to exist. Rules are those of `whatif`, which
    says what each would let run. With --try the first run's scenarios are played once more, from
    the same seeds, by the same model, with the sentences in its prompt or under the first of the
    rules, and both runs are compared trial by trial.

    Examples:
    - `agenteval suggest last`

    - `agenteval suggest last --try prompt`

    - `agenteval suggest last --try rules`
    """
    names = chosen(runs, store)
    suggested = workflows.whatif.suggest(names, store)
    best, why = _rules(names, store, allowlist)
    if why and (allowlist or play == "rules"):
        raise UsageError(why)
    for line in _suggested(suggested, best, why):
        say(line)
    more = next((one.more for one in best), NOTHING) if play == "rules" else NOTHING
    if play == "rules" and not more.size:
        raise UsageError(f"--try rules: no rule would allow a denied call of {' '.join(names)}")
    if play == "prompt" or prompt:
        prompt = prompt or Path("prompts", f"{as_file_part(names[0])}-suggested.md")
        workflows.whatif.write_prompt(names[0], store, suggested.sentences[:_LINES], prompt)
        say(f"wrote {prompt}")
    if play is not None:
        _tried(names[0], store, prompt if play == "prompt" else None, more)


def _rules(
    names: "Sequence[str]",
    store: str,
    allowlist: str | None,
) -> "tuple[Sequence[Relaxed], str]":
    """Return the best relaxations, or why none could be computed, as for many logs."""
    try:
        return workflows.whatif.whatif(names, store, allowlist=allowlist).best(), ""
    except UsageError as error:
        return (), str(error)


def _tried(run: str, store: str, prompt: Path | None, more: Relaxation) -> None:
    made = workflows.whatif.tried(run, store, prompt=prompt, more=more)
    say(f"played {made} {'with this prompt' if prompt else f'to {more.description}'}")
    found = workflows.views.models_of([run, made], store, calls=False)
    view = workflows.views.compared(found, "full", across_arms=True)
    output.show_view(view, as_json=False)


def _suggested(suggested: "Suggested", best: "Sequence[Relaxed]", why: str) -> Iterator[str]:
    yield "options and names that do not exist:"
    for invention in suggested.inventions[:_LINES]:
        by = f"{len(invention.models)} {'model' if len(invention.models) == 1 else 'models'}"
        where = _brief(invention.where) or "a tool"
        yield f"  {_times(invention.count)}, {by}: {_brief(invention.part)}  in {where}"
    yield f"rules: none looked for. {why}" if why else "rules:"
    for one in best[:_LINES]:
        yield f"  {_times(len(one.calls))}: {'; '.join(one.more.rules.splitlines())}"
    yield "sentences of a prompt:"
    for line in suggested.sentences[:_LINES]:
        said = f", {line.already_told} of them although it was said" if line.already_told else ""
        text = line.text.replace("{{ bash }}", "bash")
        yield f"  {_times(line.denied)}{said}: {text}"
    if suggested.without:
        yield f"no sentence for {suggested.without} denied calls"


_LINES = 8  # of each kind
