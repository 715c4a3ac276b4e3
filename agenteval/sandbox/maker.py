"""Prompts and databases, made in a confined child: the evaluator interprets no stranger's text.

Templates of scenarios, fixtures and arms, a database's script, and every query to a fresh database
run there. The child is one for the whole evaluator; too large a request ends it, and the next
request starts another. Its answers have a declared type, and are bounded.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import MsgspecError
from msgspec.msgpack import decode as _decode

from agenteval.errors import HostError, UsageError
from agenteval.prompt.prompt import DEFAULT, Prompt, Setting, Variables, lengthened
from agenteval.sandbox.inside import wire
from agenteval.sandbox.maker_child import CPU_SECONDS, LARGEST, SPENT, Sent
from agenteval.trial.text import Chance, Value
from agenteval.trial.trial import Agent, Answer, Scenario, Schema

WALL_SECONDS = 30.0  # on a busy machine the CPU time ends it long before
_START_SECONDS = 60.0
_HEAD = 16_000  # bytes of a fault's text
_AT_ONCE = 16  # scenarios in a question: each has the time of one for all
_REMEMBERED = 512  # scenarios, agents and settings that a child holds
_PROGRAM = """\
import sys
fd, *sys.path = int(sys.argv[1]), *sys.argv[2:]
from agenteval.sandbox.maker_child import main
main(fd)
"""


class MakerError(UsageError, ValueError):
    """The author's fault: one line names what is wrong with a template, a script or a query."""


class TemplateError(MakerError):
    """A template that cannot be filled, or takes too much."""


class WorldError(MakerError):
    """A fixture's world.sql that makes no database, or takes too much."""


_KINDS: Mapping[str, type[MakerError]] = {
    "template": TemplateError,
    "world": WorldError,
    "value": MakerError,
}


class _Maker:
    """The child of this process; `layers` are what confines it, once it runs.

    `_sent` are the values that it holds, with their numbers there, by their ids.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._peer: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._sent: dict[int, tuple[int, object]] = {}
        self.layers: tuple[str, ...] = ()

    def ask(self, act: str, kind: str, *arguments: object) -> bytes:
        """Return the result of an act: a database, or another value as msgpack.

        Raises MakerError.
        """
        with self._lock:
            peer = self._started()
            is_answered = False
            try:
                peer.sendall(self._request(act, arguments))
                head, body = _receive(peer)
                fault, text = _decode(head, type=tuple[str, str])
                # A child whose memory is spent ends by itself.
                is_answered = text != SPENT
            except TimeoutError:
                raise _KINDS[kind](f"it takes more than {WALL_SECONDS:g} s") from None
            except (OSError, EOFError, ValueError):
                raise self._fault(kind) from None
            finally:
                # Half an answer would be taken for that to the next question.
                if not is_answered:
                    self.stop()
        if fault:
            error = _KINDS.get(fault, MakerError)
            raise error(" ".join(text.split()))
        return body

    def _request(self, act: str, arguments: Sequence[object]) -> bytes:
        """Return the frame of a request, in which a value that the child holds is a number."""
        fresh: dict[int, object] = {}
        words: list[object] = []
        for value in arguments:
            if not isinstance(value, Scenario | Agent | Setting):
                words.append(value)
                continue
            if id(value) not in self._sent:
                number = len(self._sent)
                # As long as it lives, nothing else has its id.
                self._sent[id(value)] = number, value
                fresh[number] = _without_earlier_tasks(value)
            number, _ = self._sent[id(value)]
            words.append(Sent(number))
        content = pickle.dumps((fresh, act, words), pickle.HIGHEST_PROTOCOL)
        return wire.frame(content, b"")

    def _started(self) -> socket.socket:
        """Return the socket to the child; start one if there is none, or only a parent's."""
        if self._peer is not None and self._is_usable():
            return self._peer
        self.stop()
        # Where this process finds its packages: absolute folders, so not the working folder.
        folders = filter(os.path.isabs, sys.path)
        own_end, peer = socket.socketpair()
        with peer:
            number = peer.fileno()
            words = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(number)]
            self._process = subprocess.Popen(
                [*words, *folders],
                cwd="/",
                env={"LANG": "C.UTF-8"},
                pass_fds=(number,),
                start_new_session=True,  # Ctrl-C is for the evaluator
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=number,  # until it serves: why it cannot
            )
        self._peer = own_end
        self._owner = os.getpid()
        weakref.finalize(own_end, _kill, self._process)
        self._greet(own_end)
        return own_end

    def _is_usable(self) -> bool:
        if self._owner != os.getpid() or len(self._sent) >= _REMEMBERED:
            return False
        return self._process is not None and self._process.poll() is None

    def _greet(self, peer: socket.socket) -> None:
        """Raise HostError if the child does not begin."""
        peer.settimeout(_START_SECONDS)
        try:
            layers, _ = _receive(peer)
            self.layers = _decode(layers, type=tuple[str, ...])
        except (OSError, EOFError, ValueError) as error:
            reason = _complaint(peer) or self._end()
            self.stop()
            raise HostError(
                f"the process in which worlds are made cannot start ({reason}): free memory or "
                "raise the limits of this shell (ulimit -a), and ask again"
            ) from error
        peer.settimeout(WALL_SECONDS)

    def _fault(self, kind: str) -> MakerError | HostError:
        """Return the error for a child that ended: the author's, unless somebody killed it."""
        reason = self._end()
        code = self._process.returncode if self._process else None
        # Its own limits end it by other signals.
        if code != -signal.SIGKILL:
            return _KINDS[kind](reason)
        return HostError(
            "the process in which worlds are made was killed (signal 9), as by a kernel that is "
            "out of memory: make room and ask again; a run goes on with --resume"
        )

    def _end(self) -> str:
        """Return why the child ended."""
        process = self._process
        if process is None:
            return "it is gone"
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        code = process.returncode
        if code == -signal.SIGPROF:
            return f"it takes more than {CPU_SECONDS:g} s of CPU time"
        cause = f"exit code {code}"
        if code is not None and code < 0:
            cause = f"signal {-code}"
        return f"it ends the process that is to make it ({cause})"

    def stop(self) -> None:
        """End the child; the next request starts another."""
        if self._peer is not None:
            self._peer.close()
        if self._process is not None and self._owner == os.getpid():
            _kill(self._process)
        self._peer = self._process = None
        self._sent = {}


def _without_earlier_tasks(value: object) -> object:
    """Return the value without the tasks that were played before, which the child does not need."""
    if isinstance(value, Setting):
        return Setting(value.arm, value.rules, value.rules_name, value.place)
    return value


def _complaint(peer: socket.socket) -> str:
    """Return the last line that a child wrote instead of a greeting."""
    peer.settimeout(1)
    text = b""
    with suppress(OSError):
        while len(text) < 1 << 16:
            part = peer.recv(4096)
            if not part:
                break
            text += part
    lines = text.decode("utf-8", "replace").strip()
    return lines.rpartition("\n")[2]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        process.kill()
    process.wait()


def _receive(peer: socket.socket) -> tuple[bytes, bytes]:
    """Return a frame of the child. Raises EOFError, OSError, and ValueError if it is too large."""
    head, body = wire.lengths(_exactly(peer, wire.HEADER))
    if head > _HEAD or body > LARGEST:
        raise ValueError("a frame beyond what is taken")
    return _exactly(peer, head), _exactly(peer, body)


def _exactly(peer: socket.socket, count: int) -> bytes:
    content = bytearray(count)
    rest = memoryview(content)
    while rest:
        size = peer.recv_into(rest)
        if not size:
            raise EOFError
        rest = rest[size:]
    return bytes(content)


_MAKER = _Maker()
Result = TypeVar("Result")


def _call(result: type[Result], act: str, kind: str, *arguments: object) -> Result:
    """Return the result, of this type. Raises MakerError, of this kind if the child just ended."""
    answer = _MAKER.ask(act, kind, *arguments)
    try:
        return _decode(answer, type=result)
    except MsgspecError as error:
        raise _KINDS[kind](f"the confined child's answer is none ({error})") from error


def confined_by() -> tuple[str, ...]:
    """Return the layers that confine the child on this machine, found out by using it."""
    forget()
    return _MAKER.layers


def forget() -> None:
    """Have every database made anew, so that a check sees if it comes out the same."""
    _MAKER.ask("forget", "value")


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Return `text` filled as a template. Raises TemplateError."""
    if "{" not in text:
        return text
    return _call(str, "fill", "template", text, values)


def rules_for(setting: Setting, tools: Sequence[str]) -> str:
    """Return the rules as a model reads them whose scenario offers these tools of ours."""
    return _call(str, "rules_for", "template", setting, tools)


def variables(scenario: Scenario, seed: int) -> Variables:
    """Return all that the templates of this scenario may name, for the trial with this seed."""
    return _call(dict[str, Value], "variables", "value", scenario, seed)


def database(scenario: Scenario, seed: int) -> bytes:
    """Return the SQLite file that the fixture's script makes. Raises WorldError."""
    return _MAKER.ask("database", "world", scenario, seed)


def render(scenario: Scenario, seed: int, setting: Setting = DEFAULT) -> Prompt:
    """Return the scenario as the trial with this seed sees it.

    Raises MakerError; for a scenario that `config.scenario_files` loaded, only where it makes
    another world the second time.
    """
    return _call(Prompt, "render", "template", scenario, seed, setting)


def render_all(scenarios: Sequence[Scenario], seed: int) -> tuple[Prompt, ...]:
    """Render each of the scenarios, in fewer questions to the child."""
    prompts: list[Prompt] = []
    for at in range(0, len(scenarios), _AT_ONCE):
        batch = scenarios[at : at + _AT_ONCE]
        prompts += _call(tuple[Prompt, ...], "render_all", "template", seed, *batch)
    return tuple(prompts)


def posed(scenario: Scenario, seed: int, setting: Setting) -> Prompt:
    """Return the scenario as the trial with this seed reads it, in the configured length."""
    prompt = render(scenario, seed, setting)
    return lengthened(prompt, scenario, setting, Chance(f"{scenario.name}/{seed}//context"))


def render_agent(agent: Agent, values: Variables, setting: Setting = DEFAULT) -> Prompt:
    """Render a sub-agent's first prompt, by the trial's variables and those of the row."""
    return _call(Prompt, "render_agent", "template", agent, values, setting)


def requested(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    values: Variables,
) -> tuple[str, ...]:
    """Return the columns of a request for this agent; a fresh database must yield no row."""
    return _call(tuple[str, ...], "requested", "value", scenario, agent, seed, values)


def outline(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    values: Variables,
    setting: Setting = DEFAULT,
) -> Prompt:
    """Render an agent's prompt with the name of a column where its value will stand."""
    return _call(Prompt, "outline", "template", scenario, agent, seed, values, setting)


def recognised(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    trial_variables: Variables,
    transcript: str,
) -> Prompt | None:
    """Return the prompt of the agent whose task comes last there, by the request that it shows."""
    # No type of one value stands for a union: hence a list of at most one prompt.
    arguments = scenario, agent, seed, trial_variables, transcript
    prompts = _call(list[Prompt], "recognised", "template", *arguments)
    return prompts[0] if prompts else None


@lru_cache(maxsize=4)
def declared(image: bytes) -> Schema:
    """Return the schema of a fixture's own database; () if the image is no database."""
    try:
        return _call(Schema, "schema", "value", image) if image else ()
    except MakerError:
        return ()


def rows(image: bytes, queries: Sequence[str], most: int = 1) -> list[Answer]:
    """Return the answers of a fixture's database, with at most so many rows each.

    Raises MakerError if it is none, or if a query takes too much.
    """
    names = tuple[str, ...]
    values = tuple[tuple[Any, ...], ...]
    replies = list[tuple[names, values, str]]
    answers = _call(replies, "rows", "value", image, queries, most)
    return [Answer(*answer) for answer in answers]
