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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import tomli_w

from agenteval.classes import judge
from agenteval.config.allowlists import load_any
from agenteval.config.files import ARMS
from agenteval.config.trust import roots
from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError
from agenteval.harness.dialogue import Did, text_of
from agenteval.harness.http import Answer, Request, UnreadableError, read_request
from agenteval.harness.install import environment, foreign_environment, options, version_of
from agenteval.harness.recipes import Program, programs
from agenteval.harness.translation import (
    ModelRequest,
    Passage,
    answer_other_request,
    parse_request,
    say_once,
)
from agenteval.host import write_whole
from agenteval.policy.policy import Policy
from agenteval.prompt.arm import STRICT, Form, recognised
from agenteval.trial.call import ToolCall

URL: Final = "{url}"  # in the words of a command line: where the model is
FIRST: Final = 180.0  # seconds until it has asked something; a busy machine starts it slowly
LOOKS: Final = 0.5  # seconds between two looks whether it has ended
QUIET: Final = 60.0  # seconds in which it asks nothing more, and says nothing of a call
TIMES: Final = 5  # that a call is asked for which is never answered: another kind of reply came
LEAVES: Final = 10.0  # after our last word; what it does then is no part of what it sends
NAMES: Final = {"claude": "claude-code", "qwen": "qwen-code"}  # where a program has another name
SAID: Final = "agenteval-capture"
# Each is made once. None of them changes anything, and each shows another way to deny.
COMMANDS: Final = (
    f"echo {SAID}",
    f"echo {SAID} | head -1",
    f"echo {SAID} && echo again",
    f"echo {SAID} 2>/dev/null",
    f"echo {SAID} > /dev/null",
    "ls /no-such-folder-of-agenteval",
    "cat /etc/hostname",
    "timeout 5 true",
    "true",
)
ENDED: Final = "[it ended here]"
BROKEN: Final = '{"command": "echo'


@dataclass(frozen=True, slots=True)
class _Provoked:
    """A call that we made, its reply to the model, and what became of it."""

    tool: str  # ours; "" for one that there is not
    arguments: Mapping[str, Any] | None
    raw: str
    reply: str = ""
    did: Did | None = None


@dataclass(slots=True)
class _Captured:
    """The request of a harness: its messages before the task (`system`) and its own `tools`."""

    name: str
    version: str
    spoken: str = ""
    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[_Provoked, ...] = ()

    @property
    def forms(self) -> Mapping[str, Form]:
        """The forms of its tools that are like ours."""
        return recognised(self.tools)

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]


@dataclass(slots=True)
class Script:
    """The model: one provoked call a turn, and then a last word."""

    program: Program | None
    captured: _Captured
    wants: list[_Provoked] = field(default_factory=list)
    done: list[_Provoked] = field(default_factory=list)
    pending: _Provoked | None = None  # the call of the last reply
    times: int = 0  # in a row that it was
    silence: float = FIRST
    since: float = 0.0  # when it last asked something, by the clock of the loop

    def begun(self) -> None:
        """The program was started, once more perhaps."""
        self.since, self.silence = asyncio.get_running_loop().time(), FIRST

    @property
    def waited_enough(self) -> bool:
        """Return True if a program that still runs has been silent for too long."""
        return asyncio.get_running_loop().time() > self.since + self.silence

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = Answer(writer)
        try:
            request = await read_request(reader)
            if request:
                await self._answer(request, answer)
        except UnreadableError as error:
            await answer.refuse(400, str(error))
        finally:
            writer.close()

    async def _answer(self, request: Request, answer: Answer) -> None:
        model_request = parse_request(request)
        if model_request is None:
            await answer_other_request(request, answer)
            return
        await say_once(Passage(answer, model_request), self._next(model_request))

    def _next(self, request: ModelRequest) -> tuple[str, str, str] | None:
        """The id, name and arguments of the next call; none to what offers no shell."""
        forms = recognised(request.chat.get("tools") or ())
        if "bash" not in forms:
            return None
        if not self.captured.tools:
            self._first(request, forms)
        if self.wants:  # else it is to end, whatever it asks
            self._hear(request.messages)
            self.since = asyncio.get_running_loop().time()
            self.silence = QUIET if self.wants else LEAVES
        if self.times >= TIMES:
            self.gave_up()
        if not self.wants:
            return None
        call = self.wants[0]
        self.times = self.times + 1 if call is self.pending else 1
        self.pending = call
        name = forms[call.tool].name if call.tool in forms else "no_such_tool"
        return f"capture-{len(self.done)}", name, call.raw

    def _first(self, request: ModelRequest, forms: Mapping[str, Form]) -> None:
        system = [message for message in request.messages if message.get("role") == "system"]
        others = request.chat.keys() - {"messages", "tools", "stream", "model"}
        self.captured.spoken = request.dialect
        self.captured.tools = tuple(request.chat["tools"])
        self.captured.system = tuple(map(text_of, system))
        self.captured.parameters = {name: request.chat[name] for name in others}
        self.wants = [*_provocations(forms)]

    def gave_up(self) -> bool:
        """Note that the program ended during the last call; return True if it did."""
        call = self.pending
        if call is None:
            return False
        self.wants.remove(call)
        self._end(replace(call, reply=ENDED))
        return True

    def _end(self, call: _Provoked) -> None:
        self.done.append(call)
        self.pending = None
        self.times = 0

    def _hear(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Record the harness's answer to the last call, if this request shows it."""
        ident = f"capture-{len(self.done)}"
        answers = [message for message in messages if message.get("tool_call_id") == ident]
        if answers and self.wants:
            reply = text_of(answers[-1])
            did = self.program.wording.did(reply) if self.program else None
            self._end(replace(self.wants.pop(0), reply=reply, did=did))


def _provocations(forms: Mapping[str, Form]) -> Iterator[_Provoked]:
    """Yield the calls to make, by the tools that this harness offers."""
    for command in COMMANDS:
        yield _call(forms, "bash", {"command": command})
    if "read" in forms:
        yield _call(forms, "read", {"path": "/etc/hostname"})
        yield _call(forms, "read", {"path": "no-such-file-of-agenteval"})
    yield _Provoked("", {"command": "true"}, '{"command": "true"}')
    yield _Provoked("bash", None, BROKEN)
    yield _Provoked("bash", {}, "{}")


def _call(forms: Mapping[str, Form], tool: str, arguments: Mapping[str, Any]) -> _Provoked:
    """With all that the harness's own schema requires."""
    form = forms[tool]
    names = [parameter.name for parameter in form.parameters]
    values = dict(zip(names, arguments.values(), strict=False))
    schema = json.loads(form.whole)
    for name in schema.get("required", ()):
        kind = schema.get("properties", {}).get(name, {}).get("type")
        values.setdefault(name, _FILLED.get(kind, "look"))
    return _Provoked(tool, arguments, json.dumps(values))


_FILLED = {
    "boolean": False,
    "integer": 1,
    "number": 1,
}


async def capture(command: Sequence[str]) -> _Captured:
    """Run this command line with a model of ours. Raises UsageError if it sends no request."""
    path = shutil.which(command[0])
    if path is None:
        raise UsageError(f"{command[0]}: no such program on PATH: install it, or name its path")
    name = Path(command[0]).name
    name = NAMES.get(name, name)
    script = Script(programs().get(name), _Captured(name, await version_of(path)))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, limit=1 << 23)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        words = [path, *command[1:], *options(name, url)]
        last_line = await _run(words, script, url)
        while script.wants and script.gave_up():  # as some do when nobody answers a question
            await _run(words, script, url)
    if script.wants:
        done = len(script.done)
        raise UsageError(
            f"{name} was silent after {done} of {done + len(script.wants)} calls that were asked "
            "of it: try again where the machine is less busy"
        )
    if not script.captured.tools:
        raise UsageError(
            f"{name} asked us nothing with a shell among its tools: it may ignore the base URL, "
            f"ask for a login, or name a model itself (write {URL} where it takes a URL){last_line}"
        )
    script.captured.calls = tuple(script.done)
    return script.captured


async def _run(words: Sequence[str], script: Script, url: str) -> str:
    """Return its last words.

    A program that requests nothing more is ended: it may wait for somebody, or hang.
    """
    argv = [word.replace(URL, f"{url}/v1") for word in words]
    script.begun()
    with TemporaryFile() as talk:  # what it leaves running would hold a pipe open
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={**foreign_environment(os.environ), **environment(url)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=talk,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.returncode is None and not script.waited_enough:
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), LOOKS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it started
            await process.wait()
        talk.seek(0)
        last = talk.read().decode(errors="replace").strip().splitlines()[-1:]
    if script.waited_enough and not script.captured.tools:
        raise UsageError(
            f"{script.captured.name} asked us nothing in {FIRST:g} s: name a way of it that asks "
            "nobody, such as `opencode run`, `claude -p`, `codex exec`"
        )
    return f": {last[0][:200]}" if last else ""


# The capture as an arm.

RULES: Final = re.compile(r'\[\{"permission".*\}\]', re.DOTALL)
_CODE: Final = re.compile(r"((?:exited with code|Exit code|Exit Code:|<returncode>)\s*)\d+")
_FAILED: Final = re.compile(r"ls: [^\n]*no-such-folder-of-agenteval[^\n]*\n?")
_RAN: Final = re.compile(rf"{SAID}\n?")
_SLOT: Final = "\0{}\0"  # where a value stood, until all braces of the text are doubled


def captured(command: Sequence[str], name: str | None, rules: str | None) -> Iterator[str]:
    """Capture a harness and write its arm; yield the findings, a line each. Raises UsageError."""
    policy = load_any(rules, roots=roots()) if rules else None
    harness = asyncio.run(capture(command))
    arm = name or f"captured/{harness.name}"
    path = Path(ARMS, f"{arm}.toml")
    if path.exists():
        raise UsageError(f"{path} is there already: move it away, or give another --name")
    _check_output(harness)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _arm_file(harness, day=f"{datetime.now(UTC):%Y-%m-%d}", here=str(Path.cwd()))
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
    """Raises UsageError where what ran shows no output: models would never read any either."""
    for call in harness.calls:
        if _kind(call) == "ran" and SAID not in call.reply:
            last = (call.reply.strip().splitlines() or ["nothing"])[-1]
            raise UsageError(
                f"{harness.name} ran `echo {SAID}` and showed no output of it, but: {last[:200]}. "
                "Its own sandbox may not work here: have it run one command by itself first, then "
                "capture it"
            )


def _arm_file(harness: _Captured, *, day: str, here: str) -> str:
    """The arm as a file of arms/: a model reads there what the harness sent, word for word.

    But for the folder that it was started in: trials play in their own.
    """
    forms = harness.forms
    own = {tool: STRICT.profile.forms[tool] for tool in ("read", "write") if tool not in forms}
    tools = {tool: _tool(form) for tool, form in {**own, **forms}.items()}
    offered = {form.name for form in forms.values()}
    not_offered = [name for name in harness.tool_names if name not in offered]
    label = f"{harness.name} {harness.version}"
    summary = f"{label}, captured {day}: its prompt, its tools and replies"
    if not_offered:
        summary += f"; not offered: {', '.join(not_offered)}"
    arm = {
        "version": 1,
        "summary": summary,
        "words": label.strip(),
        "rules": "none",
        "frame": _raw("\n\n".join(harness.system).replace(here, "/workspace")),
        "extras": [tool for tool in forms if tool not in {"bash", "read", "write"}],
        "engine": harness.name if harness.name in dialects() else "",
        "texts": _texts(harness),
        "tools": tools,
    }
    return tomli_w.dumps(arm, multiline_strings=True)


def _raw(text: str) -> str:
    """Return a template that renders to this text, also if it contains template syntax."""
    kept = re.sub(r"\{%(?=[-+]?\s*endraw)", "{% endraw %}{{ '{%' }}{% raw %}", text)
    return f"{{% raw %}}{kept}{{% endraw %}}"


def _tool(form: Form) -> dict[str, Any]:
    parameters = [{"name": part.name, "meaning": part.meaning} for part in form.parameters]
    tool = {
        "name": form.name,
        "description": form.description,
        "parameters": parameters,
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
    texts = asdict(dialect.profile.texts if dialect else STRICT.profile.texts)
    return texts | dict(_recorded_texts(harness))


def _recorded_texts(harness: _Captured) -> Iterator[tuple[str, str]]:
    for call in reversed(harness.calls):  # the first of a kind counts
        tool = harness.forms[call.tool].name if call.tool else "no_such_tool"
        command = str((call.arguments or {"command": call.raw}).get("command", ""))
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
    return _KINDS.get(str((call.arguments or {}).get("command", "")), "")


_KINDS = {
    f"echo {SAID}": "ran",
    "true": "empty",
    "ls /no-such-folder-of-agenteval": "failed",
}


def _listless(text: str, names: Sequence[str]) -> str:
    """A text with a place where it lists the tools: a trial may offer fewer of them."""
    name = "|".join(sorted(map(re.escape, {*names, "invalid"}), key=len, reverse=True))
    return re.sub(rf"\b(?:{name})(?:, (?:{name})\b)+", _SLOT.format("tools"), text)


def _template(text: str, values: Mapping[str, str]) -> str:
    """A text with the names of these values where they stand, as `str.format` takes it."""
    text = RULES.sub(_SLOT.format("rules"), text)
    for name, value in values.items():
        if len(value) > 1:
            text = text.replace(value, _SLOT.format(name))
    return _closed(text)


def _measured(text: str, command: str) -> str:
    """With places for what a command gave, and for itself where it is told behind a colon."""
    repeated = rf"(?m)(?<=: ){re.escape(command)}$"
    text = re.sub(repeated, _SLOT.format("command"), text, count=1)
    for pattern in (_RAN, _FAILED):
        text = pattern.sub(_SLOT.format("output"), text, count=1)
    return _closed(_CODE.sub(rf"\1{_SLOT.format('code')}", text))


def _closed(text: str) -> str:
    doubled = text.replace("{", "{{").replace("}", "}}")
    return re.sub("\0([a-z]+)\0", r"{\1}", doubled)


def _compare(calls: Sequence[_Provoked], rules: Policy | None) -> Iterator[str]:
    """Yield a line for each provoked call: what the harness did, and our engine's verdict."""
    for call in calls:
        command = (call.arguments or {}).get("command") or call.raw
        did = call.did or ("ended" if call.reply == ENDED else "answered")
        if rules is None or call.did is None or not call.tool:
            yield f"  {did:8} {command}"
            continue
        allowed = judge.judge(ToolCall("", call.tool, call.raw, call.arguments), rules).allowed
        difference = ""
        if allowed != (call.did is Did.RAN):
            difference = f"  DIFFERS: ours {'allows' if allowed else 'denies'} it"
        yield f"  {did:8} {command}{difference}"
