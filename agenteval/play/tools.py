"""A model's tools: the texts that it reads of them, the file tools, and what they have changed.

First the texts: schemas, denials, and answers to calls. Their words are the arm's (prompt/arm.py);
only the sentence about a limit is the same for all. Then the file tools (read, write, edit and
search), which work inside the sandbox. Last the world monitor, which looks at the trial's sandbox
from outside: the goal, the handshake and the requested agents, through queries of the database.
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
    finding = verdict.primary
    profile = arm.profile
    offered = [tool for tool in policy.tools if tool in profile.forms]
    names = profile.names(offered)
    texts = profile.texts
    tool = names.get(call.name, call.name)
    match finding.failure_class:
        case "malformed-arguments" if call.malformed or call.name.strip():
            text = texts.malformed if call.malformed else texts.invalid
        case "malformed-arguments" | "hallucinated-tool":
            # Its name as it was written, which may be one of ours and none of the profile's.
            text = texts.unknown
            tool = call.name
        case _:
            text = texts.denied if call.name == BASH else texts.denied_path
    hint = finding.hint
    if call.name in profile.forms:
        hint = profile.retold(call.name, hint)
    return text.format(
        tool=tool,
        tools=", ".join(names.values()),
        command=call.command or path_argument(call.arguments or {}) or call.raw,
        evidence=_faults(verdict),
        reason=call.malformed or hint,
        rules=_rules(call, policy) if "{rules}" in text else "",
        rule=_json([_denying(call.name)])[1:-1] if "{rule}" in text else "",
    )


def _faults(verdict: Denied) -> str:
    """Return all parts at fault, the worst first; a part within another one is not repeated."""
    spans: list[Span] = []
    for finding in verdict.findings:
        if not any(_contains(span, finding.evidence) for span in spans):
            spans.append(finding.evidence)
    *others, last = [span.text.strip() for span in spans]
    if not others:
        return last
    # The arm's text sets the backticks before the first and behind the last part.
    return f"{'`, `'.join(others)}` and `{last}"


def _contains(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _rules(call: ToolCall, policy: Policy) -> str:
    """Return the rules for one tool in the form in which OpenCode shows them; the last match wins.

    Read so, a rule of ours may permit what ours denies, as it knows no `&&`: it is left out.
    """
    if isinstance(policy.engine, Quoting):
        return _json(policy.engine.quoted(call.name, call.arguments or {}, World().root))
    subject = call.command or path_argument(call.arguments or {}) or ""
    rules = [{"permission": "*", "action": "deny", "pattern": "*"}, _denying(call.name)]
    for pattern in _allowed_patterns(call.name, policy):
        # Read as one of any text, it would fit a part of the request.
        start = pattern.partition("*")[0].rstrip()
        if start not in subject:
            rules.append({"permission": call.name, "pattern": pattern, "action": "allow"})
    return _json(rules)


def _allowed_patterns(tool: str, policy: Policy) -> Sequence[str]:
    if tool == "read":
        return policy.read.allow
    if tool == "write":
        return policy.write.allow
    if tool != BASH:
        return ()
    patterns = [rule.text for rule in policy.bash.patterns]
    for script in policy.bash.scripts:
        words = (*script.runner, script.path, "*")
        patterns.append(" ".join(words))
    return patterns


def _denying(tool: str) -> dict[str, str]:
    return {"permission": tool, "pattern": "*", "action": "deny"}


def _json(rules: Sequence[Mapping[str, str]]) -> str:
    return json.dumps(rules, separators=(",", ":"))


# Characters; many times what any model's context holds.
KEPT = 32 << 20


@dataclass(slots=True)
class TextBudget:
    """The characters that a trial may still keep: its replies, and the output of its calls.

    If none are left the trial ends; the call that used up the rest loses output.
    """

    remaining: int = field(default_factory=lambda: KEPT)

    def take(self, text: str) -> None:
        self.remaining -= len(text)

    def fit(self, execution: Execution) -> Execution:
        """Return it as kept. Its output counts twice: as it came, and as a model reads it."""
        fitting = execution.output[: max(0, self.remaining)]
        self.take(2 * fitting)
        if fitting == execution.output:
            return execution
        return replace(execution, output=fitting, cut=True)

    @property
    def outgrown(self) -> str:
        return "" if self.remaining > 0 else "replies and outputs have filled the room of a trial"


# Outside the workspace: no file is there, `saved` has it.
SAVED = "/tmp/agent/tool-output/{}.txt"  # noqa: S108 -- no real file


def shown_part(output: str, cut: Cut | None, saved: dict[str, str]) -> str:
    """Return the shown part of an output; all of it is added to `saved` if the notice says so."""
    if cut is None:
        return output
    lines = StringIO(output).readlines()
    if len(output) <= cut.characters and len(lines) <= cut.lines:
        return output
    if cut.keep == "end":
        end = "".join(lines[-cut.lines :])[-cut.characters :]
        notice = f"{len(output) - len(end)} characters before this are not shown."
        if cut.saved:
            place = SAVED.format(len(saved) + 1)
            saved[place] = output
            notice += f" All of it is in {place}."
        return f"[{notice}]\n{end}"
    begin, end = _both_ends(lines, cut)
    left_out = len(output) - len(begin) - len(end)
    notice = f"\n[{left_out} characters are not shown: use head, tail or grep to see less]\n"
    return f"{begin}{notice}{end}"


def _both_ends(lines: Sequence[str], cut: Cut) -> tuple[str, str]:
    """Return half of what may be shown from the beginning, and half from the end."""
    first = last = lines
    if len(lines) > cut.lines:
        half = cut.lines // 2
        first = lines[: cut.lines - half]
        last = lines[len(lines) - half :]
    begin = "".join(first)
    end = "".join(last)
    half = cut.characters // 2
    return begin[:half], end[max(0, len(end) - half) :]


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
    command = ""
    if isinstance(ran, BashRun):
        command = ran.text
        output = shown_part(output, arm.cut, saved)
    if execution.cut:
        note = _line_range(output, ran) if isinstance(ran, FileRead) else ""
        output += f"\n[output cut here{note}]"
    if execution.limit:
        return f"{output}\n[{_limit_sentence(execution.limit, limits)}]".lstrip("\n")
    texts = arm.profile.texts
    template = texts.failed if execution.exit_code else texts.ran
    if "{command}" in texts.empty and not (output or execution.exit_code):
        template = texts.empty
    # A text that names the command is about no other tool.
    if "{command}" in template and not command:
        template = "{output}"
    text = template.format(
        command=command,
        output=output,
        quoted=json.dumps(output),
        code=execution.exit_code,
        seconds=f"{execution.seconds:.1f}",
    )
    return text.lstrip("\n") or texts.empty


def _line_range(output: str, ran: FileRead) -> str:
    """Return a note on the lines of the file that were shown."""
    lines = output.count("\n")
    if not lines:
        return f": line {ran.first} of the file goes on"
    return f": it shows lines {ran.first} to {ran.first + lines - 1} of the file, which goes on"


def _limit_sentence(limit: str, limits: Limits) -> str:
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


# The file tools.

MATCHES = 100  # files or lines that a search shows
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


async def carry_out(
    task: FileRead | FileWrite | FileEdit | FileSearch,
    sandbox: Sandbox,
    readable: PathRules,
    saved: Mapping[str, str],
) -> Execution:
    """Carry out the task; a file that cannot be accessed is a failure of the call.

    `readable` are the files that a search may list, `saved` the results kept outside the workspace.
    """
    started = time.perf_counter()
    if isinstance(task, FileSearch):
        return await _search(task, sandbox, readable)
    is_cut = False
    try:
        match task:
            case FileRead():
                text, is_cut = await _read(task, sandbox, saved)
            case FileWrite():
                text = await _write(task, sandbox)
            case FileEdit():
                text = await _edit(task, sandbox)
    except OSError as error:
        text = f"{task.path}: {error.strerror or error}"
        return Execution(1, text, time.perf_counter() - started)
    return Execution(0, text, time.perf_counter() - started, cut=is_cut)


async def _read(task: FileRead, sandbox: Sandbox, saved: Mapping[str, str]) -> tuple[str, bool]:
    """Return the text, and if it was cut: then behind a whole line, where `offset` can go on."""
    if task.path in saved:
        lines = StringIO(saved[task.path]).readlines()
        rest = lines[task.first - 1 :]
        return "".join(rest[: task.lines]), False
    content, cut = await sandbox.read_lines(*task)
    whole = content[: content.rfind(b"\n") + 1] if cut else b""
    return (whole or content).decode("utf-8", "replace"), cut


async def _write(task: FileWrite, sandbox: Sandbox) -> str:
    content = task.content.encode("utf-8", "surrogatepass")
    await sandbox.write(task.path, content)
    return f"wrote {len(task.content.splitlines())} lines to {task.path}"


async def _edit(task: FileEdit, sandbox: Sandbox) -> str:
    """Raise OSError also if the old text stands nowhere or in several places."""
    try:
        content = await sandbox.read(task.path)
    except FileNotFoundError:
        if task.old:
            raise
        content = b""
    before = content.decode("utf-8", "replace")
    # Without an old text, an empty or new file is filled.
    places = before.count(task.old) if task.old else int(not before)
    if places != 1:
        raise OSError(f"the old text stands in {places} places of the file; it must be one")
    after = before.replace(task.old, task.new)
    await sandbox.write(task.path, after.encode("utf-8", "surrogatepass"))
    return f"edited {task.path}"


async def _search(task: FileSearch, sandbox: Sandbox, readable: PathRules) -> Execution:
    pattern = "" if task.tool == GLOB else task.pattern
    # Isolated: modules beside the files are not imported, whoever wrote them.
    words = ("python3", "-I", "-S", "-c", _WALK, task.folder, pattern)
    ran = await sandbox.run(words)
    if ran.exit_code != 0:
        last_line = ran.output.strip().rpartition("\n")[2]
        return Execution(1, last_line, ran.seconds, ran.limit)
    matches = list(_matches(task, readable, ran.output))
    lines = matches[:MATCHES]
    if len(matches) > MATCHES:
        lines.append(f"({len(matches) - MATCHES} more are not shown)")
    return Execution(0, "\n".join(lines) or "nothing was found", ran.seconds)


def _matches(task: FileSearch, readable: PathRules, listing: str) -> Iterator[str]:
    """Yield the entries of the listing that match the task and may be read."""
    pattern = task.pattern if task.tool == GLOB else task.include or "**"
    # A pattern without a folder fits a name at any depth.
    regexes = [path_regex(pattern), path_regex(f"**/{pattern}")]
    below = "" if task.folder == "." else f"{task.folder}/"
    for entry in listing.splitlines():
        try:
            path, number, line = json.loads(entry)
        except ValueError:  # the last one, where the output was cut
            continue
        inner = path.removeprefix(below)
        is_match = any(regex.fullmatch(inner) for regex in regexes)
        if is_match and readable.admits(path):
            yield f"{path}:{number}: {line[:_LONGEST]}" if number else path


# The world monitor.

SUFFIXES = ("", "-wal")  # of the database's files
# Characters of a test's report of its failure, or of a value that a check found.
LONGEST_REPORT = 200


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
        is_same = stamp and (stamp, batch) == (self.stamp, self.last_questions)
        if self.answers is None or not is_same:
            self.answers = await self.sandbox.ask(self.path, batch, self.schema)
            self.last_questions = batch
            self.stamp = stamp
        return self.answers

    async def _stamp(self) -> str:
        files = [self.path + suffix for suffix in SUFFIXES]
        return await self.sandbox.stamp(files)


def evaluate(check: Check, answer: Answer) -> GoalCheck:
    """Return the check with the value found in the database."""
    value = answer.first
    is_met = not answer.error and bool(answer.rows) and value == check.expect
    if isinstance(value, str):
        value = shortened(value, LONGEST_REPORT)
    return GoalCheck(check.name, is_met, check.expect, value, answer.error)


def _evaluate_trace(trace: Trace, commands: Iterable[str]) -> GoalCheck:
    """Return the check that a successful call is one of those that the trace requires."""
    required_words = [call.split() for call in trace.calls]
    for command in commands:
        for words in required_words:
            if all(word in command for word in words):
                return GoalCheck(trace.name, held=True)
    missing = f"no call that ran well has {' or '.join(map(repr, trace.calls))}"
    return GoalCheck(trace.name, held=False, said=missing)


async def _run_test(sandbox: Sandbox, test: CodeTest, variables: Variables) -> GoalCheck:
    """Run a test and return its check; if it fails, with the last line of its output."""
    ran = await run_program(sandbox, test, variables)
    if ran.exit_code == 0:
        return GoalCheck(test.name, held=True)
    last_line = ran.output.strip().rpartition("\n")[2]
    report = ran.limit or last_line or f"exit code {ran.exit_code}"
    return GoalCheck(test.name, held=False, said=report[:LONGEST_REPORT])


async def run_program(sandbox: Sandbox, program: CodeTest, variables: Variables) -> Execution:
    """Run it in the workspace, under the limits of a call, hidden from the model's own code."""
    return await sandbox.judge(program.source, json.dumps(variables))


Row = Mapping[str, Value]
# Rows of requests for agents; more than that are refused anyway.
FEW = 100


@dataclass(slots=True)
class WorldMonitor:
    """Records when goal and handshake first held; `goal_turn` is the turn after which the goal did.

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

    def record(self, call: ToolCall, execution: Execution) -> None:
        if execution.exit_code == 0:
            self.succeeded.append(call.raw if call.command is None else call.command)

    async def follow(self, agent: str, turn: int, position: int) -> list[tuple[Agent, Row]]:
        """Check the effects of this call; return the requests for agents that are new."""
        self.answers = self.tested = None
        if not self.prompt.handshake and not self.scenario.agents:
            return []
        _, steps, requests = self._split(await self._current_answers())
        self._note_steps(steps, agent, turn, position)
        new_requests = []
        for spawned, answer in zip(self.scenario.agents, requests, strict=True):
            for row in answer.named:
                ident, *_ = row.values()  # the first column is the request's own
                request = spawned.name, str(ident)
                if request not in self.requested:
                    self.requested.add(request)
                    new_requests.append((spawned, row))
        return new_requests

    async def note_goal(self, turn: int) -> None:
        """Check the goal after this turn, unless it held before or the database is untouched."""
        if self.goal_turn is not None or not await self.database.is_touched():
            return
        # Tests are programs, and dear: they run once the queries hold.
        if all(check.held for check in await self._check_queries()):
            await self.judge(turn)

    async def judge(self, turn: int) -> tuple[GoalCheck, ...]:
        """Return every check of the goal, every trace and every test, as of this turn."""
        queries = await self._check_queries()
        traces = [_evaluate_trace(trace, self.succeeded) for trace in self.prompt.traces]
        checks = (*queries, *traces, *await self._run_tests())
        if self.goal_turn is None and all(check.held for check in checks):
            self.goal_turn = turn
        return checks

    async def _check_queries(self) -> tuple[GoalCheck, ...]:
        goal, *_ = self._split(await self._current_answers())
        return tuple(map(evaluate, self.prompt.goal, goal))

    async def _run_tests(self) -> tuple[GoalCheck, ...]:
        if self.tested is None:
            sandbox = self.database.sandbox
            variables = self.prompt.variables
            tests = [await _run_test(sandbox, test, variables) for test in self.scenario.tests]
            self.tested = tuple(tests)
        return self.tested

    @property
    def handshake(self) -> tuple[HandshakeStep, ...]:
        steps = []
        for step in self.prompt.handshake:
            missed = HandshakeStep(step.name, reached=False)
            steps.append(self.reached.get(step.name, missed))
        return tuple(steps)

    async def _current_answers(self) -> Answers:
        """Return the answers to all queries of this database, made at once."""
        if self.answers is None:
            checks = (*self.prompt.goal, *self.prompt.handshake)
            questions = [Question(check.query) for check in checks]
            questions += [Question(query, FEW) for query in self.prompt.requests]
            self.answers = await self.database.ask(questions)
        return self.answers

    def _split(self, answers: Answers) -> tuple[Sequence[Answer], ...]:
        """Return the answers for the goal, for the handshake and for the agents."""
        steps_at = len(self.prompt.goal)
        agents_at = steps_at + len(self.prompt.handshake)
        by_query = answers.answers
        if not by_query:
            queries = agents_at + len(self.scenario.agents)
            by_query = (Answer(error=answers.broken),) * queries
        return by_query[:steps_at], by_query[steps_at:agents_at], by_query[agents_at:]

    def _note_steps(self, answers: Sequence[Answer], agent: str, turn: int, position: int) -> None:
        """Record new steps; in order are those after all earlier ones, or by the same call."""
        in_order = True
        for step, answer in zip(self.prompt.handshake, answers, strict=True):
            if step.name not in self.reached and evaluate(step, answer).held:
                self.reached[step.name] = HandshakeStep(
                    step.name,
                    reached=True,
                    agent=agent,
                    turn=turn,
                    position=position,
                    in_order=in_order,
                )
            in_order = in_order and step.name in self.reached
