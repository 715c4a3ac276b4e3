"""The command line: commands.toml lists the commands; a module is imported when one is called.

`main` runs it and makes one line of an error: exit code 2, 4 of the machine's, or a signal's.
"""

import os
import re
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Exit
from typer.core import TyperGroup
from typer.main import get_command

import agenteval
from agenteval import host
from agenteval._version import __version__
from agenteval.cli import signals
from agenteval.cli.options import FAULT, GIVEN_STORE, at_store
from agenteval.cli.output import guard_log, let_go, reader_may_go, say
from agenteval.errors import (
    CutOffError,
    HostError,
    InfrastructureError,
    UntrustedError,
    UsageError,
    is_of_the_host,
)
from agenteval.lazily import OWN_SAFE_PATH, read_table

COMMANDS = read_table("agenteval.cli", "commands.toml")
_EXAMPLE = re.compile(r"- `([^`]+)`(?:,? (.*))?")


class _Lazily(MutableMapping[str, Any]):
    """The commands by name: what is looked up is imported, what is only listed is not."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load_command(name, COMMANDS[name]["code"])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(TyperGroup):
    """A group whose help imports no command; a reader who goes away (`| head`) is no failure."""

    def __init__(self, **known: Any) -> None:
        super().__init__(**known)
        self.commands = _Lazily()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, command["help"]) for name, command in COMMANDS.items()])

    def make_context(self, *given: Any, **known: Any) -> Any:
        with reader_may_go():
            return super().make_context(*given, **known)
        raise Exit

    def invoke(self, ctx: Any) -> Any:
        with reader_may_go():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:  # typer would make an exit code of it, and no line
                raise CutOffError(signals.cut_off_line()) from None
        raise Exit


def _load_command(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    loaded = getattr(import_module(f"agenteval.cli.{module}"), attribute)
    if not isinstance(loaded, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(loaded)
        loaded = alone
    command = get_command(loaded)
    command.name = name
    for each_command in (command, *getattr(command, "commands", {}).values()):
        each_command.rich_markup_mode = None  # rich's help takes longer than most commands
        each_command.help = plain(each_command.help or "")
    return command


def plain(text: str) -> str:
    """A help text whose examples, a Markdown list, stand in lines of their own."""
    told, _, listed = text.partition("Examples:\n")
    examples = (_EXAMPLE.fullmatch(line.strip()) for line in listed.splitlines())
    lines = [f"  {one[1]}{f'   # {one[2]}' if one[2] else ''}" for one in examples if one]
    return "\n".join([told.rstrip(), "", "\b", "Examples:", *lines]) if lines else told


app = typer.Typer(
    cls=_LazyGroup,
    name="agenteval",
    help="How reliably does a served model call its tools under your allow list?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"agenteval {__version__}")
        raise Exit


@app.callback()
def set_options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


# agent-eval of Allen AI and agent-evaluation of AWS, as their metadata folders are called.
_OTHERS = ("agent_eval-", "agent_evaluation-")


def warning() -> str:
    """Return a warning of one line if another agenteval lies here, else an empty text.

    Read from the folder's names alone: importlib.metadata would take a third of a quick start.
    """
    for entry in Path(agenteval.__file__).parent.parent.iterdir():
        if entry.name.startswith(_OTHERS):
            other = entry.name.partition("-")[0].replace("_", "-")
            return (
                f"{other} has put its own package agenteval into this folder, where the two "
                f"overwrite each other: pip uninstall {other} agenteval-gate, then install "
                "agenteval-gate in an environment of its own"
            )
    return ""


_QUOTED = re.compile(r"'(--?[a-z-]+)'")  # an option is known by its dashes
_NUMBERS = {"valid int range": "whole number", "valid float range": "number"}

# Matrices here are small: threads of numpy's would spend more of the processor waiting than adding.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _open_closed() -> None:
    """A closed output (`>&-`) goes nowhere: Python has none, and a file would get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- until the end
            setattr(sys, name, nowhere)


def main() -> None:
    """Ends with SystemExit."""
    before = signals.interrupt()
    try:
        _run()
    except KeyboardInterrupt:  # beside a command, or a second one while the first is answered
        sys.exit(_ended((signals.cut_off_line(),), signals.exit_code()))
    finally:
        signals.put_back(before)


def _run() -> None:
    _open_closed()
    guard_log()
    os.umask(os.umask(0o077) & 0o077)  # under 0777 we could not read what we write
    # A Python of ours that we start imports nothing out of the working folder.
    os.environ.setdefault(*OWN_SAFE_PATH)
    if conflict := warning():
        say(f"agenteval: {conflict}", err=True)
    failed = 2
    try:
        code = _command()
        with reader_may_go():
            sys.stdout.flush()
        sys.exit(signals.exit_code() if code == signals.CUT_OFF else code)
    except UsageError as error:
        lines = error.faults
    except (HostError, InfrastructureError) as error:
        lines, failed = (str(error),), FAULT
    except CutOffError as error:
        lines, failed = (str(error),), signals.exit_code()
    except typer.TyperException as error:
        lines = _complaints(error)
    except UnicodeEncodeError as error:  # bytes of the command line that no terminal can show
        lines = (f"{error.object!r}: not UTF-8 text: name it otherwise",)
    except OSError as error:
        line, failed = _unread(error)
        lines = (line,)
        let_go()
    except (MemoryError, ImportError, RuntimeError, SystemError) as error:
        line, failed = _lacking(error)
        lines = (line,)
    sys.exit(_ended(lines, failed))


def _command() -> int | None:
    """Return the command's exit code; it is run again if the user confirms a project meanwhile."""
    while True:
        GIVEN_STORE.set("")
        try:
            code: int | None = app(prog_name="agenteval", standalone_mode=False)
        except UntrustedError as error:
            if not import_module("agenteval.cli.machine").confirms(error):
                raise
        else:
            return code


def _lacking(error: Exception) -> tuple[str, int]:
    """Return the line and exit code of an error for which Python has no kind of its own."""
    # Python wraps an interrupt within __set_name__, and typer one at a question.
    if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        return signals.cut_off_line(), signals.exit_code()
    if isinstance(error, typer.Abort):
        return "no answer came, so nothing was changed: answer, or give --yes", 2
    if "home directory" in str(error):
        return "HOME is not set, and this user has no home folder: name one, export HOME=...", 2
    if line := host.struck(error):
        return line, FAULT
    raise error


def _ended(lines: Sequence[str], code: int) -> int:
    """Print the lines, where a terminal is still there to take them; return the exit code."""
    for line in lines:
        with suppress(OSError):
            say(f"agenteval: {at_store(line)}", err=True)
    return code


def _unread(error: OSError) -> tuple[str, int]:
    """A line and an exit code. Raises what is none of the user's files, nor the machine's fault."""
    if is_of_the_host(error):
        what = "the output, or a file" if error.filename is None else f"{error.filename!s:.200}"
        return f"{what}: cannot be written: {error.strerror}; make room there, and ask again", FAULT
    if line := host.struck(error):
        return line, FAULT
    if "usable temporary" in str(error.strerror):
        return f"{error.strerror}: set TMPDIR to a folder that you can write", 2
    if error.filename is None:
        raise error
    return f"{error.filename!s:.200}: cannot be read or written: {error.strerror}", 2


def _complaints(error: typer.TyperException) -> tuple[str, ...]:
    """Return the line that says what is wrong with the arguments; none where help is printed."""
    # Nothing public tells where an error belongs: all that the parser raises has these by itself.
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    message = error.format_message()
    if context and message == context.get_help():
        typer.echo(message)
        return ()
    sentence = " ".join(message.split()).rstrip(".")
    if near := getattr(error, "possibilities", None):
        sentence = f"{getattr(error, 'message', sentence)}; did you mean {near[0]}?"
    elif parameter is not None:
        sentence = sentence.removeprefix("Invalid value for ")
        for kind, plain in _NUMBERS.items():
            sentence = sentence.replace(kind, plain)
    sentence = _QUOTED.sub(r"\1", sentence)
    command = context.command_path if context else "agenteval"
    where = " ".join(command.split()[1:])
    end = "" if sentence.endswith("?") else "."
    lead = f"{where}: " if where else ""
    return (f"{lead}{sentence[:1].lower()}{sentence[1:]}{end} See {command} --help",)
