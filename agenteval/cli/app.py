"""The command line: one line for each command, whose module is imported when it is called."""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from agenteval import __version__
from agenteval.cli import signals
from agenteval.cli.output import reader_may_go
from agenteval.errors import CutOffError

# Where each command is, and what `agenteval --help` says of it: the first line of its own help.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "init": (
        "machine:init",
        "Ask servers what they serve, and write agenteval.toml.",
    ),
    "promote": (
        "gate:promote",
        "Play a candidate against a baseline, stop once it is certain, and give the verdict.",
    ),
    "run": (
        "evaluate:run",
        "Play scenarios with a served model and count its errors per 100 tool calls.",
    ),
    "finish": ("runs:finish", "Close a run of several shards, where the last one could not."),
    "show": ("show:show", "Show stored runs side by side, or list them."),
    "transcript": (
        "transcript:transcript",
        "Show one trial turn by turn: its prompt, each call and what came back, and why it ended.",
    ),
    "calls": (
        "transcript:calls",
        "List the calls of a run, one a line: trial, turn, verdict or class, and what was called.",
    ),
    "export": (
        "transcript:export",
        "Write the calls or the trials of runs as rows, for a notebook, DuckDB or pandas.",
    ),
    "schema": (
        "transcript:schema",
        "Print the JSON Schema of what `--json` prints: of a report, a list of runs, a verdict.",
    ),
    "runs": ("runs:app", "Label stored runs, remove them, or carry them to another store."),
    "view": ("runs:view", "Look at runs, calls and transcripts in a browser."),
    "store": (
        "runs:stores",
        "Look a store through for damage, upgrade it, make it small, or copy it into a file.",
    ),
    "speed": (
        "machine:speed",
        "Say how fast a model is served, by how many requests it has at the same time.",
    ),
    "gate": (
        "gate:gate",
        "Hold a candidate's run against a baseline's, by rules that were written before.",
    ),
    "plan": (
        "gate:plan",
        "Say how many trials and calls would prove with 80 % power that a model is no worse.",
    ),
    "compare": (
        "show:compare",
        "Compare models pair by pair: how many errors, which kinds, recovery and outcome.",
    ),
    "ingest": (
        "logs:ingest",
        "Take in the logs that other programs wrote: their sessions become trials of runs.",
    ),
    "trend": (
        "over_time:trend",
        "Say how errors per 100 calls went over time: by day, week, model or version.",
    ),
    "import": ("show:imports", "Read what was measured elsewhere."),
    "models": (
        "machine:models",
        "List the configured models, and ask each one's server what it serves.",
    ),
    "scenarios": (
        "scenarios:app",
        "List the scenarios: what each asks for, in how many steps, and which errors it invites.",
    ),
    "play": (
        "scenarios:play",
        "Be the model: read what it reads, type its calls, and see verdicts, hints and replies.",
    ),
    "classify": (
        "classify:classify",
        "Say whether a tool call is allowed, and if it is denied, why.",
    ),
    "rescore": (
        "classify:rescore",
        "Judge the stored calls of runs again, by today's taxonomy or another allow list.",
    ),
    "explain": (
        "classify:explain",
        "Tell what a failure class is, with examples, or a kind of malformed call.",
    ),
    "allowlist": (
        "allowlist:allowlist",
        "Check an allow list, make one from scripts, or write it for another harness.",
    ),
    "whatif": (
        "relaxing:whatif",
        "Say which rules would remove most errors of stored runs, and what they would let run.",
    ),
    "suggest": (
        "relaxing:suggest",
        "Say what the denied calls of runs ask for: options, rules, sentences of a prompt.",
    ),
    "harness": (
        "harness:app",
        "Get real harnesses, and say where their verdicts differ from ours.",
    ),
    "hook": (
        "hook:app",
        "Deny by your allow list, or only watch, where agents really run.",
    ),
    "guard": (
        "hook:guard",
        "Be a shell that runs a command only if the allow list has it, and keeps the log.",
    ),
    "trust": (
        "project_trust:trust",
        "Confirm a project: its keys go where it says, until one of its files changes.",
    ),
    "doctor": (
        "machine:doctor",
        "Try every sandbox with real commands and a battery of escapes; say what mends a failure.",
    ),
}
_EXAMPLE = re.compile(r"- `([^`]+)`(?:,? (.*))?")


class _Lazily(MutableMapping[str, Any]):
    """The commands by name: what is looked up is imported, what is only listed is not."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load_command(name, COMMANDS[name][0])
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
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def make_context(self, *given: Any, **known: Any) -> Any:
        with reader_may_go():
            return super().make_context(*given, **known)
        raise typer.Exit

    def invoke(self, ctx: Any) -> Any:
        with reader_may_go():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:  # typer would make an exit code of it, and no line
                raise CutOffError(signals.cut_off_line()) from None
        raise typer.Exit


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
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """How reliably does a served model call its tools under your allow list?"""
