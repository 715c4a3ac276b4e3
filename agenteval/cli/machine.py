"""A machine and its servers: `agenteval trust`, `models`, `init`, `doctor`, `speed`, `harness`."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from agenteval import config, harness, logs, report, workflows
from agenteval.cli import options, output
from agenteval.cli.options import DEFAULT_STORE, AsJson, BaseUrl, Store
from agenteval.cli.output import print_json, reader_may_go, say
from agenteval.errors import UntrustedError, UsageError
from agenteval.trial.text import as_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenteval.workflows.hostile import Tried
    from agenteval.workflows.preflight import Listed
    from agenteval.workflows.projects import Examined, KernelLimits, ModelAccess, Project
Folder = Annotated[str, Argument(help="The project's folder. Default: the one around here.")]
Listing = Annotated[bool, Option("--list", help="List what was confirmed.")]
Removing = Annotated[bool, Option("--remove", help="Take it back, of a project or of an origin.")]


def trust(
    folder: Folder = ".",
    *,
    listing: Listing = False,
    remove: Removing = False,
    as_json: AsJson = False,
) -> None:
    """Confirm a project: its keys go where it says, until one of its files changes.

    Counted are agenteval.toml, gate.toml, allow lists and arms. `agenteval doctor --project` shows
    them first.

    Examples:
    - `agenteval trust`

    - `agenteval trust --list`

    - `agenteval trust --remove https://api.example.com:443`
    """
    if listing:
        _list(as_json=as_json)
    elif remove:
        _remove(folder)
    else:
        project = workflows.projects.confirm(Path(folder))
        if as_json:
            print_json(project.document())
            return
        for one in project.models:
            say(_access(one, "goes there from now on" if one.is_set else "is not set here"))
        say(f"trusted: {project.folder}, until one of its files changes ({project.digest})")


def _remove(name: str) -> None:
    try:
        # An origin has a scheme; anything else is the folder of a project.
        confirmed = config.trust.origin_of(name) if "://" in name else os.path.realpath(name)
    except ValueError as error:
        raise UsageError(f"{name}: no origin such as https://host:443") from error
    if not config.trust.forget(confirmed):
        raise UsageError(f"{confirmed}: was not confirmed; `agenteval trust --list` lists what was")
    say(f"not trusted any more: {confirmed}")


def _list(*, as_json: bool) -> None:
    record = config.trust.load_record()
    states = {one: workflows.projects.state_of(one, pin) for one, pin in record.projects.items()}
    if as_json:
        projects = {one: {"digest": record.projects[one], "now": states[one]} for one in states}
        print_json({"projects": projects, "origins": record.origins, "runs": record.runs})
        return
    for folder, state in states.items():
        say(f"project {folder}: {state} ({record.projects[folder]})")
    for origin, names in record.origins.items():
        say(f"origin {origin}: {', '.join(names)}")
    for origin, names in record.runs.items():
        say(f"origin {origin}: {', '.join(names)}, for runs that go on there")
    if record == config.trust.Record():
        say(f"nothing was confirmed; {config.trust.user_file()} would have it")


def _show_project(folder: str, *, as_json: bool) -> None:
    """Print what a folder would do. Raises UsageError."""
    project = workflows.projects.examine(Path(folder))
    if as_json:
        print_json(project.document())
    else:
        _print_project(project)


def _print_project(project: "Project") -> None:
    state = "trusted" if project.is_trusted else "not trusted"
    say(f"project {project.folder}: {state}")
    say(f"  digest  {project.digest}")
    if project.refused:
        say(f"  passed over  as {project.refused}")
    if project.problem:
        say(f"  agenteval.toml  cannot be read: {project.problem}")
    for one in project.models:
        say(f"  {_access(one, _sent(one))}")
    for kind, names in project.brings.items():
        hidden = project.hides.get(kind, ())
        marked = [f"{name} (hides the shipped one)" if name in hidden else name for name in names]
        say(f"  {kind}  {', '.join(marked)}")
    for kind, place in project.unusual:
        say(f"  {kind}  {place}")
    if not project.is_trusted:
        say(f"To let its keys go where it says: agenteval trust {as_word(project.folder)}")


def _access(one: "ModelAccess", what: str) -> str:
    return f"model {one.name}  {one.url}  key in {one.variable}: {what}"


def _sent(one: "ModelAccess") -> str:
    if not one.is_set:
        return "not set here, so nothing is sent"
    return "is sent" if one.may_send else "is not sent before you confirm it"


def confirms(error: UntrustedError) -> bool:
    """Ask, at a terminal, whether the project is trusted; what is confirmed is remembered."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    project = workflows.projects.examine(Path(error.project))
    say(
        f"{project.folder}/agenteval.toml, which you have not confirmed, wants keys sent:", err=True
    )
    for one in project.models:
        if one.is_set and not one.may_send:
            say(f"  the key in {one.variable} to {one.url}", err=True)
    say(f"agenteval doctor --project {as_word(project.folder)} shows all of it.", err=True)
    if not typer.confirm("Trust it, until one of its files changes?", default=False, err=True):
        return False
    config.trust.confirm(Path(project.folder), project.digest)
    return True


# `agenteval models`, `init` and `doctor`.

Probing = Annotated[bool, Option("--probe", help="Ask each model what becomes of a conversation.")]
KEPT = {"memory": "memory with its own", "pids": "processes", "cpu": "processors"}
CAME = 300  # characters of what came of an attempt that does harm
NO_LIST = "but lists no models: a base URL usually ends in /v1"


def models(*, base_url: BaseUrl = None, probe: Probing = False, as_json: AsJson = False) -> None:
    """List the configured models, and ask each one's server what it serves.

    With --probe each model is also asked what becomes of a conversation at its server: the prompt
    that it reads, where the server renders one; reasoning, results, parallel calls and their ids;
    and whether a grammar makes its calls. Eight short requests at most.

    Examples:
    - `agenteval models`

    - `agenteval models --base-url http://localhost:8000/v1 --probe`
    """
    listed, simulated = workflows.preflight.list_models(base_url, probe=probe)
    if as_json:
        print_json(_as_data(listed, simulated))
    else:
        _print_models(listed, simulated)


def _as_data(listed: "Sequence[Listed]", simulated: tuple[str, ...]) -> list[dict[str, object]]:
    served: list[dict[str, object]] = [
        {
            "name": one.name,
            "simulated": False,
            **one.entry.model_dump(exclude_defaults=True),
            "serves": sorted(one.answer.ids),
            "problem": one.answer.problem,
            **_probe_data(one),
        }
        for one in listed
    ]
    return served + [{"name": name, "simulated": True} for name in simulated]


def _probe_data(one: "Listed") -> dict[str, object]:
    if one.probed is None:
        return {}
    return {"probe": {**dict(one.probed.findings), "prompt": one.probed.prompt}}


def _print_models(listed: "Sequence[Listed]", simulated: tuple[str, ...]) -> None:
    for model in listed:
        answer, entry = model.answer, model.entry
        serves = f"serves {', '.join(sorted(answer.ids))}" if answer.ids else "answers, " + NO_LIST
        say(f"{model.name}  {entry.architecture}  {entry.base_url}")
        say(f"    {answer.problem or serves}")
        for subject, finding in model.probed.findings if model.probed else ():
            say(f"    {subject:28} {finding}")
        if model.probed and model.probed.prompt:
            output.say_text(f"----- prompt, as it is read -----\n{model.probed.prompt}\n-----")
    for name in simulated:
        say(f"{name}  SIMULATED, started by agenteval itself")


def init(
    urls: Annotated[list[str], Argument(help="Servers, such as http://localhost:8000/v1.")],
) -> None:
    """Ask servers what they serve, and write agenteval.toml.

    It is written into this folder, with a gate.toml beside it. No file is ever overwritten.

    Examples:
    - `agenteval init http://localhost:8000/v1 http://localhost:8001/v1`
    """
    model_names: list[str] = []
    for path, names in workflows.preflight.init(urls):
        told = f", with {', '.join(names)}" if names else ": the limits of a promotion, to be read"
        say(f"wrote {path}{told}")
        model_names += names
    first, second = (*model_names, "CANDIDATE")[:2]
    if len(model_names) > 1:
        say(f"Next: agenteval promote {as_word(second)} --over {as_word(first)}")
    else:
        say(f"Next: agenteval run --model {as_word(first)}")


def doctor(
    folder: Annotated[str, Argument(help="With --project: another folder than this one.")] = "",
    *,
    project: Annotated[
        bool, Option("--project", help="Only list what a folder would do, and do nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try every sandbox with real commands and a battery of escapes; say what mends a failure.

    Hostile replies, databases, modules, words and projects are given to whatever reads them:
    parser, judge, tests, store, report, and the commands that look at a scenario.

    With --project: the models of a folder with their URLs and the variables of their keys, the
    names that hide shipped ones, links, scripts and plug-ins. None of it is acted on.

    Exits 1 when no sandbox works that a run would choose by itself, or when one of these does harm.

    Examples:
    - `agenteval doctor`

    - `agenteval doctor --json`

    - `agenteval doctor --project clone`
    """
    if project:
        _show_project(folder or ".", as_json=as_json)
        return
    if folder:
        raise UsageError(
            f"doctor: got unexpected extra argument(s) ({folder}). See agenteval doctor --help"
        )
    found = workflows.projects.examine_machine()
    with reader_may_go():
        _print_doctor(found, as_json=as_json)
    if not found.holds:
        raise typer.Exit(1)


def _print_doctor(examined: "Examined", *, as_json: bool) -> None:
    if as_json:
        print_json(examined.document())
    else:
        _print_sandboxes(examined)
        _print_limits(examined.control_groups)
        _print_inbound(examined.inbound)
        layer = f"version {examined.landlock}" if examined.landlock else "this kernel has none"
        say(f"second layer (Landlock): {layer}")
        told = ", ".join(f"{answer} {count}" for answer, count in examined.second_reader.items())
        say(f"second reader (bashlex): {told}")
        say("  asked on purpose: a command it reads, one it cannot, and one it hangs on")


def _print_sandboxes(examined: "Examined") -> None:
    for sandbox_probe in examined.probes:
        say(f"sandbox {sandbox_probe.backend}: {'works' if sandbox_probe.works else 'fails'}")
        if not sandbox_probe.works:
            say(f"  why   {sandbox_probe.reason}")
            say(f"  mend  {sandbox_probe.cure or 'no cure is known: please report it'}")
        for attempt, stopped_by in sandbox_probe.blocked:
            say(f"  blocked  {attempt}: {stopped_by}")
    say("sandbox none: isolates nothing")
    asked = "none is" if examined.chosen == "container" else "container and none are"
    say(f"{asked} used only when asked for: --sandbox NAME")
    say(f"A run uses: {examined.chosen or 'nothing, it refuses to start'}")


def _print_limits(groups: "KernelLimits") -> None:
    """Print which limits the kernel itself enforces."""
    say("limits: the runner looks 20 times a second; container has control groups as well")
    if groups.held:
        kept = ", ".join(KEPT[name] for name in KEPT if name in groups.held)
        say(f"  control groups: the kernel itself keeps {kept}")
        if "cpu" not in groups.held:
            say("  mend  processors: Delegate=cpu memory pids in user@.service")
    else:
        say(f"  no control groups: {groups.lacking}")
        if groups.cure:
            say(f"  mend  {groups.cure}")


def _print_inbound(inbound: "Sequence[Tried]") -> None:
    """Print how many attempts ended as they must, by the part that read them; list the others."""
    say(
        f"inbound: {_share_as_wanted(inbound)}: "
        "hostile replies, worlds, modules, words and projects"
    )
    for part in dict.fromkeys(tried.part for tried in inbound):
        of_part = [tried for tried in inbound if tried.part == part]
        say(f"  {part}: {_share_as_wanted(of_part)}")
        for tried in of_part:
            if not tried.is_as_wanted:
                say(f"  FAILS  {tried.attempt}: {tried.came[:CAME]}")


def _share_as_wanted(tried: "Sequence[Tried]") -> str:
    return f"{sum(one.is_as_wanted for one in tried)} of {len(tried)} held"


# `agenteval speed`.

INGEST = "ingest"
What = Annotated[
    list[str] | None,
    Argument(
        help="Run ids or `last`; or `ingest` and log files, the oldest first, `-` for the standard "
        "input. Not with --model.",
        show_default=False,
    ),
]
Model = Annotated[
    list[str] | None,
    Option("--model", "-m", help="A model to be asked now; may be repeated."),
]
Levels = Annotated[
    str, Option(help="Requests of --model at the same time, a list.", metavar="N[,N...]")
]
PromptTokens = Annotated[int, Option(min=1, help="Length of the prompts of --model.")]
CompletionTokens = Annotated[int, Option(min=1, help="The most that --model may reply.")]
Requests = Annotated[
    int | None,
    Option(min=1, help="Of --model at each level. Default: four times the level, 8 or more."),
]
Window = Annotated[
    float,
    Option(min=1, help="Seconds between two engine lines of a log (5 before vLLM's V1)."),
]

Watts = Annotated[
    float | None, Option(min=1, help="What the machines draw, where no --power measured it.")
]
NOTHING_NAMED = (
    f"name runs, or a --model, or give `{INGEST}` and vLLM's log files, the oldest first"
)


def speed(  # noqa: PLR0913 -- each is an option of the command line
    what: What = None,
    *,
    model: Model = None,
    base_url: options.BaseUrl = None,
    concurrency: Levels = "1,2,4",
    prompt_tokens: PromptTokens = 1000,
    completion_tokens: CompletionTokens = 256,
    requests: Requests = None,
    store: Store = DEFAULT_STORE,
    window: Window = 10.0,
    watts: Watts = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how fast a model is served, by how many requests it has at the same time.

    Of stored runs; of a model asked now, with prompts no cache can know; or out of vLLM's log.

    Examples:
    - `agenteval speed --model my-model --concurrency 1,2,4,8 --prompt-tokens 30000`

    - `agenteval speed 20261121-101500-mine 20261121-101900-mine`, the runs of a sweep

    - `agenteval speed ingest vllm.log.2.gz vllm.log.1.gz vllm.log --json`
    """
    if bool(what) == bool(model) or what == [INGEST]:
        raise UsageError(NOTHING_NAMED)
    if model:
        load = workflows.preflight.probe_of(concurrency, prompt_tokens, completion_tokens, requests)
        served = workflows.preflight.probe_models(model, base_url, load)
        output.show_speed([one.drawing(watts) for one in served], as_json=as_json)
    elif what and what[0] == INGEST:
        _show_log(what[1:], window, watts, as_json=as_json)
    else:
        runs = workflows.views.loaded(output.chosen(what or [], store), store)
        served = workflows.views.speeds(runs)
        output.show_speed([one.drawing(watts) for one in served], as_json=as_json)


def _show_log(paths: list[str], window: float, watts: float | None, *, as_json: bool) -> None:
    view = replace(logs.measured.read_log(paths, window), watts=watts)
    if as_json:
        output.print_json(view.document())
        return
    console = report.console.Terminal()
    for table in report.speed.log_tables(view):
        report.console.print_table(console, table)
    report.console.print_lines(console, report.speed.log_lines(view))


# `agenteval harness`.

app = options.group("Get real harnesses, and say where their verdicts differ from ours.")
Name = Annotated[str, Argument(help="A name that `agenteval harness list` prints.")]


@app.command("list")
def listed() -> None:
    """List the harnesses that can play, with what each is known to do, and which are here.

    Examples:
    - `agenteval harness list`
    """
    for line in workflows.harnesses.listed():
        say(line)


@app.command()
def install(name: Name) -> None:
    """Get a harness in the version that was tried, from the registry that npm or pip uses here.

    It goes into your data folder, ~/.local/share/agenteval or AGENTEVAL_DATA, and nowhere else.

    Examples:
    - `agenteval harness install opencode`
    """
    say(workflows.harnesses.got(name))


@app.command(context_settings={"ignore_unknown_options": True})
def capture(
    command: Annotated[
        list[str],
        Argument(help="Behind --, a command line of your own harness that asks nobody."),
    ],
    *,
    name: Annotated[str | None, Option(help="Name of the arm. Default: captured/HARNESS.")] = None,
    permissions: Annotated[
        str | None,
        Option(help="Its permissions, such as opencode.json, to compare its verdicts with."),
    ] = None,
) -> None:
    """Record what your own harness sends its model, and make an arm of it.

    It runs once, here, with your agents and settings; we are its model, and ask it for some twenty
    calls that do no harm. The arm is a file in arms/ of this folder. Nothing is sent anywhere.

    Examples:
    - `agenteval harness capture -- opencode run "look around"`

    - `agenteval harness capture --permissions .claude/settings.json -- claude -p "look around"`

    - `agenteval harness capture -- codex exec "look around"`
    """
    for line in harness.capture.captured(command, name, permissions):
        say(line)


@app.command()
def verdicts(
    run: Annotated[str, Argument(help=options.RUN_WORDS)] = "last",
    *,
    store: Store = DEFAULT_STORE,
) -> None:
    """Say of a run with a harness which calls it judged otherwise than our allow list.

    Examples:
    - `agenteval harness verdicts last`
    """
    for line in workflows.harnesses.verdicts(run, store):
        say(line)
