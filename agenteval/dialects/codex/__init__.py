"""Codex: verdicts under its rules files, and its tools and words.

`engine` gives the verdicts, `rules_files` reads and writes the files.
"""

from functools import partial

from agenteval.dialects.codex import rules_files
from agenteval.dialects.codex.engine import Codex
from agenteval.dialects.registry import Dialect, load_table
from agenteval.prompt.arm import Profile

DIALECT = Dialect(
    name="codex",
    checked=("0.169.0",),
    profile=load_table("codex/profile.toml", Profile),
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
