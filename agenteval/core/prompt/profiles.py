"""The harness profiles. An edit here changes what a model reads: raise the profile's version.

Names, parameters and replies are those of the harnesses, as their logs show them; descriptions
are our own. What differs from trial to trial in the real ones (times, ids of chunks) is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agenteval.core.prompt.profile import Form, Parameter, Profile, Texts

_COMMAND = Parameter("command", "the command")
_SAID = Parameter("description", "what it does, in a few words", required=False)
_CONTENT = Parameter("content", "all of its text")
_OFFSET = Parameter(
    "offset", "number of the line to begin with, from 1", required=False, kind="integer"
)
_LIMIT = Parameter("limit", "how many lines to return", required=False, kind="integer")
_RUN = "Run one bash command and return its whole output."
_READ = "Return the text of a file."
_WRITE = "Write a text file, in place of what it held before."


def _path(name: str) -> Parameter:
    return Parameter(name, "path of the file")


STRICT = Profile(
    name="strict",
    version=3,
    forms={
        "bash": Form("bash", _RUN, (_COMMAND,)),
        "read": Form("read", _READ, (_path("path"), _OFFSET, _LIMIT)),
        "write": Form("write", _WRITE, (_path("path"), _CONTENT)),
    },
    texts=Texts(
        denied="Permission denied: the rules do not allow `{evidence}` here. Nothing was run.",
        denied_path="Permission denied: the rules do not allow `{evidence}` here. Nothing was run.",
        unknown="Unknown tool: {tool!r}. Nothing was run.",
        garbled="Invalid tool call: {reason}. Nothing was run.",
        invalid="Invalid tool call: the arguments do not fit the schema: {reason}. "
        "Nothing was run.",
        ran="{output}",
        failed="{output}\n[exit code {code}]",
        empty="[no output]",
    ),
)

# OpenCode 1.18 under `"*": "deny"`: a denial names the rules and not the fault, a call that it
# cannot take is turned into one of a tool `invalid`, and an exit code is not told.
_NO_TOOL = "Model tried to call unavailable tool 'invalid'. Available tools: {tools}."
_RULE = (
    "The user has specified a rule which prevents you from using this specific tool call. "
    "Here are some of the relevant rules {rules}"
)
OPENCODE = Profile(
    name="opencode",
    version=2,
    forms={
        "bash": Form(
            "bash",
            _RUN,
            (_COMMAND, _SAID),
        ),
        "read": Form("read", _READ, (_path("filePath"),)),
        "write": Form("write", _WRITE, (_path("filePath"), _CONTENT)),
    },
    texts=Texts(
        denied=_RULE,
        denied_path=_RULE,
        unknown=_NO_TOOL,
        garbled=_NO_TOOL,
        invalid="The {tool} tool was called with invalid arguments: {reason}.\n"
        "Please rewrite the input so it satisfies the expected schema.",
        ran="{output}",
        failed="{output}",
        empty="(no output)",
    ),
    any_case=True,
)

CLAUDE_CODE = Profile(
    name="claude-code",
    version=2,
    forms={
        "bash": Form("Bash", _RUN, (_COMMAND, _SAID)),
        "read": Form("Read", _READ, (_path("file_path"),)),
        "write": Form("Write", _WRITE, (_path("file_path"), _CONTENT)),
    },
    texts=Texts(
        denied="Permission to use {tool} with command {command} has been denied.",
        denied_path="Permission to use {tool} has been denied.",
        unknown="<tool_use_error>Error: No such tool available: {tool}</tool_use_error>",
        garbled="<tool_use_error>InputValidationError: {tool} failed: {reason}</tool_use_error>",
        invalid="<tool_use_error>InputValidationError: {tool} failed: {reason}</tool_use_error>",
        ran="{output}",
        failed="Exit code {code}\n{output}",
        empty="(no output)",
    ),
)

# Codex itself reads and writes files by commands; a scenario that offers these tools finds them
# here under names in its manner.
CODEX = Profile(
    name="codex",
    version=2,
    forms={
        "bash": Form("exec_command", _RUN, (Parameter("cmd", "the command"),)),
        "read": Form("read_file", _READ, (_path("file_path"),)),
        "write": Form("write_file", _WRITE, (_path("file_path"), _CONTENT)),
    },
    texts=Texts(
        denied='exec_command failed: Rejected("`{command}` rejected: blocked by policy")',
        denied_path='{tool} failed: Rejected("`{command}` rejected: blocked by policy")',
        unknown="unsupported call: {tool}",
        garbled="failed to parse function arguments: {reason}",
        invalid="failed to parse function arguments: {reason}",
        ran="Process exited with code {code}\nOutput:\n{output}",
        failed="Process exited with code {code}\nOutput:\n{output}",
        empty="",
    ),
)

PROFILES: Mapping[str, Profile] = {
    each.name: each for each in (STRICT, OPENCODE, CLAUDE_CODE, CODEX)
}


def spoken(schemas: Sequence[Mapping[str, Any]]) -> Profile:
    """The profile whose forms these are; the strict one when no other fits."""
    functions = [schema["function"] for schema in schemas]
    for profile in PROFILES.values():
        known = [form.schema()["function"] for form in profile.forms.values()]
        if all(function in known for function in functions):
            return profile
    return STRICT
