"""Codex: verdicts under its rules files, and its tools and words.

`engine` gives the verdicts, `rules_files` reads and writes the files.
"""

from functools import partial

from agenteval.dialects.codex import rules_files
from agenteval.dialects.codex.engine import Codex
from agenteval.dialects.registry import Dialect
from agenteval.prompt.arm import (
    CONTENT,
    READ,
    RUN,
    WRITE,
    Form,
    Parameter,
    Profile,
    Texts,
    path_named,
)

# Names, parameters and replies are those of the program, as its logs show them; descriptions are
# our own. Ids of chunks are left out. An edit changes
# what a model reads: raise the version.
# Codex itself reads and writes files by commands; a scenario that offers these tools finds them
# here under names in its manner.
_PROFILE = Profile(
    name="codex",
    version=3,
    forms={
        "bash": Form("exec_command", RUN, (Parameter("cmd", "the command"),)),
        "read": Form("read_file", READ, (path_named("file_path"),)),
        "write": Form("write_file", WRITE, (path_named("file_path"), CONTENT)),
    },
    texts=Texts(
        denied='exec_command failed: Rejected("`{command}` rejected: blocked by policy")',
        denied_path='{tool} failed: Rejected("`{command}` rejected: blocked by policy")',
        unknown="unsupported call: {tool}",
        malformed="failed to parse function arguments: {reason}",
        invalid="failed to parse function arguments: {reason}",
        ran="Wall time: {seconds} seconds\nProcess exited with code {code}\nOutput:\n{output}",
        failed="Wall time: {seconds} seconds\nProcess exited with code {code}\nOutput:\n{output}",
        empty="",
    ),
)


DIALECT = Dialect(
    name="codex",
    checked=("0.169.0",),
    profile=_PROFILE,
    readers={
        "codex": rules_files.read,
        "codex-on-request": partial(rules_files.read, approval="on-request"),
        "codex-never": partial(rules_files.read, approval="never"),
    },
    write=rules_files.write,
    left_behind=rules_files.left_behind,
    suffix=".rules",
    beside=("codex:.codex/rules", "codex:{home}/rules"),
    in_mode=rules_files.in_mode,
    unruled=rules_files.of_engine(Codex(()), "codex", "codex without rules"),
)
