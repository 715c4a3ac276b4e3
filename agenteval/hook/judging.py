"""The verdict on a call in production: what a harness sent, by whose policy, what the model reads.

First the payloads that each harness sends of a call, and the form of an answer that it takes; then
the log of what agents asked for, a line of JSON a call (docs/hook.md has its keys); then `Judging`,
which answers a client, and `decide`. Only the log, and the transcript of Claude Code that alone
names its model, touch files.
"""

import contextlib
import fcntl
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final

from agenteval.classes.catalogue import TAXONOMY_VERSION
from agenteval.classes.failure_class import as_fault
from agenteval.classes.judge import deny, judge
from agenteval.config.allowlists import files_of, load_any
from agenteval.config.trust import roots
from agenteval.errors import UsageError
from agenteval.hook.tool_inputs import Effect, Reading, canonical, command_of, read_call
from agenteval.policy.command_lines import PathRules
from agenteval.policy.policy import READ, WRITE, Policy, World, path_argument
from agenteval.serving.bounds import Repeats
from agenteval.trial.call import BASH, Denied, ToolCall, Verdict
from agenteval.trial.redaction import KEYS, KnownKeys, Redactor, secrets_of
from agenteval.trial.text import is_json, visible

# Bytes of a transcript in which the model that speaks is looked for
TAIL: Final = 1 << 16


class _UnreadableCallError(ValueError):
    """The payload is no call of that harness."""


@dataclass(frozen=True, slots=True)
class _HookedCall:
    """A call that a harness sent, and what it would do; `arguments` are the harness's own."""

    reading: Reading
    root: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    agent: str = ""
    model: str = ""
    cwd: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Exit code, standard output and standard error of the client."""

    code: int = 0
    out: str = ""
    err: str = ""


@dataclass(frozen=True, slots=True)
class Harness:
    """The wire form of a harness.

    `read` takes a payload and the client's variables; `denied` puts a reason in the harness's form.
    """

    read: Callable[[bytes, Mapping[str, str]], _HookedCall]
    denied: Callable[[str], Answer]


# The keys of a payload: of the tool, its input, the call, the session and the agent.
_HOOK: Final = ("tool_name", "tool_input", "tool_use_id", "session_id", "agent_type")
_PLUGIN: Final = ("tool", "args", "call", "session", "agent")


def _read_hook(payload: bytes, variables: Mapping[str, str]) -> _HookedCall:
    """Read what Claude Code and Codex send; the root is where the session began."""
    sent = _object(payload)
    cwd = str(sent.get("cwd") or variables["cwd"])
    root = variables.get("CLAUDE_PROJECT_DIR") or cwd
    hooked = _hooked(sent, _HOOK, cwd, root)
    return replace(hooked, model=hooked.model or _last_model(sent.get("transcript_path")))


def _read_plugin(payload: bytes, variables: Mapping[str, str]) -> _HookedCall:
    """Read what our plug-in of OpenCode sends."""
    sent = _object(payload)
    root = str(sent.get("directory") or variables["cwd"])
    cwd = str(_arguments(sent.get("args")).get("workdir") or root)
    return _hooked(sent, _PLUGIN, cwd, root)


def _hooked(
    sent: Mapping[str, Any],
    keys: Sequence[str],
    cwd: str,
    root: str,
) -> _HookedCall:
    tool, arguments, *names = (sent.get(key) for key in keys)
    if not isinstance(tool, str):
        raise _UnreadableCallError(f"it has no {keys[0]}")
    call, session, agent, model = (str(name or "") for name in (*names, sent.get("model")))
    tool_input = _arguments(arguments)
    reading = read_call(call, tool, tool_input, cwd, root)
    return _HookedCall(reading, root, tool_input, session, agent, model, cwd)


def _guarded(payload: bytes, variables: Mapping[str, str]) -> _HookedCall:
    """Read the words of a shell: a command behind -c, and nothing that makes it something else."""
    words = payload.decode("utf-8", "surrogateescape").split("\0")
    command = command_of(words[1:])
    if command is None:
        raise _UnreadableCallError(
            "a guarded shell takes one command behind -c, and neither a script, nor what comes on "
            "its standard input"
        )
    cwd = variables["cwd"]
    arguments = {"command": command}
    reading = replace(read_call("", BASH, arguments, cwd, cwd), tool=words[0])
    return _HookedCall(reading, cwd, arguments, cwd=cwd)


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        sent = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise _UnreadableCallError(f"it is no JSON: {error}") from error
    if not isinstance(sent, dict):
        raise _UnreadableCallError("it is no JSON object")
    return sent


def _arguments(sent: object) -> Mapping[str, Any]:
    """Return the input of a tool; one that is no table stands under `input`."""
    if isinstance(sent, dict):
        return sent
    return {} if sent is None else {"input": sent}


def _last_model(transcript: object) -> str:
    """Return the model of the last reply in a session of Claude Code: its hook does not get it."""
    if not isinstance(transcript, str):
        return ""
    try:
        with Path(transcript).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().splitlines()
    except (OSError, ValueError):  # ValueError: it is no path
        return ""
    for line in reversed(lines):
        if b'"assistant"' not in line:
            continue
        try:
            return str(json.loads(line)["message"]["model"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return ""


def _decided(reason: str) -> Answer:
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return Answer(out=json.dumps({"hookSpecificOutput": output}))


HARNESSES: Final[Mapping[str, Harness]] = {
    "claude-code": Harness(_read_hook, _decided),
    "codex": Harness(_read_hook, _decided),
    "opencode": Harness(_read_plugin, lambda reason: Answer(2, err=reason)),
    # What a shell says of a command that it may not run.
    "guard": Harness(_guarded, lambda reason: Answer(126, err=f"{reason}\n")),
}

LOG: Final = "calls.jsonl"
FORMAT: Final = 1
# The verdict where no policy stands for that tool
NOT_JUDGED: Final = "not-judged"
# Bytes of a log before the next is begun
MOST: Final = 16 << 20
# Older logs
KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class ProductionLog:
    """A log file of one user and the older ones next to it: calls.jsonl.1 is the newest of them.

    It has at most so many bytes, and so many older ones.
    """

    path: Path
    most: int = MOST
    most_older: int = KEPT

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line. Where that cannot be, a verdict is answered all the same."""
        try:
            self._append(line)
        except (OSError, ValueError, RecursionError):
            tell_fault()

    def _append(self, line: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        stamped = {"v": FORMAT, "at": now.replace("+00:00", "Z"), **line}
        text = json.dumps(stamped, separators=(",", ":"))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Path(f"{self.path}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._turn_over(len(text) + 1)
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            # In one piece: a reader sees no half of a line
            with os.fdopen(file, "wb", buffering=0) as log:
                log.write(f"{text}\n".encode())

    def _turn_over(self, more: int) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size + more <= self.most:
            return
        for number in range(self.most_older - 1, 0, -1):
            older = Path(f"{self.path}.{number}")
            if older.exists():
                older.replace(f"{self.path}.{number + 1}")
        self.path.replace(f"{self.path}.1")

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """Yield all that is kept, the oldest first; a line that is none is left out."""
        older = [Path(f"{self.path}.{number}") for number in range(self.most_older, 0, -1)]
        for path in (*older, self.path):
            if not path.is_file():
                continue
            with path.open(encoding="utf-8", errors="replace") as file:
                for text in file:
                    with contextlib.suppress(ValueError, RecursionError):
                        line = json.loads(text)
                        if isinstance(line, dict):
                            yield line


_REPEATS: Final = Repeats()


def tell(line: str) -> None:
    """Write a line to resident.err, if that is not full: once a minute while it repeats."""
    text = _REPEATS.line(line)
    if text:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 -- the resident's own log


def tell_fault() -> None:
    """Write the current exception to resident.err, as `tell` does."""
    tell(traceback.format_exc().rstrip())


Line = dict[str, Any]
# Characters of an argument in the log; of longer ones it has the begin
LONGEST: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class _HookOptions:
    """The options of an installation, from the client's command line."""

    harness: str
    allowlist: str
    observe: bool = False
    is_open: bool = False
    log: str = ""


def _parse_options(words: Sequence[str]) -> _HookOptions:
    """Parse the client's words. Raises ValueError for words that no installation of ours has."""
    options = {}
    queue = list(words)
    while queue:
        name = queue.pop(0)
        if name == "--observe":
            options[name] = "yes"
        elif name in {"--for", "--allowlist", "--fail", "--log"} and queue:
            options[name] = queue.pop(0)
        else:
            raise ValueError(f"unknown word {name!r} in the hook's command")
    if options.get("--for") not in HARNESSES or not options.get("--allowlist"):
        raise ValueError(f"expected --allowlist FILE and --for one of {', '.join(HARNESSES)}")
    return _HookOptions(
        options["--for"],
        options["--allowlist"],
        observe="--observe" in options,
        is_open=options.get("--fail") == "open",
        log=options.get("--log", ""),
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a call. Without a verdict nothing was judged, and `effect` gives the reason.

    `denial` is what the model reads where the hook enforces; "" of a call that goes on.
    """

    verdict: Verdict | None
    denial: str = ""
    effect: Effect = Effect.JUDGED


@dataclass(slots=True)
class _Loaded:
    policy: Policy
    files: tuple[Path, ...]
    stamps: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class Judging:
    """The judge of calls. A policy whose file has changed is read again, which the log records."""

    folder: Path
    loaded: dict[str, _Loaded] = field(default_factory=dict)
    keys: KnownKeys = field(default_factory=lambda: KnownKeys.of(secrets_of(os.environ)))
    # Tree-sitter's parser is one
    turn: Lock = field(default_factory=Lock)

    def reply(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        payload: bytes,
    ) -> Answer:
        """Return the answer to a client, once its line is in the log if it can be."""
        try:
            asking = _parse_options(words)
        except ValueError as error:
            return Answer(2, err=f"agenteval hook: {error}: install it again\n")
        start = time.perf_counter()
        with self.turn:
            answer, lines = self.answer(asking, variables, payload)
        lines[-1]["ms"] = round((time.perf_counter() - start) * 1000, 2)
        log = ProductionLog(Path(asking.log or self.folder / LOG))
        for line in lines:
            log.write(Redactor(KEYS, self.keys).value(line))
        # It quotes what a model wrote, and may be read at a terminal; JSON on `out` is escaped.
        return replace(answer, err=visible(answer.err))

    def answer(
        self, asking: _HookOptions, variables: Mapping[str, str], payload: bytes
    ) -> tuple[Answer, list[Line]]:
        """Return the answer to a client, and the lines for the log.

        What keeps us from judging is answered as the hook was installed.
        """
        lines: list[Line] = []
        try:
            return self._judged(asking, variables, payload, lines), lines
        except (UsageError, _UnreadableCallError) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 -- without an answer, a call may go on unseen
            tell_fault()
            why = f"{type(error).__name__}: {error}"
        lines.append({"event": "unreadable", "harness": asking.harness, "reason": why})
        return _unjudged(asking, HARNESSES[asking.harness], why), lines

    def _judged(
        self, asking: _HookOptions, variables: Mapping[str, str], payload: bytes, lines: list[Line]
    ) -> Answer:
        harness = HARNESSES[asking.harness]
        policy = self._policy(asking, lines)
        hooked = harness.read(payload, variables)
        decision = self._decision(hooked, policy)
        answer = Answer()
        if decision.denial and not asking.observe:
            answer = harness.denied(decision.denial)
        lines.append(_line(asking, hooked, policy, decision))
        return answer

    def _decision(self, hooked: _HookedCall, policy: Policy) -> Decision:
        """Deny a file tool our own files, and decide all else by the policy."""
        for call in hooked.reading.calls:
            if call.name == WRITE and self._is_ours(call, hooked):
                closed = replace(policy, write=PathRules())
                return _judged(deny(call, closed, World(root=hooked.root)), closed)
        return decide(hooked.reading, policy, hooked.root)

    def _is_ours(self, call: ToolCall, hooked: _HookedCall) -> bool:
        """Return True if a file tool would write what the hook goes by, or what it keeps.

        A path that cannot be resolved counts as ours.
        """
        try:
            path = Path(hooked.root, path_argument(call.arguments or {}) or "").resolve()
        except (OSError, ValueError, RuntimeError):
            return True
        files = [file.resolve() for one in self.loaded.values() for file in one.files]
        return path in files or path.is_relative_to(self.folder.resolve())

    def _policy(self, asking: _HookOptions, lines: list[Line]) -> Policy:
        """Return the policy of an allow list.

        Raises UsageError if it cannot be read as it is now.
        """
        loaded = self.loaded.get(asking.allowlist)
        if loaded and loaded.stamps == _stamps(loaded.files):
            return loaded.policy
        places = roots(Path(asking.allowlist).parent)
        files = tuple(files_of(asking.allowlist, places))
        seen = _stamps(files)
        policy = load_any(asking.allowlist, roots=places)
        self.loaded[asking.allowlist] = _Loaded(policy, files, seen)
        was = loaded.policy.digest if loaded else ""
        if was != policy.digest:
            change = {"file": asking.allowlist, "digest": policy.digest, "was": was}
            lines.append({"event": "policy", **change})
        return policy


def _stamps(files: Sequence[Path]) -> tuple[tuple[int, int, int], ...]:
    """Return time, size and inode of each file. Raises UsageError for a file that is gone."""
    stamps = []
    for file in files:
        try:
            status = file.stat()
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
        stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


def _unjudged(asking: _HookOptions, harness: Harness, why: str) -> Answer:
    if asking.is_open or asking.observe:
        # A guarded shell runs its command then, and a harness goes on at any code but 2
        code = 0 if asking.harness == "guard" else 1
        return Answer(code, err=f"agenteval: not judged: {why}\n")
    return harness.denied(f"agenteval cannot judge this call, so it is denied: {why}")


def reason(verdict: Denied, policy: Policy) -> str:
    """Return the text that the model reads: the class, the part at fault, and the cure."""
    finding = verdict.primary
    part = finding.evidence.text.strip()
    at = f": `{part[:200]}`" if part else ""
    start = f"Denied by the allow list {policy.name} ({finding.failure_class}){at}."
    return f"{start} {finding.hint}".strip()


def decide(reading: Reading, policy: Policy, root: str) -> Decision:
    """Decide on a call as it was read: by the rules for what it does, or by its tool's name."""
    listed_name = _listed(reading.name, policy) if reading.own else ""
    if reading.own is None or not listed_name:
        return _unlisted(reading, policy, root)
    own = _judged(
        judge(
            replace(reading.own, name=listed_name),
            policy,
            World(root=root),
        ),
        policy,
    )
    if own.denial or _opens_all(listed_name, policy):
        return own
    # The harness has the tool, and nobody named it for what it carries.
    if reading.effect is Effect.UNREADABLE:
        return own if listed_name == _POWERSHELL else _unknown(reading, policy)
    return _of_calls(reading, policy, root) if reading.calls else own


def _unlisted(reading: Reading, policy: Policy, root: str) -> Decision:
    """Decide on a call by what it does; whatever else it may do is denied as unknown."""
    decision = _of_calls(reading, policy, root) if reading.calls else _unknown(reading, policy)
    if decision.denial or reading.effect is not Effect.UNKNOWN:
        return decision
    unknown = _unknown(reading, policy)
    return unknown if unknown.denial else decision


# Has rules of its own in Claude Code's settings
_POWERSHELL: Final = "powershell"


def _opens_all(listed_name: str, policy: Policy) -> bool:
    """Return True if a list names a tool itself.

    Its own tables do; another harness's list does so only by a rule.
    """
    return policy.engine is None or listed_name not in policy.tools


def _of_calls(reading: Reading, policy: Policy, root: str) -> Decision:
    """Return the first denial of what a call does; without rules for files reads have no effect."""
    decision = Decision(None, effect=Effect.NONE)
    for call in reading.calls:
        if call.name != BASH and policy.tool(call.name) is None:
            if call.name == READ or policy.other_tools == "pass":
                continue
            return _unknown(replace(reading, effect=Effect.UNKNOWN), policy)
        decision = _judged(judge(call, policy, World(root=root)), policy)
        if decision.denial:
            break
    return decision


def _judged(verdict: Verdict, policy: Policy) -> Decision:
    return Decision(verdict, reason(verdict, policy) if isinstance(verdict, Denied) else "")


def _unknown(reading: Reading, policy: Policy) -> Decision:
    """Decide on a call that no rule is about: only a known tool without effect passes."""
    is_open = reading.effect is Effect.UNKNOWN and policy.other_tools == "pass"
    if is_open or reading.effect is Effect.NONE:
        return Decision(None, effect=reading.effect)
    why = reading.reason or "this tool is not in the list"
    denial = (
        f"Denied as {reading.effect} by the allow list {policy.name}: {as_fault(reading.tool)}: "
        f"{why}. {_cure(reading, policy)}"
    )
    return Decision(None, denial.strip(), reading.effect)


def _cure(reading: Reading, policy: Policy) -> str:
    """Return how the list's owner can allow such a call; "" if nothing does."""
    if any(call.name == WRITE for call in reading.calls):
        return 'Its owner can allow file tools there: [write] with allow = ["**"].'
    if reading.own is None:
        return ""
    if policy.engine is not None:
        return "Its owner can allow it there by a rule for that tool."
    cure = f"Its owner can allow it there: [tools.{json.dumps(reading.name)}]"
    if reading.effect is Effect.UNKNOWN:
        cure = f'{cure}, or all such tools: other_tools = "pass"'
    return f"{cure}."


def _listed(name: str, policy: Policy) -> str:
    """Return the list's own spelling of a tool's name; "" for a tool that is not in it."""
    own = (tool for tool in policy.tools if canonical(tool) == name)
    # The engine of another harness knows tools by its rules
    return next(own, name if policy.engine and policy.tool(name) else "")


def _line(asking: _HookOptions, hooked: _HookedCall, policy: Policy, decision: Decision) -> Line:
    verdict = decision.verdict
    line: Line = {
        "harness": asking.harness,
        "session": hooked.session,
        "agent": hooked.agent,
        "model": hooked.model,
        "cwd": hooked.cwd,
        "tool": hooked.reading.tool,
        "call": hooked.reading.id,
        "arguments": _logged_arguments(hooked.arguments),
        "mode": "observe" if asking.observe else "enforce",
        "verdict": NOT_JUDGED,
        "policy": policy.name,
        "digest": policy.digest,
        "taxonomy": TAXONOMY_VERSION,
    }
    if verdict is None:
        return line | {"effect": decision.effect, "ran": asking.observe or not decision.denial}
    line["verdict"] = "allowed" if verdict.allowed else "denied"
    if isinstance(verdict, Denied):
        finding = verdict.primary
        line |= {
            "class": finding.failure_class,
            "evidence": finding.evidence.text,
            "hint": finding.hint,
            "facets": list(finding.facets),
            "ran": asking.observe,
        }
    return line


def _logged_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments for the log: a long text is cut, and the length of the rest is added."""
    logged: dict[str, Any] = {}
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) <= LONGEST:
            logged[name] = value if is_json(value) else text
        else:
            logged[name] = text[:LONGEST]
            logged[f"{name}:cut"] = len(text) - LONGEST
    return logged
