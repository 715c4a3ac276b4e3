import json
from pathlib import Path

import pytest

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.prompts import arm_named, arms, judging
from agenteval.dialects.opencode.engine import wildcard
from agenteval.models.simulated import _past_calls
from agenteval.play import tools
from agenteval.policy.policy import World
from agenteval.prompt.arm import STRICT, Cut
from agenteval.shell.gate import Span
from agenteval.trial.call import Denied, Finding, ToolCall
from agenteval.trial.trial import Execution, Limits

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
    assert tools.denial(call, verdict, STRICT, POLICY) == said


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
    assert tools.denial(call, verdict, STRICT, POLICY) == (
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
    assert tools.answer(execution, Limits(), STRICT, None, {}) == said


def test_a_schema_asks_for_one_text_and_takes_lines() -> None:
    (schema,) = tools.schemas(STRICT.profile, ["read"])
    parameters = schema["function"]["parameters"]
    kinds = {name: each["type"] for name, each in parameters["properties"].items()}
    assert (parameters["required"], kinds) == (
        ["path"],
        {"path": "string", "offset": "integer", "limit": "integer"},
    )


PIPED = "uv run scripts/db_query.py --tables | head"
RULES = (
    '[{"permission":"*","pattern":"*","action":"allow"},'
    '{"permission":"external_directory","pattern":"*","action":"ask"},'
    '{"permission":"external_directory","pattern":"/tmp/opencode/*","action":"allow"},'
    '{"permission":"*","pattern":"*","action":"deny"}]'
)


@pytest.mark.parametrize(
    ("arm", "denials", "failed", "empty"),
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
            "Wall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nboom",
            "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n",
        ),
    ],
)
def test_an_arm_says_what_its_harness_says(arm, denials, failed, empty):
    chosen = arms()[arm]
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

    policy = judging(chosen, POLICY).offering(("bash", "read"))
    said = [tools.denial(call, verdict, chosen, policy) for call, verdict in calls]

    assert [text[-len(end) :] for text, end in zip(said, denials, strict=True)] == denials
    assert tools.answer(Execution(2, "boom", 0.1), Limits(), chosen, None, {}) == failed
    assert tools.answer(Execution(0, "", 0.1), Limits(), chosen, None, {}) == empty


QUOTED = (
    "uv run scripts/db_query.py --tables 2>&1",
    "uv run scripts/db_query.py --tables && uv run scripts/ralf.py status",
    "for i in 1 2; do uv run scripts/fetch_context.py --document $i; done",
    "uv run scripts/ralf.py ralf_spawn step_evaluator --attempt 433 --no-agent evaluator-small",
)


@pytest.mark.parametrize("command", QUOTED)
def test_what_opencodes_rules_permit_is_not_denied_under_its_arm(command):
    policy = judging(arms()["opencode"], POLICY)
    call = ToolCall("1", "bash", "", {"command": command})
    assert judge(call, policy).allowed
    assert not judge(call, POLICY).allowed


@pytest.mark.parametrize("command", [*QUOTED, "cat a && ls"])
def test_no_quoted_rule_of_ours_permits_what_it_denies(command):
    arm = arm_named("taught/tools+rules")
    call = ToolCall("1", "bash", "", {"command": command})
    said = tools.denial(call, judge(call, POLICY), arm, POLICY)
    rules = json.loads(said[said.index("[") :])
    last = [rule for rule in rules if wildcard(rule["pattern"], command)][-1]
    assert last["action"] == "deny"
    assert ("uv run scripts/ralf.py *" in said) == ("ralf.py" not in command)


PERMITTED = "Permission to use bash for this call has been denied"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("bare", f"{PERMITTED}."),
        (
            "rule",
            f'{PERMITTED} by this rule: {{"permission":"bash","pattern":"*","action":"deny"}}',
        ),
        ("user", "The user has declined this call of bash. Do not make it again;"),
        ("hint", "Permission denied: the rules do not allow `ls` here. Nothing was run."),
    ],
)
def test_a_kind_of_denial_tells_what_it_says_and_no_more(kind, said):
    arm, call = arm_named(f"taught/tools+{kind}"), ToolCall("1", "bash", "", {"command": "ls"})
    read = tools.denial(call, judge(call, POLICY), arm, POLICY)
    assert read.startswith(said)
    assert (arm.name, arm.denials) == (f"taught/tools+{kind}", kind)
    assert [one.denied for one in _past_calls(asked_and_answered(read))] == [True]


def asked_and_answered(reply: str):
    call = {"id": "1", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": reply},
    ]


LINES = "".join(f"{number}\n" for number in range(1, 10))
LESS = "characters are not shown: use head, tail or grep to see less"
SAVED = "All of it is in /tmp/agent/tool-output/1.txt"


@pytest.mark.parametrize(
    ("output", "cut", "read"),
    [
        (LINES, None, LINES),
        (LINES, Cut(10, 18, "end"), LINES),
        (LINES, Cut(2, 100, "end"), "[14 characters before this are not shown.]\n8\n9\n"),
        (LINES, Cut(99, 4, "ends"), f"1\n\n[14 {LESS}]\n9\n"),
        (LINES, Cut(3, 99, "ends"), f"1\n2\n\n[12 {LESS}]\n9\n"),
        (LINES, Cut(1, 99, "ends"), f"1\n\n[16 {LESS}]\n"),
        (LINES, Cut(99, 1, "ends"), f"\n[18 {LESS}]\n"),
        ("a\n" * 5, Cut(5, 99, "end", saved=True), "a\n" * 5),
        ("a\n" * 5 + "b", Cut(5, 99, "end"), "[2 characters before this are not shown.]\n"
         + "a\n" * 4 + "b"),
        ("10 %\r20 %\rdone\n" * 5, Cut(5, 99, "end"), "10 %\r20 %\rdone\n" * 5),
        ("10 %\rdone\n" * 3, Cut(2, 99, "end"), "[10 characters before this are not shown.]\n"
         + "10 %\rdone\n" * 2),
        ("a\n" * 5, Cut(5, 99, "ends"), "a\n" * 5),
    ],
)  # fmt: skip
def test_a_long_result_is_cut_as_the_arm_says(output, cut, read):
    saved = {}
    assert (tools.shown_part(output, cut, saved), saved) == (read, {})


def test_a_result_that_was_cut_may_be_kept_whole_in_a_file_that_the_notice_names():
    saved = {}
    read = tools.shown_part(LINES, Cut(99, 4, "end", saved=True), saved)
    assert read == f"[14 characters before this are not shown. {SAVED}.]\n8\n9\n"
    assert [*saved.values()] == [LINES]


def test_the_shells_result_is_json_whatever_it_holds():
    arm, said = arms()["taught/shell"], 'a "quoted" line\n{x}'
    read = tools.answer(Execution(2, said, 0.1), Limits(), arm, None, {})
    assert json.loads(read) == {"returncode": 2, "output": said}
