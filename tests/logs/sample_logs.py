"""Small logs in the shape of each format, and what is in them."""
# ruff: noqa: E501 -- a line of a log is read as one line

import io
import json
import sqlite3
import zipfile
from pathlib import Path

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


def sample(file):
    """A log that stands in a file, as a program wrote it."""
    return Path(__file__).with_name("samples").joinpath(file).read_text()


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
    named = {"id": f"prt_{number}", "callID": f"c{number}"}
    return {"type": "tool", "tool": tool, "state": state, **named}


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
BEGAN = 1_760_000_000_000
INFO = {
    "id": "ses_1",
    "version": "1.18.33",
    "directory": "/srv/proj",
    "agent": "worker",
    "time": {"created": BEGAN},
}


def opencode_messages():
    for number, (one, _) in enumerate(OPENCODE):
        parts = [one, {**one, "id": "prt_again"}] if number == 8 else [one]
        times = {"created": BEGAN + number, "completed": BEGAN + 500 + number}
        tokens = {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 2}}
        named = {"id": f"msg_{number}", "role": "assistant", "agent": "worker", "modelID": "qwen"}
        yield {**named, "time": times, "tokens": tokens}, parts


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
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA wal_autocheckpoint=0",
        "CREATE TABLE session (id, parent_id, directory, version, agent)",
        "CREATE TABLE message (id, session_id, time_created, data)",
        "CREATE TABLE part (id, message_id, data)",
        "INSERT INTO session VALUES ('ses_1', NULL, '/srv/proj', '1.18.33', 'worker')",
    ):
        store.execute(statement)
    for at, (info, parts) in enumerate(opencode_messages()):
        without = {k: v for k, v in info.items() if k != "id"}
        row = (info["id"], "ses_1", at, json.dumps(without))
        store.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        rows = [(one["id"], info["id"], json.dumps(one)) for one in parts]
        store.executemany("INSERT INTO part VALUES (?, ?, ?)", rows)
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
    store.execute("CREATE TABLE session_v2 (id, parent_id, directory, version, agent, model)")
    store.execute("CREATE TABLE session_message (id, session_id, type, seq, data)")
    row = ("ses_2", None, "/srv/two", "2.0.12", "build", "{}")
    store.execute("INSERT INTO session_v2 VALUES (?, ?, ?, ?, ?, ?)", row)
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
        times = {"created": BEGAN + at, "completed": BEGAN + 500 + at}
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


CHAT = sample("chat.jsonl")


def codex_call(number, name, arguments, output):
    call = {"type": "function_call", "call_id": f"k{number}", "name": name, "arguments": arguments}
    result = {"type": "function_call_output", "call_id": f"k{number}", "output": output}
    return [
        {"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": one}
        for one in (call, result)
    ]


CODEX = sample("rollout-1.jsonl")
GEMINI = sample("session-1.json")


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


QWEN = sample("q.jsonl")
ATIF = sample("trajectory.json")
SWE = sample("a.traj")
MINI = sample("m.traj.json")


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


OTEL = sample("spans.json")
# The same call as other libraries write it down, by the name of the span.
OTHER_SPANS = {
    "bash.tool": (("traceloop.span.kind", "tool"), ("traceloop.entity.name", "bash"), ("traceloop.entity.input", '{"inputs": {"command": "ls"}}')),
    "bash": (("openinference.span.kind", "TOOL"), ("tool.name", "bash"), ("input.value", '{"command": "ls"}')),
    "running tool": (("gen_ai.tool.name", "bash"), ("gen_ai.tool.call.id", "c"), ("tool_arguments", '{"command": "ls"}')),
    "ai.toolCall": (("ai.toolCall.name", "bash"), ("ai.toolCall.id", "c"), ("ai.toolCall.args", '{"command": "ls"}')),
}  # fmt: skip
INSPECT = sample("log.json")
INSPECT_EVAL, (INSPECT_SAMPLE,) = (json.loads(INSPECT)[key] for key in ("eval", "samples"))


def inspect_archive():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": INSPECT_EVAL}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(INSPECT_SAMPLE))
    return held.getvalue()


HOOK = sample("calls.jsonl")
HOOK_CALL = {
    key: value
    for key, value in json.loads(HOOK.splitlines()[2]).items()
    if key not in {"call", "verdict"}
}

# Format, name of the file, content, and what was recorded of its calls, in their order.
SAMPLES = [
    ("claude-code", "c1.jsonl", claude(), [recorded for *_, recorded in CLAUDE]),
    ("opencode", "export.json", export(), [recorded for _, recorded in OPENCODE]),
    ("opencode", "run.jsonl", run_json(), [recorded for _, recorded in OPENCODE]),
    ("openai", "chat.jsonl", CHAT, ["not-observable", "not-observable", "malformed", "malformed"]),
    ("codex", "rollout-1.jsonl", CODEX, ["ran", "denied", "invalid-tool", "malformed", "ran", "denied", "denied", "ran"]),
    ("gemini-cli", "session-1.json", GEMINI, ["ran", "rejected", "invalid-tool"]),
    ("gemini-cli", "session-1.jsonl", sample("session-1.jsonl"), ["ran", "rejected", "invalid-tool"]),
    ("qwen-code", "q.jsonl", QWEN, ["ran", "denied", "invalid-tool", "malformed"]),
    ("atif", "trajectory.json", ATIF, ["not-observable", "not-observable"]),
    ("swe-agent", "a.traj", SWE, ["not-observable", "not-observable"]),
    ("swe-agent", "m.traj.json", MINI, ["ran", "malformed"]),
    ("hook", "calls.jsonl", HOOK, ["denied", "not-observable"]),
    ("otel", "spans.json", OTEL, ["ran", "denied"]),
    ("inspect", "log.json", INSPECT, ["ran", "denied", "malformed", "tool-error"]),
    ("inspect", "log.eval", inspect_archive(), ["ran", "denied", "malformed", "tool-error"]),
]  # fmt: skip
