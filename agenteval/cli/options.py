"""The options of the commands: one spelling, one environment variable, one help text for each."""

import re
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, CallbackParam, Option, Typer
from typer import Context as Called

from agenteval import config
from agenteval.config import files
from agenteval.dialects import NAMES
from agenteval.trial.text import as_word

DEFAULT_ARM = files.DEFAULT_ARM
DEFAULT_STORE = files.DEFAULT_STORE
EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}  # of a gate's verdict; 2 is bad input
RUN_WORDS = "Run ids or how they begin, `last`, `last-1`, a model's name, or a label"
TOO_VOID = 5  # the exit code of a run of which more trials are void than --void-limit
FAULT = 4  # the exit code of a run with trials that a defect of ours or a scenario's slip broke


def group(description: str) -> Typer:
    """Return a group of commands that prints its help where none of them is named."""
    return Typer(help=description, no_args_is_help=True, add_completion=False)


About = Annotated[
    Literal["these", "like-these"] | None,
    Option(
        "--about",
        help="What figures are about: `these` scenarios, played again, or scenarios `like-these`. "
        "Default: as gate.toml declares it.",
    ),
]
AllowSimulated = Annotated[
    bool,
    Option("--allow-simulated", help="Judge simulated runs too; the verdict is marked so."),
]
AcrossArms = Annotated[
    bool,
    Option(
        "--across-arms",
        help="Compare runs also where their models read different things, or where a server keeps "
        "one from classes of errors: without these.",
    ),
]
Arm = Annotated[
    str,
    Option(
        help="What the model reads, and who judges: taught/tools, taught/shell, strict, "
        f"{', '.join(NAMES)}, a plug-in's, or a file of arms/; +bare, +rule, +rules, +user or "
        "+hint behind it say what a denial tells.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of tables.")]
Baseline = Annotated[
    str | None,
    Option(help="The run to compare with: an id, a model, a label, or another store's file."),
]


def _bind(urls: "str | list[str] | None") -> "str | list[str] | None":
    """The URLs, to which the user has the usual key sent by naming them."""
    if urls:
        config.trust.bind(urls if isinstance(urls, str) else " ".join(urls))
    return urls


BaseUrl = Annotated[
    str | None,
    Option(
        callback=_bind,
        envvar=["AGENTEVAL_BASE_URL", "OPENAI_BASE_URL"],
        help="Server to use instead of the one in agenteval.toml, such as http://HOST:8000/v1.",
    ),
]
BaseUrls = Annotated[
    list[str] | None,
    Option(
        "--base-url",
        callback=_bind,
        envvar=["AGENTEVAL_BASE_URL", "OPENAI_BASE_URL"],
        help="Server to use instead of the one in agenteval.toml, such as http://HOST:8000/v1; "
        "repeated, servers that share the trials.",
    ),
]
Concurrency = Annotated[
    str,
    Option(
        help="Trials at the same time; a list such as 1,2,4 plays one run at each level.",
        metavar="N[,N...]",
    ),
]
Context = Annotated[
    str,
    Option(
        help="Tokens that a prompt is filled up to by other tasks that were played before, such as "
        "40k; 40k:20 when 20 of 100 of their calls were denied (usually 10); 0 for nothing.",
        metavar="TOKENS",
    ),
]
Gate = Annotated[
    Path | None, Option(help="A gate.toml whose verdict ends the run early; with --baseline.")
]
GitHub = Annotated[
    bool,
    Option("--github", help="Add Markdown to the job's summary on GitHub ($GITHUB_STEP_SUMMARY)."),
]
StoredRuns = Annotated[list[str], Argument(help="Run ids, or `last`.")]
NewFile = Annotated[Path, Option("--file", help="Write it there, to a new file.")]
OfModel = Annotated[str | None, Option("--model", "-m", help="Models with this in it.")]
Harness = Annotated[
    str | None,
    Option(
        help="A real harness that is the agent, in the sandbox: a name of `agenteval harness list`."
    ),
]
Policy = Annotated[
    str,
    Option(
        "--allowlist",
        "--policy",
        metavar="NAME|FILE",
        help="An allow list in place of the scenarios' own, in any format: mine.toml, "
        "opencode:opencode.json, .claude/settings.json.",
    ),
]
MaxTurns = Annotated[
    int | None, Option(min=1, help="Turns a trial may take. Default: the scenario's own.")
]
Models = Annotated[
    list[str] | None,
    Option("--model", "-m", envvar="AGENTEVAL_MODEL", help="A model by name; may be repeated."),
]
Power = Annotated[
    bool,
    Option(
        "--power",
        help="Measure what all GPUs of this machine draw, where it serves the model (NVML).",
    ),
]
Prefork = Annotated[
    bool,
    Option(
        "--prefork/--no-prefork",
        help="Run the fixture's own Python scripts, while unchanged, in a fork of a warm Python.",
    ),
]
PromptVariant = Annotated[
    str | None,
    Option(
        help="Rules that the prompt names: none, five, all, with +tools, +after or both; or a file."
        " Default: the arm's own.",
    ),
]
Report = Annotated[
    Path | None, Option("--report", help="Path of the HTML report. Default: reports/RUN.html.")
]
Resume = Annotated[
    str | None,
    Option(
        metavar="RUN",
        help="Go on with a run that was ended before its time (an id, or `last`), as it was begun.",
    ),
]
RetryVoid = Annotated[
    bool,
    Option(
        "--retry-void",
        help="Play void trials once more, from the same seeds; what they were is kept.",
    ),
]
RulesFile = Annotated[
    Path | None,
    Option("--gate", help="Default: the project's gate.toml, else the shipped one."),
]
RulesPlace = Annotated[
    Literal["start", "end", "both"],
    Option(
        "--rules", help="Where the rules stand: in the system message, after the task, or both."
    ),
]
SandboxName = Annotated[
    str | None,
    Option("--sandbox", envvar="AGENTEVAL_SANDBOX", help="Default: the best that holds here."),
]
Seed = Annotated[int, Option(min=0, help="Same seed, same worlds: what makes two runs comparable.")]
Shard = Annotated[
    str | None,
    Option(
        metavar="K/N",
        help="Play as the K-th of N processes that share one run in one --store; a dead one's "
        "trials are taken over.",
    ),
]
Executor = Annotated[
    Literal["local", "ray"],
    Option(
        help="Who plays: this process, or workers over the Ray cluster that this machine belongs "
        "to (RAY_ADDRESS), which --concurrency then is of."
    ),
]
Job = Annotated[
    str,
    Option(
        envvar=["AGENTEVAL_JOB", "SLURM_ARRAY_JOB_ID", "GITHUB_RUN_ID"],
        help="What the shards of one run have in common, such as a scheduler's number.",
    ),
]
Lease = Annotated[
    float,
    Option(
        min=1,
        metavar="SECONDS",
        help="How long a shard may be silent before others play what it was playing.",
    ),
]
GIVEN_STORE: ContextVar[str] = ContextVar("GIVEN_STORE", default="")  # on the command line
_OF_A_STORE = re.compile(
    r"\bagenteval (calls|compare|export|finish|gate|harness verdicts|import counts|ingest|plan|"
    r"play|promote|rescore|run|show|speed|suggest|transcript|trend|view|whatif|"
    r"runs (?:export|import|label|rm)|store (?:check|export|upgrade|vacuum))"
    r"(?![\w-]| --(?:help|store)\b)"
)


def _remember(called: Called, parameter: CallbackParam, store: str) -> str:
    source = called.get_parameter_source(parameter.name or "")
    GIVEN_STORE.set(store if source and source.name == "COMMANDLINE" else "")
    return store


def at_store(text: str) -> str:
    """The text, whose commands have the --store that was given, so that they run as they stand.

    Not a URL with a user in it: a password would stand on the screen, or in a log.
    """
    store = GIVEN_STORE.get()
    if not store or "@" in store:
        return text
    return _OF_A_STORE.sub(lambda found: f"{found[0]} --store {as_word(store)}", text)


Store = Annotated[
    str,
    Option(
        envvar="AGENTEVAL_STORE",
        help="Where runs are kept: a file or a database URL.",
        callback=_remember,
    ),
]
Targets = Annotated[
    list[str] | None,
    Argument(help="Scenarios, or folders of them. Default: all.", show_default=False),
]
Taxonomy = Annotated[
    Literal["full", "article"],
    Option(help="Rows of the table: all classes, or the published article's eleven."),
]
VoidLimit = Annotated[
    float,
    Option(
        min=0,
        max=100,
        metavar="PERCENT",
        help="Void trials, of 100, beyond which the exit code is 5, whatever a gate says.",
    ),
]
Trials = Annotated[int, Option(min=1, help="Trials of each scenario.")]
