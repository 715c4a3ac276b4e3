"""The capture of a user's own harness: its request, and its answer to each of our calls.

It runs where the user is, with the user's own agents and settings; only the model is another. The
calls do no harm, whatever the harness's rules let through.
"""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from agenteval.core.prompt.profile import Form, recognised
from agenteval.errors import UsageError
from agenteval.harness.dialogue import Did, text_of
from agenteval.harness.http_server import Answer, Request, UnreadableError, read_request
from agenteval.harness.install import environment, foreign_environment, options, version_of
from agenteval.harness.recipes import PROGRAMS, Program
from agenteval.harness.translation import (
    ModelRequest,
    Passage,
    answer_other_request,
    parse_request,
    say_once,
)

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
class Provoked:
    """A call that we made, its reply to the model, and what became of it."""

    tool: str  # ours; "" for one that there is not
    arguments: Mapping[str, Any] | None
    raw: str
    reply: str = ""
    did: Did | None = None


@dataclass(slots=True)
class Captured:
    """The request of a harness: its messages before the task (`system`) and its own `tools`."""

    name: str
    version: str
    spoken: str = ""
    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[Provoked, ...] = ()

    @property
    def forms(self) -> Mapping[str, Form]:
        """The forms of its tools that are like ours."""
        return recognised(self.tools)


@dataclass(slots=True)
class Script:
    """The model: one provoked call a turn, and then a last word."""

    program: Program | None
    captured: Captured
    wants: list[Provoked] = field(default_factory=list)
    done: list[Provoked] = field(default_factory=list)
    pending: Provoked | None = None  # the call of the last reply
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
        capture, common = self.captured, {"messages", "tools", "stream", "model"}
        capture.spoken = request.spoken.name
        capture.tools = tuple(request.chat["tools"])
        messages = request.messages
        capture.system = tuple(text_of(one) for one in messages if one.get("role") == "system")
        capture.parameters = {name: request.chat[name] for name in request.chat.keys() - common}
        self.wants = list(_provocations(forms))

    def gave_up(self) -> bool:
        """Note that the program ended during the last call; return True if it did."""
        call, self.pending, self.times = self.pending, None, 0
        if call is None:
            return False
        self.wants.remove(call)
        self.done.append(replace(call, reply=ENDED))
        return True

    def _hear(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Record the harness's answer to the last call, if this request shows it."""
        ident = f"capture-{len(self.done)}"
        replies = [text_of(one) for one in messages if one.get("tool_call_id") == ident]
        if replies and self.wants:
            one, self.pending, self.times = self.wants.pop(0), None, 0
            did = self.program.wording.did(replies[-1]) if self.program else None
            made = Provoked(one.tool, one.arguments, one.raw, replies[-1], did)
            self.done.append(made)


def _provocations(forms: Mapping[str, Form]) -> Iterator[Provoked]:
    """Yield the calls to make, by the tools that this harness offers."""
    for command in COMMANDS:
        yield _call(forms, "bash", {"command": command})
    if "read" in forms:
        yield _call(forms, "read", {"path": "/etc/hostname"})
        yield _call(forms, "read", {"path": "no-such-file-of-agenteval"})
    yield Provoked("", {"command": "true"}, '{"command": "true"}')
    yield Provoked("bash", None, BROKEN)
    yield Provoked("bash", {}, "{}")


def _call(forms: Mapping[str, Form], tool: str, arguments: Mapping[str, Any]) -> Provoked:
    """With all that the harness's own schema requires."""
    form = forms[tool]
    values = dict(zip([one.name for one in form.parameters], arguments.values(), strict=False))
    whole = json.loads(form.whole)
    kinds = whole.get("properties", {})
    for name in whole.get("required", ()):
        kind = kinds.get(name, {}).get("type")
        values.setdefault(name, {"boolean": False, "integer": 1, "number": 1}.get(kind, "look"))
    return Provoked(tool, arguments, json.dumps(values))


async def capture(command: Sequence[str]) -> Captured:
    """Run this command line with a model of ours. Raises UsageError if it sends no request."""
    path = shutil.which(command[0])
    if path is None:
        raise UsageError(f"{command[0]}: no such program on PATH: install it, or name its path")
    name = Path(command[0]).name
    name = NAMES.get(name, name)
    script = Script(PROGRAMS.get(name), Captured(name, await version_of(path)))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, limit=1 << 23)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        words = [path, *command[1:], *options(name, url)]
        last_line = await _run(words, script, url)
        while script.wants and script.gave_up():  # as some do when nobody answers a question
            await _run(words, script, url)
    if script.wants:
        done, left = len(script.done), len(script.wants)
        raise UsageError(
            f"{name} was silent after {done} of {done + left} calls that were asked of it: "
            "try again where the machine is less busy"
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
