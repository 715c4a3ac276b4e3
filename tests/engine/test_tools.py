from pathlib import Path

import pytest

from agenteval.config.allowlists import load_policy
from agenteval.core.call import Denied, Finding, ToolCall
from agenteval.core.policy.policy import World
from agenteval.core.prompt.profile import STRICT
from agenteval.core.scenario import Limits
from agenteval.core.span import Span
from agenteval.core.trial import Execution
from agenteval.dialects.registry import profiles
from agenteval.engine import tool_texts
from agenteval.taxonomy.judge import judge

POLICY = load_policy("ralf", roots=[Path(__file__).resolve().parents[2]])


def denied(failure_class: str, evidence: str = "ls", hint: str = "") -> Denied:
    return Denied((Finding(failure_class, Span(0, 0, evidence), hint),))


@pytest.mark.parametrize(
    ("call", "verdict", "said"),
    [
        (
            ToolCall("1", "bash", "", {"command": "ls | head"}),
            denied("pipe-to-filter", "| head"),
            "Permission denied: the rules do not allow `| head` here. Nothing was run.",
        ),
        (
            ToolCall("1", "emit_guidance", "{}", {}),
            denied("hallucinated-tool"),
            "Unknown tool: 'emit_guidance'. There are: bash, read. Nothing was run.",
        ),
        (
            ToolCall("1", "bash", "{", None, "arguments are not JSON: x"),
            denied("malformed-arguments"),
            "Invalid tool call: arguments are not JSON: x. Nothing was run.",
        ),
        (
            ToolCall("1", "bash", "{}", {}),
            denied("malformed-arguments", hint="no command"),
            "Invalid tool call: the arguments do not fit the schema: no command. Nothing was run.",
        ),
    ],
)
def test_a_denial_names_the_part_and_not_the_cure(call, verdict, said) -> None:
    assert tool_texts.denial(call, verdict, STRICT, POLICY) == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls scripts/ | grep -E x", "`| grep -E x` and `ls`"),
        (
            "uv run scripts/db_query.py --tables 2>&1 | head -3 && pwd",
            "`| head -3`, `&&` and `2>&1`",
        ),
        ("uv run python scripts/db_query.py --tables", "`uv run python scripts/db_query.py`"),
        ("uv run -q scripts/db_query.py --tables", "`uv run -q scripts/db_query.py`"),
        ("python scripts/db_query.py --tables", "`python scripts/db_query.py`"),
        ("timeout 5 uv run scripts/db_query.py --tables", "`timeout 5`"),
    ],
)
def test_a_denial_names_every_part_at_fault_by_its_true_word(command, said) -> None:
    call = ToolCall("1", "bash", "", {"command": command})
    verdict = judge(call, POLICY, World())
    assert tool_texts.denial(call, verdict, STRICT, POLICY) == (
        f"Permission denied: the rules do not allow {said} here. Nothing was run."
    )


@pytest.mark.parametrize(
    ("execution", "said"),
    [
        (Execution(0, "hello\n", 0.1), "hello\n"),
        (Execution(0, "", 0.1), "[no output]"),
        (Execution(2, "usage\n", 0.1), "usage\n\n[exit code 2]"),
        (Execution(1, "", 0.1), "[exit code 1]"),
        (Execution(0, "aa", 0.1, cut=True), "aa\n[output cut here]"),
        (
            Execution(None, "", 9, "wall-time"),
            "[The command was stopped: it ran longer than 30 s.]",
        ),
        (Execution(1, "x", 9, "inodes"), "x\n[The disk is full: the workspace holds 8192 files.]"),
    ],
)
def test_an_answer_is_the_output_and_what_went_wrong(execution, said) -> None:
    assert tool_texts.answer(execution, Limits(), STRICT) == said


def test_a_schema_asks_for_one_text_and_takes_lines() -> None:
    (schema,) = tool_texts.schemas(STRICT, ["read"])
    parameters = schema["function"]["parameters"]
    kinds = {name: each["type"] for name, each in parameters["properties"].items()}
    assert (parameters["required"], kinds) == (
        ["path"],
        {"path": "string", "offset": "integer", "limit": "integer"},
    )


PIPED = "uv run scripts/db_query.py --tables | head"
RULES = (
    '[{"permission":"*","action":"deny","pattern":"*"},'
    '{"permission":"read","pattern":"*","action":"deny"},'
    '{"permission":"read","pattern":"**","action":"allow"}]'
)


@pytest.mark.parametrize(
    ("profile", "denials", "failed", "empty"),
    [
        (
            "opencode",
            [
                '{"permission":"bash","pattern":"uv run scripts/ralf.py *","action":"allow"}]',
                f"Here are some of the relevant rules {RULES}",
                "Model tried to call unavailable tool 'invalid'. Available tools: bash, read.",
                "Model tried to call unavailable tool 'invalid'. Available tools: bash, read.",
                (
                    "The bash tool was called with invalid arguments: bash needs `command`, a "
                    "string.\n"
                    "Please rewrite the input so it satisfies the expected schema."
                ),
            ],
            "boom",
            "(no output)",
        ),
        (
            "claude-code",
            [
                f"Permission to use Bash with command {PIPED} has been denied.",
                "Permission to use Read has been denied.",
                "<tool_use_error>Error: No such tool available: bash</tool_use_error>",
                "<tool_use_error>InputValidationError: Bash failed: no JSON</tool_use_error>",
                (
                    "<tool_use_error>InputValidationError: Bash failed: Bash needs `command`, a"
                    " string</tool_use_error>"
                ),
            ],
            "Exit code 2\nboom",
            "(no output)",
        ),
        (
            "codex",
            [
                f'exec_command failed: Rejected("`{PIPED}` rejected: blocked by policy")',
                'read_file failed: Rejected("`/etc/passwd` rejected: blocked by policy")',
                "unsupported call: bash",
                "failed to parse function arguments: no JSON",
                "failed to parse function arguments: exec_command needs `cmd`, a string",
            ],
            "Process exited with code 2\nOutput:\nboom",
            "Process exited with code 0\nOutput:\n",
        ),
    ],
)
def test_a_profile_says_what_its_harness_says(profile, denials, failed, empty):
    chosen = profiles()[profile]
    calls = [
        (ToolCall("1", "bash", "", {"command": PIPED}), denied("pipe-to-filter", "| head")),
        (ToolCall("1", "read", "", {"path": "/etc/passwd"}), denied("blocked-path")),
        (ToolCall("1", "bash", "{}", {}), denied("hallucinated-tool")),
        (ToolCall("1", "bash", "{", None, "no JSON"), denied("malformed-arguments")),
        (
            ToolCall("1", "bash", "{}", {}),
            denied("malformed-arguments", hint="bash needs `command`, a string"),
        ),
    ]

    said = [tool_texts.denial(call, verdict, chosen, POLICY) for call, verdict in calls]

    assert [text[-len(end) :] for text, end in zip(said, denials, strict=True)] == denials
    assert tool_texts.answer(Execution(2, "boom", 0.1), Limits(), chosen) == failed
    assert tool_texts.answer(Execution(0, "", 0.1), Limits(), chosen) == empty
