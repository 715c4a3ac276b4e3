"""The most memory that a hostile file makes a command hold, beside one with nothing in it."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

MB = 1 << 20
CAP = 32 * MB  # bytes, as `json_documents.LONGEST`
SIZE = 80  # MB of the file; short of that which measures took, and more than twice the cap


def filled(path, head, unit, tail, size=SIZE):
    with path.open("wb") as file:
        file.write(head)
        for _ in range(size):
            file.write(unit * (MB // len(unit)))
        file.write(tail)
    return path


def archive(folder):
    with zipfile.ZipFile(folder / "x.eval", "w", zipfile.ZIP_DEFLATED) as packed:
        with packed.open("header.json", "w") as file:
            file.write(b'{"a": "')
            for _ in range(SIZE):
                file.write(b"A" * MB)
            file.write(b'"}')
    return folder / "x.eval"


FILES = {
    "inspect archive": ("inspect", archive),
    "inspect": (
        "inspect",
        lambda at: filled(at / "x.json", b'{"samples": [{"a": "', b"A", b'"}]}'),
    ),
    "values": (
        "inspect",
        lambda at: filled(at / "x.json", b'{"samples": [[', b'{"a":1},', b"0]]}", 30),
    ),
    "otel": ("otel", lambda at: filled(at / "x.json", b'{"resourceSpans": ["', b"A", b'"]}')),
    "claude-code": ("claude-code", lambda at: filled(at / "x.jsonl", b'{"a": "', b"A", b'"}\n')),
    "values of a line": (
        "openai",
        lambda at: filled(at / "x.jsonl", b'{"a": [', b'{"a":1},', b"0]}\n", 30),
    ),
}
TURN = '{"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": '
BEGUN = f'{TURN}{{"name": "bash", "arguments": "'.encode()  # a text in which JSON is escaped
WIDE = '\N{GRINNING FACE}"}}]}]}\n'.encode()
FILES |= {
    "one wide character": ("openai", lambda at: filled(at / "x.jsonl", BEGUN, b"A", WIDE, 31)),
    "values of arguments": (
        "openai",
        lambda at: filled(at / "x.jsonl", BEGUN + b"[", b"1,", b'1]"}}]}]}\n', 30),
    ),
    "escapes of arguments": (
        "openai",
        lambda at: filled(at / "x.jsonl", BEGUN + b"[", rb"{\"a\":1},", b'1]"}}]}]}\n', 30),
    ),
    "a command as an object": (
        "openai",
        lambda at: filled(at / "x.jsonl", BEGUN[:-1] + b'{"command": "', b"A", b'"}}}]}]}\n', 31),
    ),
}
# A process begins with the peak of the one that started it: a small one stands between.
MEASURED = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "agenteval", *sys.argv[1:]], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(folder, *words):
    """Bytes."""
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(ended.stdout) * 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_value_without_bounds_costs_no_more_than_three_caps(tmp_path, name) -> None:
    kind, write = FILES[name]
    empty = tmp_path / "empty.jsonl"
    empty.write_text(json.dumps({"type": "user", "messages": []}) + "\n")
    least = peak(tmp_path, "ingest", "claude-code", str(empty), "--store", "empty.db")
    most = peak(tmp_path, "ingest", kind, str(write(tmp_path)), "--store", "s.db")
    assert 0.9 * least < most < least + 3 * CAP


LONG = {
    "a.toml": ("classify", "ls", "--allowlist", "a.toml"),
    "agenteval.toml": ("models",),
    "settings.json": ("classify", "ls", "--allowlist", "claude-code:settings.json"),
    "x.rules": ("classify", "ls", "--allowlist", "codex:x.rules"),
    "opencode.json": ("classify", "ls", "--allowlist", "opencode:opencode.json"),
    "counts.csv": ("import", "counts", "counts.csv", "--store", "s.db"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_file_of_rules_without_end_is_refused_and_not_held(cli, project, name) -> None:
    with (project / name).open("wb") as file:
        file.truncate(1 << 32)  # it takes no room on the disk
    result = cli(*LONG[name])
    assert (result.code, f"{name}: is larger than" in result.err) == (2, True)
