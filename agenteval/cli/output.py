"""The output of commands: streams that are safe to print to, tables or JSON, reports, verdicts."""

import errno
import gc
import json
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from typer import echo, style

from agenteval import report, workflows
from agenteval.errors import UsageError, unwritten
from agenteval.host import write_whole
from agenteval.trial.text import as_name, visible, without_log_commands

if TYPE_CHECKING:
    from agenteval.protocols import Observer
    from agenteval.report.console import Live
    from agenteval.report.speed import Served
    from agenteval.report.view import View
    from agenteval.trial.call import Finding, ToolCall, Verdict
FORMS = (".html", ".htm", ".md", ".csv", ".json")  # of a report


@contextmanager
def reader_may_go() -> Iterator[None]:
    """End quietly when nobody reads the output any more; what comes after is lost.

    So it is with `| head`, and with a terminal that hung up on what is left to run (`disown`).
    """
    try:
        yield
    except OSError as error:
        if not (isinstance(error, BrokenPipeError) or _is_hung_up(error)):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        if _is_hung_up(error) or _nobody_reads(sys.stderr.fileno()):
            os.dup2(nowhere, sys.stderr.fileno())


def _is_hung_up(error: OSError) -> bool:
    """Return True if a terminal is gone; a file's error has its name, and a disk's another kind."""
    if error.errno != errno.EIO or error.filename is not None:
        return False
    return stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)


def _nobody_reads(pipe: int) -> bool:
    asked = select.poll()
    asked.register(pipe, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def let_go() -> None:
    """Drop the rest of the output, where it goes to a full disk."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _LogGuard:
    """A stream of text whose lines no CI runner obeys, whatever the words in them."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._line = ""  # the end of the line so far: a command may come in several pieces

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        whole = without_log_commands(self._line + text)
        if whole.startswith(self._line):
            harmless = whole[len(self._line) :]
        else:  # what is written already would become the beginning of a command
            harmless = f"\u00b7{without_log_commands(text)}"
        self.stream.write(harmless)
        self._line = _end_of_line(self._line + harmless)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def _end_of_line(text: str) -> str:
    """Return what a command could begin in: of a long line the end, behind a letter if it has one.

    Without that the end of a line would look like the beginning of one.
    """
    line = _LINE_ENDS.split(text)[-1]
    if len(line) <= _LONGEST_COMMAND:
        return line
    is_blank = without_log_commands(f"{line}::") != f"{line}::"
    return f"{'' if is_blank else 'x'}{line[-_LONGEST_COMMAND:]}"


_LINE_ENDS = re.compile("[\n\r]")
_LONGEST_COMMAND = 64  # characters of what a runner looks for, with some that it passes over
_RUNNERS = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")  # variables that they set


def guard_log() -> None:
    """Put a guard before both streams, for what this process prints from now on."""
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), _LogGuard):
            setattr(sys, name, _LogGuard(stream))


def say(line: str, *, err: bool = False) -> None:
    """Print one line: no name in it ends it or moves the cursor."""
    echo(as_name(line), err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines: nothing in it moves the cursor."""
    echo(visible(text), err=err)


def print_data(text: str) -> None:
    """Print what a program reads, as it is; in a CI job it may be the log that is printed to."""
    stream = sys.stdout
    if isinstance(stream, _LogGuard) and not any(map(os.environ.get, _RUNNERS)):
        stream = stream.stream
    stream.write(text)
    stream.flush()


def print_json(document: Any) -> None:
    print_json_text(json.dumps(document, indent=2))


def print_json_text(text: str) -> None:
    """Print a JSON document, of which no runner obeys a part: an escape stands for it."""
    print_data(f"{_JSON_COMMAND.sub(_ESCAPED, text)}\n")


_JSON_COMMAND, _ESCAPED = re.compile("##(?=\\[|vso\\[|teamcity\\[)"), r"#\\u0023"


def first_words(what: str) -> None:
    """Print a line at a terminal while the parts that play are still being imported."""
    if what and sys.stderr.isatty():
        echo(f"{what}: reading scenarios, then asking the server", err=True)


@dataclass(frozen=True, slots=True)
class Playing:
    """Shows how runs go on: a line each while they are played, and notes above them."""

    lines: "Live"

    def run(
        self,
        model: str,
        *,
        trials: int,
        simulated: bool,
    ) -> "Observer":
        return self.lines.run(
            model,
            trials=trials,
            simulated=simulated,
        )

    def note(self, line: str) -> None:
        with suppress(OSError):  # a run outlives the terminal, or the log, that its notes go to
            if not self.lines.above(line):
                say(line, err=True)


@contextmanager
def playing(*, quiet: bool) -> Iterator[Playing]:
    """Show progress on standard error; `quiet` shows only the notes."""
    with report.console.live(report.console.Terminal(stderr=True, quiet=quiet)) as lines:
        yield Playing(lines)


def collect_rarely(objects: int) -> None:
    """Garbage, after so many objects; what was imported stays and is not looked through again."""
    gc.freeze()
    gc.set_threshold(objects, *gc.get_threshold()[1:])


def chosen(words: "Sequence[str]", store: str) -> list[str]:
    """Return the ids of the runs meant, and report what `last` skipped. Raises UsageError."""
    found = workflows.runs.chosen(words, store)
    for note in found.notes:
        say(note, err=True)
    return list(found.ids)


def named(word: str, store: str) -> str:
    """Return the id of one word as `chosen` does; a file (a store or a table) stays as it is."""
    return word if word.endswith(".csv") or Path(word).is_file() else chosen([word], store)[0]


# Views, reports and summaries.


def show_view(
    view: "View",
    *,
    as_json: bool,
    brief: bool = True,
) -> None:
    if as_json:
        print_json_text(report.json.dumps(view))
    else:
        report.console.render(view, report.console.Terminal(), brief=brief)


def show_speed(served: "Sequence[Served]", *, as_json: bool) -> None:
    if as_json:
        print_json([one.document() for one in served])
        return
    console = report.console.Terminal()
    for table in report.speed.speed_tables(served):
        report.console.print_table(console, table)


def write_report(view: "View", path: Path) -> None:
    """Write the report in the form of the name's suffix. Raises UsageError."""
    check_report(path)
    if path.suffix in {".html", ".htm"}:
        report.html.write(view, path)
    else:
        text = {
            ".md": report.files.markdown_text,
            ".csv": report.files.view_csv,
            ".json": report.json.dumps,
        }[path.suffix](view)
        write_text(path, f"{text.rstrip()}\n", option="--report ")


def summary_file() -> Path:
    """The summary of a job of GitHub Actions. Raises UsageError outside of one."""
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY", "")):
        raise UsageError("--github: GITHUB_STEP_SUMMARY is not set: this is no job of GitHub's")
    return Path(path)


def step_summary(text: str) -> None:
    """Add Markdown to the summary of a job of GitHub Actions.

    GitHub drops a whole summary beyond its limit: what is too long ends at the last line that fits.
    Raises UsageError outside of such a job, and as `unwritten`.
    """
    path = summary_file()
    whole = f"{text.rstrip()}\n\n".encode()
    try:
        with path.open("ab") as summary:
            summary.write(_cut_summary(whole, _LARGEST_SUMMARY - summary.tell()))
    except OSError as error:
        cure = "let GITHUB_STEP_SUMMARY name a file that you can write"
        raise unwritten(f"--github {path}", error, cure) from error


_LARGEST_SUMMARY = 1 << 20  # bytes, of all that one step writes
_CUT = b"\n\nCut here: GitHub takes 1 MiB for each step. Use --report FILE.html for all of it.\n\n"


def _cut_summary(whole: bytes, space: int) -> bytes:
    """Return as many whole lines as fit into `space` bytes, with a line that says what is cut."""
    if len(whole) <= space:
        return whole
    shortened = whole[: max(space - len(_CUT), 0)].rpartition(b"\n")[0] + _CUT
    return shortened if len(shortened) <= space else b""


def write_text(
    path: Path,
    text: str,
    *,
    option: str = "",
) -> None:
    """Raises as `unwritten`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        cure = "name a file in a folder of yours"
        raise unwritten(f"{option}{path}", error, cure) from error


def check_report(path: Path | None) -> None:
    """Raises UsageError for a report that could not be written: before a run, not after it."""
    if path is not None and (path.is_dir() or not os.access(_above(path), os.W_OK)):
        raise UsageError(f"--report {path}: cannot be written: not a file, or no folder of yours")
    if path is not None and path.suffix not in FORMS:
        raise UsageError(f"--report {path}: a report is {', '.join(FORMS)}; name one of these")


def _above(path: Path) -> Path:
    """The nearest folder above the path that is there."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())


# Verdicts on single calls.

RowName = Callable[[str], str]  # what a class is called in the chosen taxonomy


def as_json(
    call: "ToolCall",
    verdict: "Verdict",
    row: RowName,
) -> str:
    """Return one line that is safe for any text: non-ASCII characters are escaped."""
    start = f'{{"id": {_quoted(call.id)}, "command": ' if call.id else '{"command": '
    command = call.command
    if command is None:
        start += (
            f'null, "name": {_quoted(call.name)}, "arguments": {json.dumps(call.json_arguments)}'
        )
    else:
        start += _quoted(command)
    if verdict.primary is None:
        return f"{start}, {_ALLOWED}"
    (failure_class, evidence, hint, facets), *others = verdict.findings
    also = dict.fromkeys(row(each.failure_class) for each in others) if others else ()
    return (
        f'{start}, "verdict": "denied", "class": {_quoted(row(failure_class))}, '
        f'"also": {_list(also)}, "evidence": {{"text": {_quoted(evidence.text)}, '
        f'"start": {evidence.start}, "end": {evidence.end}}}, '
        f'"hint": {_quoted(hint)}, "facets": {_list(facets)}}}'
    )


def _quoted(text: str) -> str:
    """Return the text as json.dumps quotes it, without what a CI runner obeys."""
    quoted = json.encoder.encode_basestring_ascii(text)
    return _JSON_COMMAND.sub(_ESCAPED, quoted) if "##" in quoted else quoted


_ALLOWED = (
    '"verdict": "allowed", "class": null, "also": [], "evidence": null, "hint": "", "facets": []}'
)


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]" if texts else "[]"


def as_text(
    call: "ToolCall",
    verdict: "Verdict",
    row: RowName,
) -> str:
    """The call with the offending part underlined, why it was denied, and the cure; in colours."""
    primary = verdict.primary
    text = _visible(call.raw if call.command is None else call.command)
    if primary is None:
        lines = [style("allowed", fg="green")]
    else:
        name = style(row(primary.failure_class), bold=True)
        lines = [f"{style('denied', fg='red')}  {name}"]
    if call.command is None:
        lines.append(f"  {as_name(call.name)}")
    lines += [f"  {one}" for one in (_marked(text, primary) if primary else text.splitlines())]
    return "\n".join((*lines, *_notes(verdict, row)))


def _notes(verdict: "Verdict", row: RowName) -> Iterator[str]:
    if not verdict.findings:
        return
    primary, *others = verdict.findings
    if primary.hint:
        yield style(f"  {_visible(primary.hint)}", fg="cyan")
    if primary.facets:
        yield style(f"  {', '.join(primary.facets)}", dim=True)
    if others:
        names = dict.fromkeys(row(each.failure_class) for each in others)
        yield style(f"  also: {', '.join(names)}", dim=True)


def _marked(text: str, finding: "Finding") -> Iterator[str]:
    """The lines of the text, the evidence coloured and, below its first line, underlined by ^.

    The end of a line as evidence is shown by one ^ behind it.
    """
    start, end = finding.evidence.start, finding.evidence.end
    at = 0
    marked = start == end
    for line in text.split("\n"):
        first, last = max(start - at, 0), min(end - at, len(line))
        before, part = line[:first], line[first:last]
        if first >= last:
            yield line
            if not marked and at + len(line) == start:
                marked = True
                yield " " * _width(line) + style("^", fg="red")
        else:
            yield f"{before}{style(part, fg='red', bold=True)}{line[last:]}"
            if not marked:
                marked = True
                yield " " * _width(before) + style("^" * _width(part), fg="red")
        at += len(line) + 1


def _width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- start-up: few commands need it

    return cell_len(text)


def _visible(text: str) -> str:
    """The text with its control characters as pictures, one for one: no terminal obeys them."""
    return "".join(c if c == "\n" or c.isprintable() else _PICTURES.get(c, "\ufffd") for c in text)


_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)}
