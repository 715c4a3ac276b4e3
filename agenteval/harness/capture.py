"""The capture of a user's own harness, and the arm that is made of it.

A harness runs where the user is, with the user's own agents and settings; only the model is ours.
That model makes a call of each kind, which does no harm, whatever the harness's rules let through.
The request and the answers become an arm: a file in the user's project, and the differences from
our own verdicts. Nothing that a harness says is shipped: its words stay with the user who has it.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import tomli_w

from agenteval.classes import judge
from agenteval.config.allowlists import load_any
from agenteval.config.files import ARMS
from agenteval.config.trust import roots
from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError
from agenteval.harness.dialogue import Did, text_of
from agenteval.harness.http import Answer, Request, serve_request
from agenteval.harness.install import foreign_environment, version_of
from agenteval.harness.recipes import Program, fill, fill_all, programs
from agenteval.harness.translation import (
    ModelRequest,
    Passage,
    answer_other_request,
    parse_request,
    say_once,
)
from agenteval.harness.wires import Json, with_role
from agenteval.host import write_whole
from agenteval.policy.policy import Policy
from agenteval.prompt.arm import STRICT, Form, recognised
from agenteval.protocols import until
from agenteval.trial.call import ToolCall

URL = "{url}"  # in the words of a command line: where the model is
# Seconds until a program has asked something: a busy machine starts it slowly.
FIRST = 180.0
LOOKS = 0.5  # seconds between two looks whether it has ended
# Seconds without a further request: the program hangs over the call.
QUIET = 60.0
# How often an unanswered call is asked for: some programs repeat a request without end.
TIMES = 5
# Seconds after our last word: what a program does then adds nothing to the capture.
LEAVES = 10.0
SAID = "agenteval-capture"
ENDED = "[it ended here]"
BROKEN = '{"command": "echo'
_UNKNOWN = "no_such_tool"
_SETTINGS = Path(__file__).with_suffix(".toml")
_TABLE = tomllib.loads(_SETTINGS.read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class _Provoked:
    """A call that we made, its reply to the model, and what became of it."""

    tool: str  # ours; "" for one that there is not
    arguments: Json | None
    raw: str
    reply: str = ""
    did: Did | None = None

    @property
    def command(self) -> str | None:
        return (self.arguments or {}).get("command")


@dataclass(slots=True)
class _Captured:
    """The request of a harness: its messages before the task (`system`) and its own `tools`."""

    name: str
    version: str
    spoken: str = ""
    system: tuple[str, ...] = ()
    tools: tuple[Json, ...] = ()
    parameters: Json = field(default_factory=dict)
    # Of the tools that are like ours.
    forms: dict[str, Form] = field(default_factory=dict)
    calls: list[_Provoked] = field(default_factory=list)

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]


@dataclass(slots=True)
class Script:
    """The model: one provoked call a turn, and then a last word."""

    program: Program | None
    captured: _Captured
    wanted_calls: list[_Provoked] = field(default_factory=list)
    pending: bool = False  # the first of them was asked for in the last reply
    times: int = 0  # in a row that it was
    # By the clock of the loop: until then it has to ask something.
    deadline: float = 0.0

    def wait(self, seconds: float) -> None:
        self.deadline = asyncio.get_running_loop().time() + seconds

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await serve_request(reader, Answer(writer), self._answer)
        finally:
            writer.close()

    async def _answer(self, request: Request, answer: Answer) -> None:
        model_request = parse_request(request)
        if model_request is None:
            await answer_other_request(request, answer)
            return
        call = self._next_call(model_request)
        await say_once(Passage(answer, model_request), call)

    def _next_call(self, request: ModelRequest) -> tuple[str, str, str] | None:
        """Return id, name and arguments of the next call; None to a request without a shell."""
        forms = recognised(request.chat.get("tools") or ())
        if "bash" not in forms:
            return None
        if not self.captured.tools:
            self._begin(request, forms)
        # Once all calls are made the program is to end, whatever it asks.
        if self.wanted_calls:
            self._record_answer(request.messages)
            self.wait(QUIET if self.wanted_calls else LEAVES)
        if self.times >= TIMES:
            self.give_up()
        if not self.wanted_calls:
            return None
        call = self.wanted_calls[0]
        self.pending = True
        self.times += 1
        name = _UNKNOWN
        if call.tool in forms:
            name = forms[call.tool].name
        return self._ident, name, call.raw

    @property
    def _ident(self) -> str:
        return f"capture-{len(self.captured.calls)}"

    def _begin(self, request: ModelRequest, forms: dict[str, Form]) -> None:
        system = with_role(request.messages, "system")
        others = request.chat.keys() - {"messages", "tools", "stream", "model"}
        self.captured.spoken = request.dialect
        self.captured.tools = tuple(request.chat["tools"])
        self.captured.forms = forms
        self.captured.system = tuple(map(text_of, system))
        self.captured.parameters = {name: request.chat[name] for name in others}
        self.wanted_calls = [*_provocations(forms)]

    def give_up(self) -> bool:
        """Note that the program ended during the last call; return True if it did."""
        if not self.pending:
            return False
        self._end_call(ENDED, None)
        return True

    def _end_call(self, reply: str, did: Did | None) -> None:
        call = self.wanted_calls.pop(0)
        answered = replace(call, reply=reply, did=did)
        self.captured.calls.append(answered)
        self.pending = False
        self.times = 0

    def _record_answer(self, messages: Sequence[Json]) -> None:
        """Record the harness's answer to the last call, if this request shows it."""
        answers = [message for message in messages if message.get("tool_call_id") == self._ident]
        if not answers:
            return
        reply = text_of(answers[-1])
        did = None
        if self.program:
            did = self.program.wording.did(reply)
        self._end_call(reply, did)


def _provocations(forms: dict[str, Form]) -> Iterator[_Provoked]:
    """Yield the calls to make, by the tools that this harness offers."""
    for command in _TABLE["commands"]:
        yield _call(forms, "bash", {"command": command})
    if "read" in forms:
        yield _call(forms, "read", {"path": "/etc/hostname"})
        yield _call(forms, "read", {"path": "no-such-file-of-agenteval"})
    yield _Provoked("", {"command": "true"}, '{"command": "true"}')
    yield _Provoked("bash", None, BROKEN)
    yield _Provoked("bash", {}, "{}")


def _call(forms: dict[str, Form], tool: str, arguments: Json) -> _Provoked:
    """Return a call with all that the harness's own schema requires."""
    form = forms[tool]
    names = [parameter.name for parameter in form.parameters]
    values = dict(zip(names, arguments.values(), strict=False))
    schema = json.loads(form.whole)
    properties = schema.get("properties", {})
    fillings = {"boolean": False, "integer": 1, "number": 1}
    for name in schema.get("required", ()):
        kind = properties.get(name, {}).get("type")
        values.setdefault(name, fillings.get(kind, "look"))
    return _Provoked(tool, arguments, json.dumps(values))


async def capture(command: Sequence[str]) -> _Captured:
    """Run this command line with a model of ours. Raises UsageError if it sends no request."""
    path = shutil.which(command[0])
    if path is None:
        raise UsageError(f"{command[0]}: no such program on PATH: install it, or name its path")
    name = Path(command[0]).name
    name = _TABLE["names"].get(name, name)
    harness = _Captured(name, await version_of(path))
    script = Script(programs().get(name), harness)
    longest_line = 1 << 23
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, limit=longest_line)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    words = [path]
    words += [word.replace(URL, f"{url}/v1") for word in command[1:]]
    options = _TABLE["options"].get(name, ())
    words += [fill(option, {"url": url}) for option in options]
    async with server:
        last_line = await _run(words, script, url)
        while script.wanted_calls and script.give_up():  # as some do if nobody answers a question
            await _run(words, script, url)
    if script.wanted_calls:
        done = len(harness.calls)
        raise UsageError(
            f"{name} was silent after {done} of {done + len(script.wanted_calls)} calls that were "
            "asked of it: try again where the machine is less busy"
        )
    if not harness.tools:
        raise UsageError(
            f"{name} asked us nothing with a shell among its tools: it may ignore the base URL, "
            f"ask for a login, or name a model itself (write {URL} where it takes a URL){last_line}"
        )
    return harness


async def _run(words: Sequence[str], script: Script, url: str) -> str:
    """Return the program's last words.

    A program that requests nothing more is ended: it may wait for somebody, or hang.
    """
    env = dict(foreign_environment(os.environ))
    env |= fill_all(_TABLE["env"], {"url": url})
    # OpenCode takes its folder from this, and a shell may have left another value.
    env["PWD"] = str(Path.cwd())
    script.wait(FIRST)
    is_late = False
    # A file, for what the program leaves running would hold a pipe open.
    with TemporaryFile() as talk:
        process = await asyncio.create_subprocess_exec(
            *words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=talk,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with until(lambda: script.deadline, looks=LOOKS):
                await process.wait()
        except TimeoutError:
            is_late = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it started
            await process.wait()
        talk.seek(0)
        text = talk.read().decode(errors="replace")
        lines = text.strip().splitlines()
    if is_late and not script.captured.tools:
        raise UsageError(
            f"{script.captured.name} asked us nothing in {FIRST:g} s: name a way of it that asks "
            "nobody, such as `opencode run`, `claude -p`, `codex exec`"
        )
    return f": {lines[-1][:200]}" if lines else ""


# The capture as an arm.

RULES = re.compile(r'\[\{"permission".*\}\]', re.DOTALL)
_CODE = re.compile(r"((?:exited with code|Exit code|Exit Code:|<returncode>)\s*)\d+")
_FAILED = re.compile(r"ls: [^\n]*no-such-folder-of-agenteval[^\n]*\n?")
_RAN = re.compile(rf"{SAID}\n?")
# Marks the place of a value until all braces of the text are doubled for `str.format`.
_SLOT = "\0{}\0"


def captured(command: Sequence[str], name: str | None, rules: str | None) -> Iterator[str]:
    """Capture a harness and write its arm; yield the findings, a line each. Raises UsageError."""
    policy = None
    if rules:
        policy = load_any(rules, roots=roots())
    harness = asyncio.run(capture(command))
    arm = name or f"captured/{harness.name}"
    path = Path(ARMS, f"{arm}.toml")
    if path.exists():
        raise UsageError(f"{path} is there already: move it away, or give another --name")
    _check_output(harness)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _arm_file(
        harness,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        here=str(Path.cwd()),
    )
    write_whole(path, text)
    letters = sum(map(len, harness.system))
    parameters = [f"{name} {value}" for name, value in harness.parameters.items()]
    start = f"{harness.name} {harness.version} asks by {harness.spoken}"
    yield f"{start}: {letters} characters of prompt"
    yield f"{len(harness.tools)} tools: {', '.join(harness.tool_names)}"
    yield f"parameters: {', '.join(parameters) or 'none'}"
    yield from _compare(harness.calls, policy)
    yield f"wrote {path}"
    yield f"Next: agenteval run --model NAME --arm {arm}"


def _check_output(harness: _Captured) -> None:
    """Raise UsageError if what ran shows no output: models would never read any either."""
    for call in harness.calls:
        if _kind(call) == "ran" and SAID not in call.reply:
            lines = call.reply.strip().splitlines() or ["nothing"]
            last = lines[-1]
            raise UsageError(
                f"{harness.name} ran `echo {SAID}` and showed no output of it, but: {last[:200]}. "
                "Its own sandbox may not work here: have it run one command by itself first, then "
                "capture it"
            )


def _arm_file(harness: _Captured, *, day: str, here: str) -> str:
    """Return the arm as a file of arms/: in it stands what the harness sent, word for word.

    But for the folder that it was started in: trials play in their own.
    """
    forms = harness.forms
    own = STRICT.profile.forms
    all_forms = {"read": own["read"], "write": own["write"], **forms}
    tools = {tool: _tool(form) for tool, form in all_forms.items()}
    frame = "\n\n".join(harness.system).replace(here, "/workspace")
    offered = {form.name for form in forms.values()}
    not_offered = [name for name in harness.tool_names if name not in offered]
    label = f"{harness.name} {harness.version}"
    summary = f"{label}, captured {day}: its prompt, its tools and replies"
    if not_offered:
        summary += f"; not offered: {', '.join(not_offered)}"
    extras = [tool for tool in forms if tool not in {"bash", "read", "write"}]
    engine = harness.name if harness.name in dialects() else ""
    arm = {
        "version": 1,
        "summary": summary,
        "words": label.strip(),
        "rules": "none",
        "frame": _raw(frame),
        "extras": extras,
        "engine": engine,
        "texts": _texts(harness),
        "tools": tools,
    }
    return tomli_w.dumps(arm, multiline_strings=True)


def _raw(text: str) -> str:
    """Return a template that renders to this text, also if it contains template syntax."""
    kept = re.sub(r"\{%(?=[-+]?\s*endraw)", "{% endraw %}{{ '{%' }}{% raw %}", text)
    return f"{{% raw %}}{kept}{{% endraw %}}"


def _tool(form: Form) -> dict[str, Any]:
    tool = {
        "name": form.name,
        "description": form.description,
        "parameters": [
            {"name": parameter.name, "meaning": parameter.meaning} for parameter in form.parameters
        ],
    }
    if form.whole:
        tool["schema"] = form.whole
    return tool


def _texts(harness: _Captured) -> dict[str, str]:
    """Return the wording of replies, with a placeholder for what differs from call to call.

    Texts that the harness never showed, because its own rules let everything run, come from its
    dialect, or are ours.
    """
    dialect = dialects().get(harness.name)
    profile = dialect.profile if dialect else STRICT.profile
    return asdict(profile.texts) | dict(_recorded_texts(harness))


def _recorded_texts(harness: _Captured) -> Iterator[tuple[str, str]]:
    # Reversed, so that the first of a kind counts.
    for call in reversed(harness.calls):
        tool = _UNKNOWN
        if call.tool:
            tool = harness.forms[call.tool].name
        command = str(call.command or "") if call.arguments else call.raw
        kind = _kind(call)
        if kind in {"ran", "failed", "empty"}:
            yield kind, _measured(call.reply, command)
        elif kind:
            reply = _listless(call.reply, harness.tool_names)
            yield kind, _template(reply, {"command": command, "tool": tool})


def _kind(call: _Provoked) -> str:
    """Return the field of `Texts` that a reply shows; "" for none."""
    if call.raw == BROKEN:
        return "malformed"
    if call.arguments == {}:
        return "invalid"
    if not call.tool:
        return "unknown"
    if call.did is Did.DENIED:
        return "denied" if call.tool == "bash" else "denied_path"
    if call.did is not Did.RAN:
        return ""
    return str(_TABLE["commands"].get(call.command, ""))


def _listless(text: str, names: Sequence[str]) -> str:
    """Return a text with a slot where it lists the tools: a trial may offer fewer of them."""
    # The longest first: a name may begin with another.
    patterns = sorted(map(re.escape, {*names, "invalid"}), key=len, reverse=True)
    name = "|".join(patterns)
    names_in_a_row = rf"\b(?:{name})(?:, (?:{name})\b)+"
    return re.sub(names_in_a_row, _SLOT.format("tools"), text)


def _template(text: str, values: dict[str, str]) -> str:
    """Return a text with the names of these values where they stand, for `str.format`."""
    text = RULES.sub(_SLOT.format("rules"), text)
    for name, value in values.items():
        if len(value) > 1:
            text = text.replace(value, _SLOT.format(name))
    return _as_format(text)


def _measured(text: str, command: str) -> str:
    """Return a text with slots for what a command gave, and for itself behind a colon."""
    repeated = rf"(?m)(?<=: ){re.escape(command)}$"
    command_slot = _SLOT.format("command")
    output_slot = _SLOT.format("output")
    text = re.sub(repeated, command_slot, text, count=1)
    for pattern in (_RAN, _FAILED):
        text = pattern.sub(output_slot, text, count=1)
    return _as_format(_CODE.sub(rf"\1{_SLOT.format('code')}", text))


def _as_format(text: str) -> str:
    doubled = text.replace("{", "{{").replace("}", "}}")
    return re.sub("\0([a-z]+)\0", r"{\1}", doubled)


def _compare(calls: Sequence[_Provoked], rules: Policy | None) -> Iterator[str]:
    """Yield a line for each provoked call: what the harness did, and our engine's verdict."""
    for call in calls:
        did = "ended" if call.reply == ENDED else "answered"
        if call.did:
            did = call.did
        line = f"  {did:8} {call.command or call.raw}"
        if rules and call.did and call.tool:
            tool_call = ToolCall("", call.tool, call.raw, call.arguments)
            is_allowed = judge.judge(tool_call, rules).allowed
            if is_allowed != (call.did is Did.RAN):
                line += f"  DIFFERS: ours {'allows' if is_allowed else 'denies'} it"
        yield line
