"""The texts that a model reads of its tools: their schemas, and the text after each call.

The words are the arm's (core/prompt/arm.py); only what a limit says is the same for all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO

from agenteval.core.call import BASH, BashRun, Denied, FileRead, Runnable, ToolCall
from agenteval.core.policy.arguments import path_argument
from agenteval.core.policy.policy import Policy, Quoting, World
from agenteval.core.prompt.arm import Arm, Cut
from agenteval.core.prompt.profile import Profile
from agenteval.core.scenario import Limits
from agenteval.core.span import Span
from agenteval.core.trial import Execution, Limit
from agenteval.protocols import ToolSchema


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
