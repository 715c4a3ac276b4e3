"""The texts that a model reads of its tools: their schemas, and the text after each call.

The words are the arm's (prompt/arm.py); only what a limit says is the same for all.

The file tools: read, write, edit and search, inside the sandbox.

Queries of a trial's sandbox: its SQLite database, read inside the sandbox, and its files.

The world monitor: a trial's sandbox from outside: goal, handshake, requested agents.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO

from agenteval.policy.command_lines import PathRules, path_regex
from agenteval.policy.policy import GLOB, Policy, Quoting, World, path_argument
from agenteval.prompt.arm import Arm, Cut, Profile
from agenteval.prompt.prompt import Prompt, Variables
from agenteval.protocols import Sandbox, ToolSchema
from agenteval.shell.gate import Span
from agenteval.trial.call import (
    BASH,
    BashRun,
    Denied,
    FileEdit,
    FileRead,
    FileSearch,
    FileWrite,
    Runnable,
    ToolCall,
)
from agenteval.trial.text import Value, shortened
from agenteval.trial.trial import (
    Agent,
    Answer,
    Answers,
    Check,
    CodeTest,
    Execution,
    GoalCheck,
    HandshakeStep,
    Limit,
    Limits,
    Question,
    Scenario,
    Schema,
    Trace,
)


def schemas(profile: Profile, tools: Sequence[str]) -> list[ToolSchema]:
    """Return the `tools` of a chat-completions request, for the named tools."""
    return [profile.forms[tool].schema() for tool in tools]


def denial(call: ToolCall, verdict: Denied, arm: Arm, policy: Policy) -> str:
    """Return the text that the model reads when a call is denied. It never names the fix.

    `call` is one of our own tools when its name is one of the policy's.
    """
    finding, profile = verdict.primary, arm.profile
    names = profile.names([tool for tool in policy.tools if tool in profile.forms])
    texts, tool = profile.texts, names.get(call.name, call.name)
    match finding.failure_class:
        case "malformed-arguments" if call.malformed or call.name.strip():
            text = texts.malformed if call.malformed else texts.invalid
        case "malformed-arguments" | "hallucinated-tool":
            text, tool = texts.unknown, call.name  # which may be one of ours, and none of theirs
        case _:
            text = texts.denied if call.name == BASH else texts.denied_path
    return text.format(
        tool=tool,
        tools=", ".join(names.values()),
        command=call.command or path_argument(call.arguments or {}) or call.raw,
        evidence=_faults(verdict),
        reason=call.malformed or _hint(call, finding.hint, profile),
        rules=_rules(call, policy) if "{rules}" in text else "",
        rule=_json([_denying(call.name)])[1:-1] if "{rule}" in text else "",
    )


def _faults(verdict: Denied) -> str:
    """Return all parts at fault, the worst first; a part within another one is not repeated."""
    spans: list[Span] = []
    for finding in verdict.findings:
        evidence = finding.evidence
        if not any(at.start <= evidence.start and evidence.end <= at.end for at in spans):
            spans.append(evidence)
    *others, last = (span.text.strip() for span in spans)
    return f"{'`, `'.join(others)}` and `{last}" if others else last


def _hint(call: ToolCall, hint: str, profile: Profile) -> str:
    return profile.retold(call.name, hint) if call.name in profile.forms else hint


def _rules(call: ToolCall, policy: Policy) -> str:
    """Return the rules for one tool in the form in which OpenCode shows them; the last match wins.

    Read so, a rule of ours may permit what ours denies, as it knows no `&&`: it is left out.
    """
    if isinstance(policy.engine, Quoting):
        return _json(policy.engine.quoted(call.name, call.arguments or {}, World().root))
    allowed = {
        BASH: [
            *(rule.text for rule in policy.bash.patterns),
            *(" ".join((*script.runner, script.path, "*")) for script in policy.bash.scripts),
        ],
        "read": policy.read.allow,
        "write": policy.write.allow,
    }.get(call.name, ())
    subject = call.command or path_argument(call.arguments or {}) or ""
    return _json(
        [
            {"permission": "*", "action": "deny", "pattern": "*"},
            _denying(call.name),
            *(
                {"permission": call.name, "pattern": pattern, "action": "allow"}
                for pattern in allowed
                if not _permits(pattern, subject)
            ),
        ]
    )


def _denying(tool: str) -> Mapping[str, str]:
    return {"permission": tool, "pattern": "*", "action": "deny"}


def _json(rules: Sequence[Mapping[str, str]]) -> str:
    return json.dumps(rules, separators=(",", ":"))


def _permits(pattern: str, subject: str) -> bool:
    """Return True if the pattern, read as one of any text, fits a part of the request."""
    start = pattern.partition("*")[0].rstrip()
    return start in subject


KEPT = 32 << 20  # characters; many times what any model's context holds


@dataclass(slots=True)
class TextBudget:
    """The characters that a trial may still keep: its replies, and the output of its calls.

    If none are left the trial ends; the call that used up the rest loses output.
    """

    remaining: int = field(default_factory=lambda: KEPT)

    def take(self, text: str) -> None:
        self.remaining -= len(text)

    def fitted(self, execution: Execution) -> Execution:
        """Return it as kept. Its output counts twice: as it came, and as a model reads it."""
        fitting = execution.output[: max(0, self.remaining)]
        self.take(2 * fitting)
        is_whole = fitting == execution.output
        return execution if is_whole else replace(execution, output=fitting, cut=True)

    @property
    def outgrown(self) -> str:
        return "" if self.remaining > 0 else "replies and outputs have filled the room of a trial"


SAVED = "/tmp/agent/tool-output/{}.txt"  # noqa: S108 -- outside the workspace, and no real file


def shortened_output(output: str, cut: Cut | None, place: str) -> tuple[str, str]:
    """Return the part of an output that a model is shown; and all of it if it is to be saved."""
    lines = StringIO(output).readlines() if cut else []
    if cut is None or (len(output) <= cut.characters and len(lines) <= cut.lines):
        return output, ""
    if cut.keep == "end":
        end = "".join(lines[-cut.lines :])[-cut.characters :]
        where = f" All of it is in {place}." if cut.saved else ""
        notice = f"[{len(output) - len(end)} characters before this are not shown.{where}]"
        return f"{notice}\n{end}", output if cut.saved else ""
    begin, end = _ends(lines, cut)
    left_out = len(output) - len(begin) - len(end)
    notice = f"\n[{left_out} characters are not shown: use head, tail or grep to see less]\n"
    return f"{begin}{notice}{end}", ""


def _ends(lines: Sequence[str], cut: Cut) -> tuple[str, str]:
    """Return half of what may be shown from the beginning, and half from the end."""
    first = last = lines
    if len(lines) > cut.lines:
        half = cut.lines // 2
        first, last = lines[: cut.lines - half], lines[len(lines) - half :]
    begin, end = "".join(first), "".join(last)
    half = cut.characters // 2
    return begin[:half], end[max(0, len(end) - half) :]


def kept_of(output: str, cut: Cut | None, saved: dict[str, str]) -> str:
    """Return the shown part of an output; all of it is added to `saved` if the notice says so."""
    place = SAVED.format(len(saved) + 1)
    read, rest = shortened_output(output, cut, place)
    if rest:
        saved[place] = rest
    return read


def answer(
    execution: Execution,
    limits: Limits,
    arm: Arm,
    ran: Runnable | None,
    saved: dict[str, str],
) -> str:
    """Return the text that the model reads after a call of `ran`.

    An output of a command that is not shown in full may be added to `saved`.
    """
    output = execution.output
    if isinstance(ran, BashRun):
        output = kept_of(output, arm.cut, saved)
    if execution.cut:
        output += (
            f"\n[output cut here{_line_range(output, ran) if isinstance(ran, FileRead) else ''}]"
        )
    if execution.limit:
        return f"{output}\n[{_struck(execution.limit, limits)}]".lstrip("\n")
    texts = arm.profile.texts
    template = texts.failed if execution.exit_code else texts.ran
    if "{command}" in texts.empty and not (output or execution.exit_code):
        template = texts.empty
    command = ran.text if isinstance(ran, BashRun) else ""
    if "{command}" in template and not command:  # what names the command is about no other tool
        template = "{output}"
    template = template.format(
        command=command,
        output=output,
        quoted=json.dumps(output),
        code=execution.exit_code,
        seconds=f"{execution.seconds:.1f}",
    )
    return template.lstrip("\n") or texts.empty


def _line_range(output: str, ran: FileRead) -> str:
    """Return a note on the lines of the file that were shown."""
    lines = output.count("\n")
    if not lines:
        return f": line {ran.first} of the file goes on"
    return f": it shows lines {ran.first} to {ran.first + lines - 1} of the file, which goes on"


def _struck(limit: str, limits: Limits) -> str:
    """Return one plain sentence about the limit that struck the command."""
    return {
        Limit.WALL_TIME: f"The command was stopped: it ran longer than {limits.call_seconds:g} s.",
        Limit.CPU: f"The command was stopped: it used {limits.cpu_seconds} s of CPU time.",
        Limit.MEMORY: f"The command hit the memory limit of {limits.memory >> 20} MiB.",
        Limit.PROCESSES: f"The command hit the limit of {limits.processes} processes.",
        Limit.OPEN_FILES: f"The command hit the limit of {limits.open_files} open files.",
        Limit.FILE_SIZE: f"The command hit the limit of {limits.file_size >> 20} MiB for a file.",
        Limit.WORKSPACE: f"The disk is full: the workspace holds {limits.workspace >> 20} MiB.",
        Limit.INODES: f"The disk is full: the workspace holds {limits.inodes} files.",
        Limit.OUTPUT: f"The command was stopped: it wrote over {limits.output_killed >> 20} MiB.",
        Limit.STUCK: "The command could not be ended in time. All files are as at the start.",
    }[Limit(limit)]


FOUND = 100  # files or lines that a search shows
_LONGEST = 400  # characters of a line that was found
# Runs in the sandbox: files below a folder, or their lines in which a pattern is, as JSON.
_WALK = """\
import json, os, re, sys
folder, pattern = sys.argv[1:]
if os.path.realpath(folder) != os.path.abspath(folder):
    sys.exit(folder + ": a link leads to another folder")
wanted = re.compile(pattern) if pattern else None
for base, folders, names in os.walk(folder):
    folders.sort()
    for name in sorted(names):
        path = os.path.normpath(os.path.join(base, name))
        if wanted is None:
            print(json.dumps([path, 0, ""]))
        elif os.path.isfile(path) and not os.path.islink(path):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    for number, line in enumerate(file, 1):
                        if wanted.search(line):
                            print(json.dumps([path, number, line.rstrip("\\n")]))
            except OSError:
                continue  # what cannot be read
"""
FileTask = FileRead | FileWrite | FileEdit | FileSearch


async def carried_out(
    task: FileTask, sandbox: Sandbox, readable: PathRules, saved: Mapping[str, str]
) -> Execution:
    """Carry out the task; a file that cannot be accessed is a failure of the call.

    `readable` are the files that a search may list, `saved` the results kept outside the workspace.
    """
    started = time.perf_counter()
    if isinstance(task, FileSearch):
        return await _searched(task, sandbox, readable)
    try:
        match task:
            case FileRead():
                text, cut = await _read(task, sandbox, saved)
            case FileWrite():
                text, cut = await _written(task, sandbox), False
            case FileEdit():
                text, cut = await _edited(task, sandbox), False
    except OSError as error:
        said = f"{task.path}: {error.strerror or error}"
        return Execution(1, said, time.perf_counter() - started)
    return Execution(0, text, time.perf_counter() - started, cut=cut)


async def _read(task: FileRead, sandbox: Sandbox, saved: Mapping[str, str]) -> tuple[str, bool]:
    """Return the text, and if it was cut: then behind a whole line, where `offset` can go on."""
    if (saved_text := saved.get(task.path)) is not None:
        lines = StringIO(saved_text).readlines()[task.first - 1 :]
        return "".join(lines[: task.lines]), False
    content, cut = await sandbox.read_lines(*task)
    whole = content[: content.rfind(b"\n") + 1] if cut else b""
    return (whole or content).decode("utf-8", "replace"), cut


async def _written(task: FileWrite, sandbox: Sandbox) -> str:
    await sandbox.write(task.path, task.content.encode("utf-8", "surrogatepass"))
    return f"wrote {len(task.content.splitlines())} lines to {task.path}"


async def _edited(task: FileEdit, sandbox: Sandbox) -> str:
    """Raises OSError, also where the old text stands nowhere or in several places."""
    try:
        before = (await sandbox.read(task.path)).decode("utf-8", "replace")
    except FileNotFoundError:
        if task.old:
            raise
        before = ""
    places = before.count(task.old) if task.old else int(not before)
    if places != 1:
        raise OSError(f"the old text stands in {places} places of the file; it must be one")
    after = before.replace(task.old, task.new) if task.old else task.new
    await sandbox.write(task.path, after.encode("utf-8", "surrogatepass"))
    return f"edited {task.path}"


async def _searched(task: FileSearch, sandbox: Sandbox, readable: PathRules) -> Execution:
    pattern = "" if task.tool == GLOB else task.pattern
    # Isolated: modules beside the files are not imported, whoever wrote them.
    ran = await sandbox.run(("python3", "-I", "-S", "-c", _WALK, task.folder, pattern))
    if ran.exit_code != 0:
        return Execution(1, ran.output.strip().rpartition("\n")[2], ran.seconds, ran.limit)
    matches = [*_matching(task, readable, ran.output)]
    more = [f"({len(matches) - FOUND} more are not shown)"] if len(matches) > FOUND else []
    text = "\n".join([*matches[:FOUND], *more]) or "nothing was found"
    return Execution(0, text, ran.seconds)


def _matching(task: FileSearch, readable: PathRules, listed: str) -> Iterator[str]:
    """Yield the entries of the listing that match the task and may be read."""
    named = task.pattern if task.tool == GLOB else task.include or "**"
    below = "" if task.folder == "." else f"{task.folder}/"
    for entry in listed.splitlines():
        try:
            path, number, line = json.loads(entry)
        except ValueError:  # the last one, where the output was cut
            continue
        inner = path.removeprefix(below)
        fits = any(path_regex(each).fullmatch(inner) for each in (named, f"**/{named}"))
        if fits and readable.admits(path):
            yield f"{path}:{number}: {line[:_LONGEST]}" if number else path


SUFFIXES = ("", "-wal")
SAID = 200  # characters of what a test says of its failure, or a check found


@dataclass(slots=True)
class Database:
    """The task's database as it is now: queried again only when its files were changed.

    `schema` is what the fixture declared there; `first` its stamp before any call ran.
    """

    sandbox: Sandbox
    path: str
    schema: Schema = ()
    last_questions: tuple[Question, ...] = ()
    answers: Answers | None = None
    stamp: str = ""
    first: str = ""

    async def begin(self) -> None:
        """Remember it as it is before the first call."""
        self.first = await self._stamp()

    async def is_touched(self) -> bool:
        """Return True if it may have changed since `begin`: a stamp costs a tenth of a query."""
        if self.first and self.first == await self._stamp():
            return False
        self.first = ""  # once touched, it stays touched
        return True

    async def ask(self, questions: Sequence[Question]) -> Answers:
        """Return the answers: the same value as before while nothing was changed."""
        batch = tuple(questions)
        stamp = await self._stamp()
        if self.answers is None or not stamp or (stamp, batch) != (self.stamp, self.last_questions):
            self.answers = await self.sandbox.ask(self.path, batch, self.schema)
            self.last_questions, self.stamp = batch, stamp
        return self.answers

    async def _stamp(self) -> str:
        return await self.sandbox.stamp([self.path + suffix for suffix in SUFFIXES])


def evaluate(check: Check, answer: Answer) -> GoalCheck:
    """Return the check with the value found in the database."""
    value = answer.first
    held = not answer.error and bool(answer.rows) and value == check.expect
    shown_value = shortened(value, SAID) if isinstance(value, str) else value
    return GoalCheck(check.name, held, check.expect, shown_value, answer.error)


def evaluate_trace(trace: Trace, commands: Iterable[str]) -> GoalCheck:
    """Return the check that a successful call is one of those that the trace requires."""
    ways = [call.split() for call in trace.calls]
    held = any(all(word in call for word in words) for call in commands for words in ways)
    said = f"no call that ran well has {' or '.join(map(repr, trace.calls))}"
    return GoalCheck(trace.name, held, said="" if held else said)


async def run_test(sandbox: Sandbox, test: CodeTest, variables: Variables) -> GoalCheck:
    """Run a test and return its check; if it fails, with the last line of its output."""
    ran = await run_program(sandbox, test, variables)
    if ran.exit_code == 0:
        return GoalCheck(test.name, held=True)
    said = ran.output.strip().rpartition("\n")[2] or f"exit code {ran.exit_code}"
    return GoalCheck(test.name, held=False, said=(ran.limit or said)[:SAID])


async def run_program(sandbox: Sandbox, program: CodeTest, variables: Variables) -> Execution:
    """Run it in the workspace, under the limits of a call, hidden from the model's own code."""
    return await sandbox.judge(program.source, json.dumps(variables))


Row = Mapping[str, Value]
FEW = 100  # rows; a world that asks for more agents than that is refused them anyway


@dataclass(slots=True)
class WorldMonitor:
    """Records first observations; `goal_turn` is the turn after which the goal first held.

    `answers` and `tested` are valid while nothing has run since.
    """

    scenario: Scenario
    prompt: Prompt
    database: Database
    answers: Answers | None = None
    tested: tuple[GoalCheck, ...] | None = None
    goal_turn: int | None = None
    succeeded: list[str] = field(default_factory=list)  # calls that ran well, as they were written
    reached: dict[str, HandshakeStep] = field(default_factory=dict)
    requested: set[tuple[str, str]] = field(default_factory=set)

    def ran(self, call: ToolCall, execution: Execution) -> None:
        if execution.exit_code == 0:
            self.succeeded.append(call.raw if call.command is None else call.command)

    async def after(self, agent: str, turn: int, position: int) -> list[tuple[Agent, Row]]:
        """Check the effects of this call; return the requests for agents that are new."""
        self.answers = self.tested = None
        if not self.prompt.handshake and not self.scenario.agents:
            return []
        _, steps, requests = self._split(await self._now())
        self._note_steps(steps, agent, turn, position)
        return [
            (spawned, row)
            for spawned, answer in zip(self.scenario.agents, requests, strict=True)
            for row in answer.named
            if self._is_new(spawned.name, str(next(iter(row.values()))))
        ]

    async def note_goal(self, turn: int) -> None:
        """Check the goal after this turn, unless it held before or the database is untouched."""
        is_known = self.goal_turn is not None or not await self.database.is_touched()
        if not is_known and all(check.held for check in await self._checked()):
            await self.judged(turn)

    async def judged(self, turn: int) -> tuple[GoalCheck, ...]:
        """Return every check of the goal, every trace and every test, as of this turn."""
        traced = (evaluate_trace(trace, self.succeeded) for trace in self.prompt.traces)
        checks = (*await self._checked(), *traced, *await self._tested())
        if self.goal_turn is None and all(check.held for check in checks):
            self.goal_turn = turn
        return checks

    async def _checked(self) -> tuple[GoalCheck, ...]:
        goal, *_ = self._split(await self._now())
        return tuple(map(evaluate, self.prompt.goal, goal))

    async def _tested(self) -> tuple[GoalCheck, ...]:
        if self.tested is None:
            sandbox, variables = self.database.sandbox, self.prompt.variables
            tests = [await run_test(sandbox, test, variables) for test in self.scenario.tests]
            self.tested = tuple(tests)
        return self.tested

    @property
    def handshake(self) -> tuple[HandshakeStep, ...]:
        names = (step.name for step in self.prompt.handshake)
        return tuple(self.reached.get(name) or HandshakeStep(name, reached=False) for name in names)

    async def _now(self) -> Answers:
        """Return the answers to all queries of this database, made at once."""
        if self.answers is None:
            checks = (*self.prompt.goal, *self.prompt.handshake)
            questions = [Question(check.query) for check in checks]
            questions += [Question(query, FEW) for query in self.prompt.requests]
            self.answers = await self.database.ask(questions)
        return self.answers

    def _split(self, answers: Answers) -> tuple[Sequence[Answer], ...]:
        """Return the answers for the goal, for the handshake and for the agents."""
        goal, steps = len(self.prompt.goal), len(self.prompt.handshake)
        none = Answer(error=answers.broken)
        by_query = answers.answers or (none,) * (goal + steps + len(self.scenario.agents))
        return by_query[:goal], by_query[goal : goal + steps], by_query[goal + steps :]

    def _note_steps(self, answers: Sequence[Answer], agent: str, turn: int, position: int) -> None:
        """Record new steps; in order are those after all earlier ones, or by the same call."""
        in_order = True
        for step, answer in zip(self.prompt.handshake, answers, strict=True):
            if step.name not in self.reached and evaluate(step, answer).held:
                done = HandshakeStep(step.name, True, agent, turn, position, in_order)  # noqa: FBT003
                self.reached[step.name] = done
            in_order = in_order and step.name in self.reached

    def _is_new(self, agent: str, request: str) -> bool:
        new = (agent, request) not in self.requested
        self.requested.add((agent, request))
        return new
