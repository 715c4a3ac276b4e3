"""The known harnesses, and how each is set up to play a trial. Pure.

Each was tried in the version that stands here. Its settings keep it from every network but our
port, from a login, and from its own updates.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from agenteval.core.prompt.arm import Arm
from agenteval.core.prompt.profile import STRICT, Form, Parameter, Profile
from agenteval.harness import dialogue
from agenteval.harness.app_server import Allows, AppServer
from agenteval.harness.dialogue import NOTHING, CallEvent, Wording

PORT: Final = 4001
BASE: Final = f"http://127.0.0.1:{PORT}"
HOME: Final = "/home/agent"
FOLDER: Final = "/opt/harness"  # where it stands in the world, to be read only
MODEL: Final = "served"  # as the program calls it; the proxy puts the real name in its place
Json = Mapping[str, Any]


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
    STRICT,
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
    return program.dialect if program and program.dialect else STRICT.name


def playing(arm: Arm, name: str) -> Arm:
    """Return the arm as this harness plays it, with our own rules as the judge."""
    program = PROGRAMS.get(name)
    profile = program.profile if program and program.profile else arm.profile
    return replace(arm, profile=profile, engine="")
