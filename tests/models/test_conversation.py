"""What a simulated model makes of the messages it is sent."""

import pytest

from agenteval.models.oracle import Oracle
from agenteval.models.player import PastCall
from agenteval.models.simulated import _past_calls
from agenteval.play import tools as tool_texts
from agenteval.prompt.arm import STRICT
from agenteval.sandbox.maker import render
from agenteval.trial.trial import Message
from agenteval.workflows.stages import load_stages


def assistant(*calls: tuple[str, str, object]) -> dict[str, object]:
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": ident, "function": {"name": name, "arguments": arguments}}
            for ident, name, arguments in calls
        ],
    }


def tool(ident: str, content: object) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": ident, "content": content}


def test_calls_are_paired_with_their_replies_by_id_and_else_in_order():
    messages = [
        assistant(("a", "bash", '{"command": "x"}'), ("b", "read", '{"path": "y"}')),
        tool("b", "Permission denied: no"),
        tool("a", "ok"),
        assistant(("0", "bash", "{"), ("0", "bash", {"command": "z"})),
        tool("other", "Invalid tool call: arguments are not JSON"),
        tool("0", [{"type": "text", "text": "fine"}]),
        tool("0", "an answer to nothing"),
    ]
    assert _past_calls(messages) == [
        PastCall("read", {"path": "y"}, denied=True, reply="Permission denied: no"),
        PastCall("bash", {"command": "x"}, denied=False, reply="ok"),
        PastCall("bash", None, denied=True, reply="Invalid tool call: arguments are not JSON"),
        PastCall("bash", {"command": "z"}, denied=False, reply="fine"),
    ]


@pytest.mark.parametrize(
    ("reply", "denied"),
    [
        ("Permission denied: the rules do not allow `ls` here. Nothing was run.", True),
        ("Unknown tool: 'emit_guidance'. Nothing was run.", True),
        ("Invalid tool call: arguments are not JSON. Nothing was run.", True),
        ("Error: The user has specifically restricted access to this command", True),
        ("The user has specified a rule which prevents you from using this", True),
        ('PermissionDeniedError({"ruleset": []})', True),
        ("Model tried to call unavailable tool 'invalid'", True),
        ("Permission to use Bash with command ls has been denied.", True),
        ("Claude requested permissions to use Bash, but you haven't granted it yet.", True),
        ("<tool_use_error>Error: No such tool available: web_search", True),
        ("unsupported call: web_search", True),
        ("error: no attempt 9. Known: 401", False),
        ("Traceback (most recent call last):\nPermissionError: Permission denied: 'x'", False),
        ("note 2: permission was denied by the landlord", False),
        (None, False),
    ],
)
def test_a_denial_is_known_by_how_it_begins(reply, denied):
    (call,) = _past_calls([assistant(("a", "bash", "{}")), tool("a", reply)])
    assert call.denied is denied


async def test_a_tool_that_prints_the_task_does_not_begin_the_solution_again():
    (stage,) = load_stages(["mail/draft"])
    prompt = render(stage.scenario, 0)
    tools = tool_texts.schemas(STRICT.profile, ("bash", "read", "write"))
    messages, oracle, made = [*prompt.messages], Oracle([stage.scenario]), []
    while calls := (await oracle.ask(messages, tools, seed=0)).calls:
        made += [(call.name, call.arguments) for call in calls]
        answers = [Message("tool", prompt.task, call_id=call.id) for call in calls]
        messages += [Message("assistant", "", calls), *answers]
        assert len(made) <= len(prompt.solution)
    assert made == [(step.tool, step.arguments) for step in prompt.solution]
