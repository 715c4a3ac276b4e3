"""Small logs in the shape of each format, and what is in them."""
# ruff: noqa: E501 -- a line of a log is read as one line

import io
import json
import sqlite3
import zipfile

RULES = [
    {"permission": "*", "pattern": "*", "action": "allow"},
    {"permission": "bash", "pattern": "*", "action": "deny"},
    {"permission": "bash", "pattern": "uv run scripts/notes.py *", "action": "allow"},
]
DENIAL = (
    "The user has specified a rule which prevents you from using this specific tool call. "
    f"Here are some of the relevant rules {json.dumps(RULES)}"
)
LISTS, PIPES = "uv run scripts/notes.py list", "uv run scripts/notes.py list | head"


def jsonl(*values):
    return "".join(f"{json.dumps(value)}\n" for value in values)


def claude_call(number, name, given, result, *, is_error=False, **beside):
    """An assistant's message with one call, and the line with its result."""
    shared = {"sessionId": "c1", "cwd": "/srv/work", "version": "2.1.0"}
    when = f"2026-03-01T10:00:{number:02}.000Z"
    use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
    message = {"id": f"m{number}", "role": "assistant", "model": "opus", "content": [use]}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
    if is_error:
        answer["is_error"] = True
    content = {"role": "user", "content": [answer]}
    return (
        {"type": "assistant", "uuid": f"a{number}", "timestamp": when, "message": message, **shared},
        {"type": "user", "uuid": f"u{number}", "timestamp": when, "message": content, **shared, **beside},
    )  # fmt: skip


CLAUDE = [
    ("Bash", {"command": "ls"}, "a.txt", "ran"),
    ("Bash", {"command": "rm x"}, "Permission to use Bash with command rm x has been denied.", "denied"),
    ("Bash", {"command": "false"}, "Exit code 3\nno", "tool-error"),
    ("Edit", {"path": "x"}, "The user doesn't want to proceed with this tool use.", "rejected"),
    ("Grep", {}, "<tool_use_error>InputValidationError: Grep failed", "malformed"),
    ("Fly", {}, "<tool_use_error>Error: No such tool available: Fly</tool_use_error>", "invalid-tool"),
    ("Read", {}, "<tool_use_error>Sibling tool call errored</tool_use_error>", "cascade"),
    ("Bash", {"command": "w"}, "Claude requested permissions to use Bash, but you haven't granted it yet.", "denied"),
]  # fmt: skip


def claude():
    told = [
        line
        for number, (name, given, said, recorded) in enumerate(CLAUDE)
        for line in claude_call(number, name, given, said, is_error=recorded != "ran")
    ]
    return jsonl(
        {"type": "summary", "summary": "x"}, *told, told[0]
    )  # the last one for a second time


def part(number, tool, state):
    return {
        "id": f"prt_{number}",
        "type": "tool",
        "tool": tool,
        "callID": f"c{number}",
        "state": state,
    }


OPENCODE = [
    (part(0, "bash", {"status": "completed", "input": {"command": LISTS}, "output": "[]", "metadata": {"exit": 0}, "time": {"start": 1_760_000_000_000, "end": 1_760_000_001_500}}), "ran"),
    (part(1, "bash", {"status": "error", "input": {"command": PIPES}, "error": DENIAL}), "denied"),
    (part(2, "invalid", {"status": "completed", "input": {"tool": "fly", "error": "Model tried to call unavailable tool 'fly'."}}), "invalid-tool"),
    (part(3, "invalid", {"status": "completed", "input": {"tool": "bash", "error": 'Invalid input for tool bash: JSON parsing failed: Text: {"command": .\nError message: x'}}), "malformed"),
    (part(4, "bash", {"status": "error", "input": {"value": '{"comm'}, "error": "Model tried to call unavailable tool 'invalid'."}), "malformed"),
    (part(5, "edit", {"status": "error", "input": {}, "error": "The edit tool was called with invalid arguments: x"}), "malformed"),
    (part(6, "bash", {"status": "error", "input": {"command": "ls"}, "error": "PermissionRejectedError: no"}), "rejected"),
    (part(7, "read", {"status": "error", "input": {"filePath": "x"}, "error": "File not found"}), "tool-error"),
    (part(8, "bash", {"status": "pending", "input": {}, "raw": ""}), "pending"),
    (part(9, "bash", {"status": "error", "input": {"command": "rm z"}, "error": "Denied by the allow list demo (x): `rm`."}), "denied"),
]  # fmt: skip
INFO = {
    "id": "ses_1",
    "version": "1.18.33",
    "directory": "/srv/proj",
    "agent": "worker",
    "time": {"created": 1_760_000_000_000},
}


def opencode_messages():
    for number, (one, _) in enumerate(OPENCODE):
        parts = [one, {**one, "id": "prt_again"}] if number == 8 else [one]
        yield (
            {
                "id": f"msg_{number}",
                "role": "assistant",
                "agent": "worker",
                "modelID": "qwen",
                "time": {
                    "created": 1_760_000_000_000 + number,
                    "completed": 1_760_000_000_500 + number,
                },
                "tokens": {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 2}},
            },
            parts,
        )


def export():
    messages = [{"info": info, "parts": parts} for info, parts in opencode_messages()]
    return json.dumps({"info": INFO, "messages": messages})


def run_json():
    return jsonl(
        *(
            {"type": "tool_use", "timestamp": 1, "sessionID": "ses_1", "part": {**one, "messageID": info["id"]}}
            for info, parts in opencode_messages()
            for one in parts
        )
    )  # fmt: skip


def database(path):
    """As OpenCode 1.2 and later have it; its last message is still in the WAL. Keep it open."""
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA wal_autocheckpoint=0")
    store.execute("CREATE TABLE session (id, parent_id, directory, version, agent)")
    store.execute("CREATE TABLE message (id, session_id, time_created, data)")
    store.execute("CREATE TABLE part (id, message_id, data)")
    store.execute("INSERT INTO session VALUES ('ses_1', NULL, '/srv/proj', '1.18.33', 'worker')")
    for at, (info, parts) in enumerate(opencode_messages()):
        without = {k: v for k, v in info.items() if k != "id"}
        row = (info["id"], "ses_1", at, json.dumps(without))
        store.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        for one in parts:
            store.execute(
                "INSERT INTO part VALUES (?, ?, ?)", (one["id"], info["id"], json.dumps(one))
            )
    return store


SECOND = [
    ({"status": "completed", "input": {"command": LISTS}, "content": [{"type": "text", "text": "[]"}]}, "ran"),
    ({"status": "error", "input": {"command": PIPES}, "error": {"type": "permission", "message": DENIAL}}, "denied"),
    ({"status": "error", "input": {"command": "ls"}, "error": {"type": "tool.execution", "message": "no"}}, "tool-error"),
    ({"status": "running", "input": {"command": "w"}}, "pending"),
]  # fmt: skip


def second_database(path):
    """As OpenCode 2 has it, by what others tell of it: no message has parts elsewhere."""
    store = sqlite3.connect(path, isolation_level=None)
    store.execute(
        "CREATE TABLE IF NOT EXISTS session_v2 (id, parent_id, directory, version, agent, model)"
    )
    store.execute("CREATE TABLE IF NOT EXISTS session_message (id, session_id, type, seq, data)")
    store.execute(
        "INSERT INTO session_v2 VALUES ('ses_2', NULL, '/srv/two', '2.0.12', 'build', '{}')"
    )
    tools = [
        {"type": "tool", "id": f"c{at}", "name": "shell", "state": state}
        for at, (state, _) in enumerate(SECOND)
    ]
    said = [{"type": "text", "text": "on"}, {"type": "reasoning", "text": "hm"}]
    model = {"id": "qwen", "providerID": "p"}
    tokens = {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 2, "write": 0}}
    shared = {"agent": "build", "model": model, "tokens": tokens}
    rows = [("m1", "user", {"text": "go"})]
    for at, content in enumerate((said + tools[:2], tools[2:])):
        times = {"created": 1_760_000_000_000 + at, "completed": 1_760_000_000_500 + at}
        rows.append((f"m{at + 2}", "assistant", {**shared, "time": times, "content": content}))
    for at, (name, kind, data) in enumerate(rows):
        row = (name, "ses_2", kind, at, json.dumps(data))
        store.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
    return store


def tree(folder):
    """As OpenCode 1.0 and 1.1 have it; the file of the session."""
    files = {"session/p/ses_1.json": INFO}
    for info, parts in opencode_messages():
        files[f"message/ses_1/{info['id']}.json"] = info
        for one in parts:
            files[f"part/{info['id']}/{one['id']}.json"] = one
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return folder / "session/p/ses_1.json"


def function(name, arguments, identifier="x"):
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


CHAT = jsonl(
    {
        "model": "qwen",
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [function("bash", '{"command": "ls"}', "0"), function("bash", {"command": "id"}, "0")]},
            {"role": "tool", "tool_call_id": "0", "content": "a"},
            {"role": "tool", "tool_call_id": "0", "content": "b"},
            {"role": "assistant", "content": "", "tool_calls": [function("bash", '{"command": "x', "0")]},
            {"role": "assistant", "content": 'sure\n<tool_call>\n{"name": "bash", "arguments": {"command": "w"}}\n</tool_call>'},
        ],
    },
    {
        "request": {"model": "qwen", "messages": [{"role": "user", "content": "go"}]},
        "response": {"id": "r", "usage": {"prompt_tokens": 7}, "choices": [{"finish_reason": "stop", "message": {"content": [{"type": "text", "text": "done"}]}}]},
    },
)  # fmt: skip


def codex_call(number, name, arguments, output):
    call = {"type": "function_call", "call_id": f"k{number}", "name": name, "arguments": arguments}
    result = {"type": "function_call_output", "call_id": f"k{number}", "output": output}
    return [
        {"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": one}
        for one in (call, result)
    ]


CODEX = jsonl(
    {"type": "session_meta", "payload": {"id": "x1", "cwd": "/srv/p", "cli_version": "0.9"}},
    {"type": "turn_context", "payload": {"model": "gpt", "cwd": "/srv/p"}},
    *codex_call(1, "exec_command", '{"cmd": "ls"}', "Process exited with code 0\nOutput:\na"),
    *codex_call(2, "shell", '{"command": ["bash", "-lc", "rm x"]}', 'exec_command failed: Rejected("no")'),
    *codex_call(3, "fly", "{}", "unsupported call: fly"),
    *codex_call(4, "shell", '{"comm', "failed to parse function arguments: EOF"),
    *codex_call(6, "shell", '{"command": ["ls"]}', '{"output":"a","metadata":{"exit_code":2,"duration_seconds":0.1}}'),
    *codex_call(8, "exec_command", '{"cmd": "rm z"}', "Command blocked by PreToolUse hook: Denied by the allow list demo (x). Command: rm z"),
    *codex_call(7, "exec_command", '{"cmd": "rm y"}', f"exec_command failed for {400 * 'y'}: Rejected(no)"),
    *codex_call(5, "shell", '{"command": ["false"]}', {"content": "no", "metadata": {"exit_code": 1}, "success": False}),
    {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}},
)  # fmt: skip


def gemini_call(name, args, status, said):
    response = {"functionResponse": {"response": {"output": said}}}
    return {"id": "g", "name": name, "args": args, "status": status, "result": [response]}


GEMINI_MESSAGES = [
    {"id": "1", "type": "user", "content": "go"},
    {"id": "2", "type": "gemini", "model": "flash", "content": "ok", "timestamp": "2026-03-01T10:00:00Z", "toolCalls": [
        gemini_call("run_shell_command", {"command": "ls"}, "success", "a"),
        gemini_call("run_shell_command", {"command": "rm x"}, "cancelled", "no"),
        gemini_call("fly", {}, "error", 'Tool "fly" not found in registry.'),
    ]},
]  # fmt: skip
GEMINI = json.dumps({"sessionId": "g1", "projectHash": "abc", "messages": GEMINI_MESSAGES})
GEMINI_LINES = jsonl(
    {"sessionId": "g1", "kind": "main"},
    *GEMINI_MESSAGES,
    {"id": "3", "type": "gemini", "content": "wrong way"},
    {"$rewindTo": "3"},
    {"$set": {"lastUpdated": "x"}},
)


def qwen_call(number, name, args, **result):
    call = {"functionCall": {"id": f"q{number}", "name": name, "args": args}}
    shared = {
        "sessionId": "q",
        "cwd": "/srv/p",
        "version": "0.15",
        "timestamp": "2026-03-01T10:00:00Z",
    }
    return (
        {"type": "assistant", "model": "coder", "message": {"parts": [call]}, **shared},
        {"type": "tool_result", "message": {"parts": []}, "toolCallResult": {"callId": f"q{number}", **result}, **shared},
    )  # fmt: skip


QWEN = jsonl(
    *qwen_call(1, "run_shell_command", {"command": "ls"}, status="success", resultDisplay="a"),
    *qwen_call(2, "run_shell_command", {"command": "rm"}, status="error", errorType="execution_denied"),
    *qwen_call(3, "fly", {}, status="error", errorType="tool_not_registered"),
    *qwen_call(4, "run_shell_command", {}, status="error", errorType="invalid_tool_params"),
)  # fmt: skip
ATIF = json.dumps(
    {
        "schema_version": "ATIF-v1.7",
        "session_id": "h1",
        "agent": {"name": "terminus", "version": "2", "model_name": "gpt"},
        "steps": [
            {"source": "user", "message": "go"},
            {"source": "agent", "message": "ok", "tool_calls": [
                {"tool_call_id": "1", "function_name": "execute_bash", "arguments": {"command": "ls"}},
                {"tool_call_id": "2", "function_name": "think", "arguments": {}},
            ], "observation": {"results": [{"source_call_id": "1", "content": "a"}]}},
        ],
    }
)  # fmt: skip
SWE = json.dumps(
    {
        "environment": "main",
        "history": [
            {"role": "assistant", "content": "as once", "action": "ls", "is_demo": True},
            {"role": "assistant", "content": "look", "action": "ls -a", "tool_calls": []},
            {"role": "user", "content": "a"},
            {
                "role": "assistant",
                "content": "edit",
                "tool_calls": [function("edit", '{"line": 1}')],
            },
            {"role": "tool", "tool_call_ids": ["x"], "content": "File updated"},
        ],
        "info": {"swe_agent_version": "1.1"},
        "replay_config": json.dumps({"agent": {"model": {"name": "gpt-x"}}}),
    }
)
MINI = json.dumps(
    [
        {"role": "assistant", "content": "THOUGHT\n\n```bash\nls -a\n```"},
        {"role": "user", "content": "<returncode>2</returncode>\n<output>no</output>"},
        {"role": "assistant", "content": "no command here"},
        {"role": "user", "content": "x", "extra": {"interrupt_type": "FormatError", "response": "no command here"}},
    ]
)  # fmt: skip


def attribute(key, value):
    return {"key": key, "value": {"stringValue": value}}


def span(number, name, *attributes, status=0):
    return {
        "traceId": "t1",
        "name": name,
        "startTimeUnixNano": str(1_760_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_760_000_001_000_000_000 + number),
        "attributes": [attribute(*one) for one in attributes],
        "status": {"code": status},
    }


OTEL = json.dumps(
    {"resourceSpans": [{"scopeSpans": [{"spans": [
        span(3, "execute_tool bash", ("gen_ai.tool.name", "bash"), ("error.type", "permission_denied"), status=2),
        span(1, "chat gpt", ("gen_ai.operation.name", "chat"), ("gen_ai.response.model", "gpt")),
        span(2, "execute_tool bash", ("gen_ai.tool.name", "bash"), ("gen_ai.tool.call.arguments", '{"command": "ls"}')),
    ]}]}]}
)  # fmt: skip
# The same calls as other libraries write them down.
TRACELOOP = (
    ("traceloop.span.kind", "tool"),
    ("traceloop.entity.name", "bash"),
    ("traceloop.entity.input", '{"inputs": {"command": "ls"}}'),
)
OPENINFERENCE = (
    ("openinference.span.kind", "TOOL"),
    ("tool.name", "bash"),
    ("input.value", '{"command": "ls"}'),
)
PYDANTIC = (
    ("gen_ai.tool.name", "bash"),
    ("gen_ai.tool.call.id", "c"),
    ("tool_arguments", '{"command": "ls"}'),
)
AI_SDK = (
    ("ai.toolCall.name", "bash"),
    ("ai.toolCall.id", "c"),
    ("ai.toolCall.args", '{"command": "ls"}'),
)
OTHER_SPANS = {
    "bash.tool": TRACELOOP,
    "bash": OPENINFERENCE,
    "running tool": PYDANTIC,
    "ai.toolCall": AI_SDK,
}
INSPECT_SAMPLE = {
    "id": 1,
    "epoch": 1,
    "messages": [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "1", "function": "bash", "arguments": {"command": "ls"}},
            {"id": "2", "function": "bash", "arguments": {"command": "rm x"}},
            {"id": "3", "function": "bash", "arguments": {}, "parse_error": "no JSON"},
            {"id": "4", "function": "bash", "arguments": {"command": "w"}},
        ]},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "content": "", "error": {"type": "approval", "message": "no"}},
        {"role": "tool", "tool_call_id": "3", "content": "", "error": {"type": "parsing", "message": "no"}},
        {"role": "tool", "tool_call_id": "4", "content": "", "error": {"type": "timeout", "message": "slow"}},
    ],
}  # fmt: skip
INSPECT_EVAL = {"run_id": "r", "model": "openai/gpt", "task": "popularity", "created": "2026-03-01T10:00:00+00:00"}  # fmt: skip
INSPECT = json.dumps({"version": 2, "eval": INSPECT_EVAL, "samples": [INSPECT_SAMPLE]})


def inspect_archive():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": INSPECT_EVAL}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(INSPECT_SAMPLE))
    return held.getvalue()


HOOK_CALL = {
    "v": 1,
    "at": "2026-11-23T03:00:00Z",
    "harness": "claude-code",
    "session": "h",
    "agent": "",
    "model": "opus",
    "cwd": "/srv/p",
    "tool": "Bash",
    "arguments": {"command": "ls | head"},
    "mode": "observe",
}
HOOK = jsonl(
    {"v": 1, "at": "2026-11-23T02:59:00Z", "event": "start"},
    {
        **HOOK_CALL,
        "call": "1",
        "verdict": "denied",
        "class": "pipe-to-filter",
        "hint": "Run it alone.",
        "ran": True,
    },
    {**HOOK_CALL, "call": "2", "verdict": "allowed"},
    {**HOOK_CALL, "call": "3", "verdict": "not-judged"},
)

# Format, name of the file, content, and what was recorded of its calls, in their order.
SAMPLES = [
    ("claude-code", "c1.jsonl", claude(), [recorded for *_, recorded in CLAUDE]),
    ("opencode", "export.json", export(), [recorded for _, recorded in OPENCODE]),
    ("opencode", "run.jsonl", run_json(), [recorded for _, recorded in OPENCODE]),
    ("openai", "chat.jsonl", CHAT, ["not-observable", "not-observable", "malformed", "malformed"]),
    (
        "codex",
        "rollout-1.jsonl",
        CODEX,
        ["ran", "denied", "invalid-tool", "malformed", "ran", "denied", "denied", "ran"],
    ),
    ("gemini-cli", "session-1.json", GEMINI, ["ran", "rejected", "invalid-tool"]),
    ("gemini-cli", "session-1.jsonl", GEMINI_LINES, ["ran", "rejected", "invalid-tool"]),
    ("qwen-code", "q.jsonl", QWEN, ["ran", "denied", "invalid-tool", "malformed"]),
    ("atif", "trajectory.json", ATIF, ["not-observable", "not-observable"]),
    ("swe-agent", "a.traj", SWE, ["not-observable", "not-observable"]),
    ("swe-agent", "m.traj.json", MINI, ["ran", "malformed"]),
    ("hook", "calls.jsonl", HOOK, ["denied", "not-observable"]),
    ("otel", "spans.json", OTEL, ["ran", "denied"]),
    ("inspect", "log.json", INSPECT, ["ran", "denied", "malformed", "tool-error"]),
    ("inspect", "log.eval", inspect_archive(), ["ran", "denied", "malformed", "tool-error"]),
]
