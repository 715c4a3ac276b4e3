"""The known harnesses, and how each is set up to play a trial.

programs.toml describes them. A harness's own rules are added to its settings here. Codex alone has
a client, for its app server: one thread, one turn, and answers to its requests. Only there does
Codex request approval of whatever no rule allows; without a client it runs that. The answer is the
allow list's, which says more than rules about first words can. Codex reads and changes files by
commands alone: one that shows a file is let through if the list lets that file be read.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

import msgspec

from agenteval.harness.dialogue import Wording
from agenteval.harness.wires import Json
from agenteval.prompt.arm import STRICT_PROFILE, Arm, Form, Parameter, Profile
from agenteval.shell.gate import Simple, read_simple
from agenteval.trial.call import BASH, ToolCall

Allows = Callable[[ToolCall], bool]  # what the allow list says
_CLIENT = {"name": "agenteval", "version": "1"}
_ACCESS = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
_UNKNOWN = {"code": -32601, "message": "no such method"}


@dataclass(slots=True)
class AppServer:
    """Our side of one conversation, one JSON object a line.

    `over` once the turn has ended; `failure` is the error that the server reported.
    """

    prompt: str
    allows: Allows
    over: bool = False
    failure: str = ""
    # The paths of each item that changes files.
    _changes: dict[str, list[str]] = field(default_factory=dict)

    def greet(self) -> str:
        return _request("initialize", "initialize", {"clientInfo": _CLIENT})

    def answer(self, line: str) -> str:
        """Return the lines that answer this one; "" for none."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(message, dict):
            return ""
        return "".join(self._answers(message))

    def _answers(self, message: Json) -> Iterator[str]:
        method = message.get("method")
        if not method:
            yield from self._next_request(message)
            return
        params = message.get("params") or {}
        if method == "turn/completed":
            turn = params.get("turn") or {}
            self._end(turn.get("error"))
        elif method == "item/started":
            self._note_changes(params.get("item") or {})
        elif method == "error" and not params.get("willRetry"):
            self._note_failure(params.get("error"))
        if "id" in message:
            decision = self._decision(method, params)
            yield _line(id=message["id"], **decision)

    def _note_changes(self, item: Json) -> None:
        if item.get("type") == "fileChange":
            ident = str(item.get("id"))
            changes = item.get("changes") or ()
            self._changes[ident] = [str(change.get("path")) for change in changes]

    def _next_request(self, message: Json) -> Iterator[str]:
        """Yield the request that follows the answered one, of our three."""
        if "error" in message:
            self._end(message["error"])
        elif message.get("id") == "initialize":
            yield _line(method="initialized")
            yield _request("thread", "thread/start", _ACCESS)
        elif message.get("id") == "thread":
            thread = message["result"]["thread"]["id"]
            prompt = [{"type": "text", "text": self.prompt}]
            yield _request("turn", "turn/start", {"threadId": thread, "input": prompt})

    def _decision(self, method: str, params: Json) -> Json:
        if not method.endswith("/requestApproval"):
            return {"error": _UNKNOWN}
        reported = params.get("command")
        if isinstance(reported, str):
            command = _unwrapped(reported)
            folder = str(params.get("cwd"))
            is_accepted = _admits(self.allows, BASH, {"command": command})
            is_accepted = is_accepted or shows_open_files(self.allows, command, folder)
        else:
            ident = str(params.get("itemId"))
            paths = self._changes.get(ident, ())
            is_accepted = _admits_all(self.allows, "write", paths)
        decision = "accept" if is_accepted else "decline"
        return {"result": {"decision": decision}}

    def _end(self, error: object) -> None:
        self.over = True
        self._note_failure(error)

    def _note_failure(self, error: object) -> None:
        if isinstance(error, Mapping):
            self.failure = str(error.get("message") or error)


# A program that only shows files, with all that may stand before them. A script of sed's that is
# anything else may run a program or write a file.
_SHOWING = re.compile(
    r"(?:cat\0(?:-n\0)?|nl\0(?:-ba\0)?|(?:head|tail)\0(?:-\d+\0|-n\0\d+\0)?"
    r"|sed\0-n\0\d+(?:,\d+)?p\0)(?P<files>.+)\0",
    re.DOTALL,
)


def shows_open_files(allows: Allows, command: str, folder: str) -> bool:
    """Return True if a command only shows files, and the list lets each of them be read."""
    return _admits_all(allows, "read", _files_read(command, folder))


def _admits_all(allows: Allows, tool: str, paths: Sequence[str]) -> bool:
    if not paths:
        return False
    requests = [{"path": path, "content": ""} for path in paths]
    return all(_admits(allows, tool, request) for request in requests)


def _admits(allows: Allows, tool: str, arguments: Json) -> bool:
    call = ToolCall("", tool, json.dumps(arguments), arguments)
    return allows(call)


def _unwrapped(command: str) -> str:
    """Return the text that Codex hands to a shell, from the command line that it reports."""
    match read_simple(command):
        case Simple(argv=(_, "-c" | "-lc", text)):
            return text
    return command


def _files_read(command: str, folder: str) -> Sequence[str]:
    """Return the files that a command shows and does nothing else with; none for any other."""
    read = read_simple(command)
    if not isinstance(read, Simple) or read.dynamic:
        return ()
    words = "\0".join((*read.argv, ""))
    match = _SHOWING.fullmatch(words)
    files = match["files"].split("\0") if match else ()
    if any(file.startswith("-") for file in files):
        return ()
    return [posixpath.join(folder, file) for file in files]


def _request(ident: str, method: str, params: Json) -> str:
    return _line(id=ident, method=method, params=params)


def _line(**message: Any) -> str:
    return json.dumps(message) + "\n"


PORT = 4001
HOME = "/home/agent"
CHAT = "chat completions"
FOLDER = "/opt/harness"  # where it stands in the world, to be read only
# The name that programs are given; the proxy puts the real one in its place.
MODEL = "served"


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
    # It answers what the program prints, so the standard input stays open.
    client: AppServer | None = None


class _Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    parameters: dict[str, str]  # with their meanings


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A harness, as programs.toml describes it."""

    name: str = ""
    version: str
    registry: Literal["npm", "pypi"]
    package: str
    binary: str
    dialect: str
    speaks: str
    argv: tuple[str, ...]
    first: float
    per_call: float
    megabytes: int
    reports: str = ""
    wording: Wording = Wording()
    env: dict[str, str] = {}
    stdin: str = ""
    files: dict[str, str] = {}
    settings: dict[str, dict[str, Any]] = {}
    tools: dict[str, _Tool] = {}
    needs: tuple[str, ...] = ()
    asks: bool = False
    remark: str = ""

    @property
    def profile(self) -> Profile | None:
        """Return the names of its tools; None if they are those of its dialect, or ours."""
        if not self.tools:
            return None
        forms = {}
        for tool, form in self.tools.items():
            parameters = tuple(starmap(Parameter, form.parameters.items()))
            forms[tool] = Form(form.name, "", parameters)
        return replace(STRICT_PROFILE, name=self.name, version=1, forms=forms)

    def set_up(self, task: Task) -> SetUp:
        # Claude Code's names of the tools.
        own_tools = [tool for tool in task.tools if tool in {"bash", "read", "write"}]
        tools = map(str.capitalize, own_tools)
        slots = {
            "program": task.program,
            "prompt": task.prompt,
            "rules": task.rules,
            "tools": ",".join(tools),
            "url": f"http://127.0.0.1:{PORT}",
        }
        settings = {path: json.dumps(content) for path, content in self.settings.items()}
        set_up = SetUp(
            argv=[fill(word, slots) for word in self.argv],
            env=fill_all(self.env, slots),
            files=fill_all(self.files | settings, slots),
            stdin=fill(self.stdin, slots),
        )
        add_rules = _RULES.get(self.name)
        return add_rules(task, set_up) if add_rules else set_up


_SLOTS = re.compile(r"\{(program|prompt|rules|tools|url|model)\}")


def fill(text: str, slots: dict[str, str]) -> str:
    """Return the text with values in its slots; other braces stay, as those of JSON."""
    values = slots | {"model": MODEL}
    return _SLOTS.sub(lambda slot: values[slot[1]], text)


def fill_all(texts: Mapping[str, str], slots: dict[str, str]) -> dict[str, str]:
    return {name: fill(text, slots) for name, text in texts.items()}


# What a program's own rules become, where they are more than a text in a file.


def _opencode(task: Task, set_up: SetUp) -> SetUp:
    # OpenCode reads one file: our settings go before what the rules may say of the same key.
    path = f"{HOME}/.config/opencode/opencode.json"
    rules = json.loads(task.rules)
    permission = rules["permission"]
    for key in {"read", "edit"} & permission.keys():
        permission[key] = _from_root(permission[key])
    settings = json.loads(set_up.files[path])
    files = {path: json.dumps(rules | settings)}
    return replace(set_up, files=files)


def _from_root(table: Mapping[str, str]) -> Mapping[str, str]:
    """Return the table with each path also from the root of all files.

    OpenCode calls it so in a folder without git.
    """
    paths = {}
    for glob, action in table.items():
        paths[glob] = action
        paths[f"workspace/{glob}"] = action
    return paths


def _claude(task: Task, set_up: SetUp) -> SetUp:
    settings = json.loads(task.rules)
    denied = settings["permissions"].setdefault("deny", [])
    # Both ask the network, of which a trial has none.
    denied += ["WebFetch", "WebSearch"]
    path = f"{HOME}/.claude/settings.json"
    files = {**set_up.files, path: json.dumps(settings)}
    return replace(set_up, files=files)


def _codex(task: Task, set_up: SetUp) -> SetUp:
    # It gets the prompt by its client, after the greeting.
    client = AppServer(task.prompt, task.allows)
    return replace(set_up, stdin=client.greet(), client=client)


def _qwen(task: Task, set_up: SetUp) -> SetUp:
    words = [*set_up.argv]
    rules = json.loads(task.rules)
    for rule in rules["permissions"]["allow"]:
        if rule.startswith("Bash("):
            start = rule[5:-1].removesuffix(":*")
            words += ("--allowed-tools", f"run_shell_command({start})")
    words += ("-p", task.prompt)
    return replace(set_up, argv=words)


_RULES: Mapping[str, Callable[[Task, SetUp], SetUp]] = {
    "opencode": _opencode,
    "claude-code": _claude,
    "codex": _codex,
    "qwen-code": _qwen,
}


class _Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reports: dict[str, Wording]
    programs: dict[str, Program]


@cache
def programs() -> Mapping[str, Program]:
    """Return the known harnesses by their names."""
    content = Path(__file__).with_name("programs.toml").read_bytes()
    table = msgspec.toml.decode(content, type=_Programs)
    by_name = {}
    for name, program in table.programs.items():
        wording = table.reports.get(program.reports, program.wording)
        by_name[name] = msgspec.structs.replace(
            program,
            name=name,
            wording=wording,
        )
    return by_name


def arm_of(name: str) -> str:
    """Return the arm whose names this harness's prompt uses, and under which calls are judged."""
    program = programs().get(name)
    return program.dialect if program and program.dialect else STRICT_PROFILE.name


def playing(arm: Arm, name: str) -> Arm:
    """Return the arm as this harness plays it, with our own rules as the judge."""
    program = programs().get(name)
    profile = program.profile if program else None
    return replace(arm, profile=profile or arm.profile, engine="")
