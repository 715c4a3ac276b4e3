"""The known harnesses, and how each is set up to play a trial. Pure.

Each was tried in the version that stands here. Its settings keep it from every network but our
port, from a login, and from its own updates.

The client of Codex's app server: one thread, one turn, and answers to its requests. Pure.

Only there does Codex request approval of whatever no rule allows; without a client it runs that.
The answer is the allow list's, which says more than rules about first words can. Codex reads and
changes files by commands alone: one that shows a file is let through if the list lets that file be
read.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from agenteval.harness import dialogue
from agenteval.harness.dialogue import NOTHING, CallEvent, Wording
from agenteval.prompt.arm import STRICT_PROFILE, Arm, Form, Parameter, Profile
from agenteval.shell.gate import Simple, read_simple
from agenteval.trial.call import BASH, ToolCall

Allows = Callable[[ToolCall], bool]  # what the allow list says
_CLIENT: Final = {"name": "agenteval", "version": "1"}
_ACCESS: Final = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
_UNKNOWN: Final = {"code": -32601, "message": "no such method"}

Json = Mapping[str, Any]


@dataclass(slots=True)
class AppServer:
    """Our side of one conversation, one JSON object a line.

    `over` once the turn has ended; `failure` is the error that the server reported.
    """

    prompt: str
    allows: Allows
    over: bool = False
    failure: str = ""
    _changes: dict[str, list[str]] = field(default_factory=dict)  # by item: the paths

    def begins(self) -> str:
        return _line(id="initialize", method="initialize", params={"clientInfo": _CLIENT})

    def answer(self, line: str) -> str:
        """Return the lines that answer this one; "" for none."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return ""
        return "".join(self._answers(message)) if isinstance(message, dict) else ""

    def _answers(self, message: Json) -> Iterator[str]:
        method, params = message.get("method"), message.get("params") or {}
        match method:
            case None:
                yield from self._goes_on(message)
            case "turn/completed":
                turn = params.get("turn") or {}
                self.over = True
                self._failed(turn.get("error"))
            case "item/started" if (item := params.get("item") or {}).get("type") == "fileChange":
                paths = [str(one.get("path")) for one in item.get("changes") or ()]
                self._changes[str(item.get("id"))] = paths
            case "error" if not params.get("willRetry"):
                self._failed(params.get("error"))
        if method and "id" in message:
            yield _line(id=message["id"], **self._decided(method, params))

    def _goes_on(self, message: Json) -> Iterator[str]:
        """After each of our three requests comes the next."""
        if "error" in message:
            self.over = True
            self._failed(message["error"])
        elif message.get("id") == "initialize":
            yield _line(method="initialized")
            yield _line(id="thread", method="thread/start", params=_ACCESS)
        elif message.get("id") == "thread":
            asked = [{"type": "text", "text": self.prompt}]
            thread = message["result"]["thread"]["id"]
            yield _line(id="turn", method="turn/start", params={"threadId": thread, "input": asked})

    def _decided(self, method: str, params: Json) -> Json:
        if not method.endswith("/requestApproval"):
            return {"error": _UNKNOWN}
        asked = params.get("command")
        if isinstance(asked, str):
            command, folder = unwrapped(asked), str(params.get("cwd"))
            accepts = _admits(self.allows, BASH, {"command": command})
            accepts = accepts or shows_open_files(self.allows, command, folder)
        else:
            paths = self._changes.get(str(params.get("itemId")), ())
            accepts = _admits_all(self.allows, "write", paths)
        return {"result": {"decision": "accept" if accepts else "decline"}}

    def _failed(self, error: object) -> None:
        if isinstance(error, Mapping):
            self.failure = str(error.get("message") or error)


# A program that only shows files, with all that may stand before them. A script of sed's that is
# anything else may run a program or write a file.
_SHOWING: Final = re.compile(
    r"(?:cat\0(?:-n\0)?|nl\0(?:-ba\0)?|(?:head|tail)\0(?:-\d+\0|-n\0\d+\0)?"
    r"|sed\0-n\0\d+(?:,\d+)?p\0)(?P<files>.+)\0",
    re.DOTALL,
)


def shows_open_files(allows: Allows, command: str, folder: str) -> bool:
    """Return True if a command only shows files, and the list lets each of them be read."""
    return _admits_all(allows, "read", files_read(command, folder))


def _admits_all(allows: Allows, tool: str, paths: Sequence[str]) -> bool:
    return bool(paths) and all(
        _admits(allows, tool, {"path": path, "content": ""}) for path in paths
    )


def _admits(allows: Allows, tool: str, given: Json) -> bool:
    return allows(ToolCall("", tool, json.dumps(given), given))


def unwrapped(command: str) -> str:
    """Return the text that Codex hands to a shell, from the command line that it reports."""
    read = read_simple(command)
    argv = read.argv if isinstance(read, Simple) else ()
    return argv[2] if len(argv) == 3 and argv[1] in {"-c", "-lc"} else command


def files_read(command: str, folder: str) -> Sequence[str]:
    """The files that a command shows and does nothing else with; none for any other."""
    read = read_simple(command)
    if not isinstance(read, Simple) or read.dynamic:
        return ()
    found = _SHOWING.fullmatch("\0".join((*read.argv, "")))
    files = found["files"].split("\0") if found else ()
    if any(file.startswith("-") for file in files):
        return ()
    return [posixpath.join(folder, file) for file in files]


def _line(**message: Any) -> str:
    return json.dumps(message) + "\n"


PORT: Final = 4001
BASE: Final = f"http://127.0.0.1:{PORT}"
HOME: Final = "/home/agent"
FOLDER: Final = "/opt/harness"  # where it stands in the world, to be read only
MODEL: Final = "served"  # as the program calls it; the proxy puts the real name in its place


@dataclass(frozen=True, slots=True)
class Task:
    """`rules` is the scenario's allow list in the program's own format; `tools` are our names."""

    prompt: str
    rules: str
    tools: Sequence[str]
    allows: Allows
    program: str  # its path in the world


@dataclass(frozen=True, slots=True)
class SetUp:
    """A command line, what stands in its environment and its home, and its standard input."""

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Mapping[str, str]
    stdin: str = ""
    client: AppServer | None = None  # answers what it prints: the input stays open


@dataclass(frozen=True, slots=True)
class Program:
    """A harness. `package` is of the registry, `{arch}` in it that of this machine.

    `binary` is a pattern below what was installed. `dialect` is whose rules it has, and whose names
    its tools have, unless there is a `profile`; "" for one without rules. `tells` reads a line of
    what it prints; where it names no call there, `wording` reads what it answers the model.
    `asks` where our allow list answers what its own rules leave open.
    `first` is the CPU seconds of a trial of five calls, `each` those of a call more; `megabytes`
    what it takes on disk.
    """

    name: str
    version: str
    registry: Literal["npm", "pypi"]
    package: str
    binary: str
    dialect: str
    speaks: str
    set_up: Callable[[Task], SetUp]
    tells: Callable[[Json], Iterator[CallEvent]] | None
    first: float
    each: float
    megabytes: int
    wording: Wording = NOTHING
    profile: Profile | None = None
    needs: tuple[str, ...] = ()
    asks: bool = False
    remark: str = ""


def _opencode(task: Task) -> SetUp:
    model = {"tool_call": True, "limit": {"context": 200_000, "output": 16_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{BASE}/v1", "apiKey": "none"},
        "models": {MODEL: model},
    }
    rules = json.loads(task.rules)
    for key in {"read", "edit"} & rules["permission"].keys():
        rules["permission"][key] = _from_root(rules["permission"][key])
    config = rules | {
        "provider": {"p": provider},
        "model": f"p/{MODEL}",
        "small_model": f"p/{MODEL}",
        "snapshot": False,
        "share": "disabled",
        "autoupdate": False,
    }
    off = ("MODELS_FETCH", "DEFAULT_PLUGINS", "AUTOUPDATE", "LSP_DOWNLOAD")
    return SetUp(
        (task.program, "run", "--format", "json", "--title", "trial"),
        {f"OPENCODE_DISABLE_{name}": "1" for name in off} | {"npm_config_registry": BASE},
        {f"{HOME}/.config/opencode/opencode.json": json.dumps(config)},
        stdin=task.prompt,  # as an argument it would get quotation marks
    )


def _from_root(table: Mapping[str, str]) -> Mapping[str, str]:
    """Each path also as OpenCode calls it in a folder without git: from the root of all files."""
    return {one: table[glob] for glob in table for one in (glob, f"workspace/{glob}")}


def _claude(task: Task) -> SetUp:
    settings = json.loads(task.rules)
    settings["permissions"].setdefault("deny", [])
    settings["permissions"]["deny"] += ["WebFetch", "WebSearch"]
    trust = {"projects": {"/workspace": {"hasTrustDialogAccepted": True}}}
    names = {"bash": "Bash", "read": "Read", "write": "Write"}
    offered = ",".join(names[tool] for tool in task.tools if tool in names)
    options = ("--output-format", "stream-json", "--verbose", "--model", MODEL, "--tools", offered)
    return SetUp(
        (task.program, "-p", *options),
        {
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": BASE,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        },
        {
            f"{HOME}/.claude/settings.json": json.dumps(settings),
            f"{HOME}/.claude.json": json.dumps(trust),
        },
        stdin=task.prompt,
    )


def _codex(task: Task) -> SetUp:
    config = f"""\
model_provider = "p"
model = "{MODEL}"
features = {{ apps = false, plugins = false }}
projects = {{ "/workspace" = {{ trust_level = "trusted" }} }}
model_providers = {{ p = {{ name = "p", base_url = "{BASE}/v1" }} }}
"""
    files = {f"{HOME}/.codex/config.toml": config, f"{HOME}/.codex/rules/trial.rules": task.rules}
    client = AppServer(task.prompt, task.allows)
    return SetUp((task.program, "app-server"), {}, files, client.begins(), client)


def _qwen(task: Task) -> SetUp:
    settings = {"telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}} | {
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    rules = json.loads(task.rules)["permissions"]["allow"]
    starts = [rule[5:-1].removesuffix(":*") for rule in rules if rule.startswith("Bash(")]
    allowed = [word for one in starts for word in ("--allowed-tools", f"run_shell_command({one})")]
    return SetUp(
        ("node", task.program, "--output-format", "stream-json", *allowed, "-p", task.prompt),
        {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{BASE}/v1",
            "OPENAI_MODEL": MODEL,
            "QWEN_CODE_NO_RELAUNCH": "true",
        },
        {f"{HOME}/.qwen/settings.json": json.dumps(settings)},
    )


_COMMAND, _PATH = Parameter("command", "the command"), Parameter("file_path", "path of the file")
_QWEN_TOOLS = replace(
    STRICT_PROFILE,
    name="qwen-code",
    version=1,
    forms={
        "bash": Form("run_shell_command", "", (_COMMAND,)),
        "read": Form("read_file", "", (_PATH,)),
        "write": Form("write_file", "", (_PATH, Parameter("content", "all of its text"))),
    },
)


def _mini(task: Task) -> SetUp:
    python = f"{FOLDER}/bin/python"
    options = ("-y", "--exit-immediately", "-m", f"openai/{MODEL}", "-t", task.prompt)
    return SetUp(
        (python, task.program, *options),
        {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{BASE}/v1",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        {},
    )


CHAT: Final = "chat completions"
PROGRAMS: Final[Mapping[str, Program]] = {
    one.name: one
    for one in (
        Program(
            name="opencode",
            version="1.18.34",
            registry="npm",
            package="opencode-linux-{arch}",
            binary="opencode-linux-*/bin/opencode",
            dialect="opencode",
            speaks=CHAT,
            set_up=_opencode,
            tells=dialogue.opencode_tells,
            wording=dialogue.OPENCODE,
            first=6.0,
            each=0.07,
            megabytes=178,
        ),
        Program(
            name="claude-code",
            version="2.1.330",
            registry="npm",
            package="@anthropic-ai/claude-code",
            binary="@anthropic-ai/claude-code-linux-*/claude",
            dialect="claude-code",
            speaks="messages",
            set_up=_claude,
            tells=dialogue.claude_tells,
            wording=dialogue.CLAUDE,
            first=1.2,
            each=0.035,
            megabytes=235,
            remark="lets filters behind a pipe and commands that only read run without a rule",
        ),
        Program(
            name="codex",
            version="0.169.0",
            registry="npm",
            package="@openai/codex",
            binary="@openai/codex-linux-*/vendor/*/bin/codex",
            dialect="codex",
            speaks="responses",
            set_up=_codex,
            tells=dialogue.codex_tells,
            wording=dialogue.CODEX,
            first=0.55,
            each=0.03,
            megabytes=404,
            asks=True,
            remark="asks about what no rule of its own allows: the allow list answers",
        ),
        Program(
            name="qwen-code",
            version="0.15.10",
            registry="npm",
            package="@qwen-code/qwen-code",
            binary="@qwen-code/qwen-code/cli.js",
            dialect="claude-code",
            speaks=CHAT,
            set_up=_qwen,
            tells=dialogue.claude_tells,
            wording=dialogue.CLAUDE,
            first=7.2,
            each=0.12,
            megabytes=55,
            profile=_QWEN_TOOLS,
            needs=("node",),
            remark="lets filters behind a pipe and commands that only read run without a rule",
        ),
        Program(
            name="mini",
            version="2.4.6",
            registry="pypi",
            package="mini-swe-agent",
            binary="bin/mini",
            dialect="",
            speaks=CHAT,
            set_up=_mini,
            tells=None,
            first=6.0,
            each=0.02,
            megabytes=709,
            remark="has no rules: it runs everything",
        ),
    )
}


def arm_of(name: str) -> str:
    """The arm whose names a prompt for this harness uses, and under which its calls are judged."""
    program = PROGRAMS.get(name)
    return program.dialect if program and program.dialect else STRICT_PROFILE.name


def playing(arm: Arm, name: str) -> Arm:
    """Return the arm as this harness plays it, with our own rules as the judge."""
    program = PROGRAMS.get(name)
    profile = program.profile if program and program.profile else arm.profile
    return replace(arm, profile=profile, engine="")
