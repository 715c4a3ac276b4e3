"""Calls that look as if a rule fitted, and that bash or the file system takes otherwise."""

import tomllib

import pytest

from agenteval.config.allowlists import convert, policy
from agenteval.core.policy import Policy, allows_command


def allow_list(text: str) -> Policy:
    return policy(convert("t", tomllib.loads(text)), name="t", where="t")


REDIRECTS = """
[bash]
allow = ["echo *", "cat"]
constructs = ["file-redirect", "stderr-redirect", "input-redirect", "pipe"]
"""


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("echo hi > 5", False),
        ("echo hi > -", False),
        ("echo hi >5", False),
        ("echo hi 2> 1", False),
        ("echo hi &> 9", False),
        ("echo hi &>> 9", False),
        ("cat < 5", False),
        ("cat < -", False),
        ("echo hi >&5", True),
        ("echo hi 2>&1", True),
        ("echo hi 2>&-", True),
        ("cat <&3", True),
        ("echo hi |& cat", True),
        ("echo hi > /dev/null", True),
    ],
)
def test_a_file_named_as_a_descriptor_is_a_file(command: str, *, allowed: bool) -> None:
    assert allows_command(command, allow_list(REDIRECTS)) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [("cat <&2", False), ("cat 0<&2", False), ("cat 2<&1", True), ("cat >&2", True)],
)
def test_reading_from_stderr_is_input(command: str, *, allowed: bool) -> None:
    rules = allow_list('[bash]\nallow = ["cat"]\nconstructs = ["stderr-redirect"]')
    assert allows_command(command, rules) is allowed


def test_no_wildcard_reaches_history_which_writes_files() -> None:
    assert not allows_command("history -w out.txt", allow_list('bash.allow = ["history *"]'))
    assert allows_command("history -w x", allow_list('bash.allow = ["history -w x"]'))
